//! Compares gdb's backtraces with walks ([`Walk`]) where all files have tables, some have, and none has.
//!
//! gdb knows the CFI of every file. A walk without tables guesses, so it may find fewer frames than gdb, or other frames.
//! The end of the walk or the frames themselves have to say that they depend on a guess. Otherwise the test fails. The C
//! interface has to find the same frames.

mod in_c;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cfipack_decoder::sframe::Registers;
use cfipack_decoder::walk::{End, Module, Modules, StackFrame, Walk};
use cfipack_format::{Address, Arch};
use cfipack_testkit::needs;
use cfipack_testkit::random::cases;
use cfipack_tests::traced::images::{Image, Images};

use super::{Backtraces, Stop, Stops, compiled, run_gdb};

/// Which files have tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Tables {
    All,
    /// In the program alone.
    Program,
    /// In all but the program.
    Libraries,
    Nowhere,
    /// In all files, for code that lies 16 bytes further. Such a row may lead to a true return address of another frame,
    /// so a walk cannot always know: the test prints how many stacks are wrong in silence, and does not fail.
    Wrong,
}

impl Tables {
    /// Returns whether a file has a table.
    fn are_in(self, name: &str, program: &Path) -> bool {
        match self {
            Self::All | Self::Wrong => true,
            Self::Program => Path::new(name) == program,
            Self::Libraries => Path::new(name) != program,
            Self::Nowhere => false,
        }
    }

    /// Returns the bias of the modules of a file.
    fn bias(self, image: Option<&Image>) -> u64 {
        let more = if self == Self::Wrong { 16 } else { 0 };
        image.map_or(0, |image| image.bias.wrapping_add(more))
    }
}

/// How a walk compares with gdb's frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Equal,
    /// The walk ends early.
    ShortAndSaid,
    /// Frames differ, from a frame on that depends on a guess.
    WrongAndSaid,
    Silent,
}

const DEPTH: usize = 1000;

/// Programs of many kinds, with arguments that make them work. Programs that are not installed are left out.
const PROGRAMS: [&[&str]; 30] = [
    &["/usr/bin/as", "--version"],
    &["/usr/bin/bash", "-c", "for i in 1 2 3; do echo $((i * i)); done"],
    &["/usr/bin/bc", "--version"],
    &["/usr/bin/curl", "--version"],
    &["/usr/bin/diff", "/etc/passwd", "/etc/group"],
    &["/usr/bin/find", "/etc/default"],
    &["/usr/bin/gcc", "--version"],
    &["/usr/bin/git", "--version"],
    &["/usr/bin/grep", "-c", "r.*t", "/etc/passwd"],
    &["/usr/bin/gzip", "-c", "/etc/passwd"],
    &["/usr/bin/jq", "-n", "[range(9)] | add"],
    &["/usr/bin/ld", "--verbose"],
    &["/usr/bin/ls", "-l", "/etc"],
    &["/usr/bin/make", "-p", "-f", "/dev/null"],
    &["/usr/bin/mawk", "BEGIN { print 6 * 7 }"],
    &["/usr/bin/objdump", "-p", "/usr/bin/ls"],
    &["/usr/bin/openssl", "version"],
    &["/usr/bin/patch", "--version"],
    &["/usr/bin/perl", "-e", "print join ' ', sort map { $_ * 7 % 13 } 1 .. 99"],
    &["/usr/bin/python3", "-c", "print(sorted(range(9)))"],
    &["/usr/bin/readelf", "-lW", "/usr/bin/ls"],
    &["/usr/bin/sed", "s/r/x/", "/etc/passwd"],
    &["/usr/bin/sort", "/etc/passwd"],
    &["/usr/bin/sqlite3", ":memory:", "select count(*) from sqlite_master"],
    &["/usr/bin/ssh", "-V"],
    &["/usr/bin/tar", "cf", "-", "/etc/default"],
    &["/usr/bin/tclsh", "/dev/null"],
    &["/usr/bin/vim", "--version"],
    &["/usr/bin/wget", "--version"],
    &["/usr/bin/xz", "-kc", "/usr/bin/xz"],
];

/// Returns the address space of a process at a stop.
fn modules(
    arch: Arch,
    images: &Images,
    tables: Tables,
    has_code: bool,
    program: &Path,
) -> Modules<Vec<Module<'static, 'static>>> {
    let modules = images.mappings().map(|(range, image, code)| {
        let mut module = Module::new(Address(range.start)..Address(range.end), tables.bias(image));
        if let Some(image) = image.filter(|image| tables.are_in(&image.name, program)) {
            module = module.with_table(image.table);
        }
        if has_code { module.with_bytes(code) } else { module }
    });
    Modules::new(arch, modules.collect()).expect("the kernel's mappings ascend")
}

fn walk(
    stop: &Stop,
    process: &Backtraces,
    modules: &Modules<Vec<Module<'_, '_>>>,
) -> (Vec<StackFrame>, Option<End>) {
    let others = stop.registers();
    let [sp, fp, lr] = stop.named();
    let registers = Registers { sp: sp.unwrap(), fp, lr, others: &others };
    let (low, bytes) = &process.stack;
    let stack = Address(*low)..Address(low + bytes.len() as u64);
    let memory = |address: Address| process.word(address.0);
    let mut walk = Walk::new(modules, Address(stop.stopped.pc), registers, memory).with_stack(stack);
    let frames = walk.by_ref().take(DEPTH).collect();
    (frames, walk.end())
}

/// Compares a walk with gdb's frames, from the innermost on.
fn judge(frames: &[StackFrame], end: Option<End>, theirs: &[u64]) -> Verdict {
    let ours = frames.iter().map(|frame| frame.pc.0);
    let same = ours.zip(theirs).take_while(|(ours, theirs)| ours == *theirs).count();
    let is_complete = end.is_some_and(|end| end.is_complete());
    match frames.get(same) {
        Some(frame) if frame.found_by.is_guess() => Verdict::WrongAndSaid,
        Some(_) => Verdict::Silent,
        // gdb too may not know more.
        None if same == theirs.len() => Verdict::Equal,
        None if !is_complete => Verdict::ShortAndSaid,
        None if frames.iter().any(|frame| frame.found_by.is_guess()) => Verdict::WrongAndSaid,
        None => Verdict::Silent,
    }
}

/// The results of all comparisons.
#[derive(Default)]
struct Results {
    counts: BTreeMap<(Tables, bool, Verdict), usize>,
    silent: Vec<String>,
}

impl Results {
    /// Compares the walks of a program, whose files are below `root` if it is a program for AArch64.
    fn add(&mut self, program: &[&Path], at: &str, root: Option<&Path>) {
        let name = program[0].file_name().expect("a file").to_string_lossy().into_owned();
        let (seed, count) = cases(&format!("walks of {name}"), 40);
        let written = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("walks-{name}.backtraces"));
        let text = run_gdb(&name, program, &written, Stops { seed, count, distance: 120, at, root });
        let process = RefCell::new(Backtraces::default());
        let (mut images, mut stop) = (Images::default(), Stop::default());
        let program = program[0].canonicalize().unwrap_or_default();
        for line in text.lines() {
            if process.borrow_mut().line(line, &mut stop) {
                images.read(&*process.borrow());
                self.compare(&stop, &process.borrow(), &images, &program);
            }
        }
    }

    fn compare(&mut self, stop: &Stop, process: &Backtraces, images: &Images, program: &Path) {
        // gdb lists a frame at address 0 if a function without CFI has no caller.
        let outermost = Some(stop.outermost).filter(|pc| *pc != 0);
        let theirs: Vec<_> = stop.frames.iter().map(|frame| frame.0).chain(outermost).collect();
        for tables in [Tables::All, Tables::Program, Tables::Libraries, Tables::Nowhere, Tables::Wrong] {
            for has_code in [false, true] {
                let what = format!("{} {tables:?} {has_code}", program.display());
                let modules = modules(stop.arch, images, tables, has_code, program);
                let (frames, end) = walk(stop, process, &modules);
                let in_c = in_c::Modules::new(images, tables, has_code, program).walk(stop, process);
                let expected = (frames.iter().map(in_c::frame).collect::<Vec<_>>(), in_c::end(end));
                assert_eq!(in_c, expected, "{what}: C's walk, and Rust's");
                let verdict = judge(&frames, end, &theirs);
                *self.counts.entry((tables, has_code, verdict)).or_insert(0) += 1;
                if verdict == Verdict::Silent && tables != Tables::Wrong {
                    let ours: Vec<_> = frames.iter().map(|frame| (frame.pc, frame.found_by)).collect();
                    self.silent.push(format!("{what}: {ours:x?} {end:?}, gdb {theirs:x?} {}", stop.end));
                }
            }
        }
    }

    /// Fails if a stack is wrong in silence.
    fn judge(&self) {
        for ((tables, has_code, verdict), count) in &self.counts {
            let code = if *has_code { "with code" } else { "without code" };
            println!("tables {tables:?}, {code}: {verdict:?} {count}");
        }
        assert!(self.silent.is_empty(), "{} stacks: {}", self.silent.len(), self.silent.join("\n"));
        let equal = self.counts.get(&(Tables::All, false, Verdict::Equal)).copied().unwrap_or_default();
        assert!(equal > 100, "{equal} stops compared");
    }
}

#[test]
#[ignore = "needs gdb"]
fn no_stack_is_wrong_in_silence() {
    let mut results = Results::default();
    for program in PROGRAMS {
        let words: Vec<_> = program.iter().map(Path::new).collect();
        if words[0].is_file() {
            results.add(&words, "malloc free", None);
        }
    }
    results.judge();
}

/// Runs AArch64 programs in qemu-user: a C program, and those that a Debian root directory for arm64 has.
#[test]
#[ignore = "needs gdb-multiarch, qemu-user and a cross compiler"]
fn no_aarch64_stack_is_wrong_in_silence_slow() {
    needs::program("qemu-aarch64", "qemu-user");
    let root = std::env::var_os("CFIPACK_ARM64_ROOT").unwrap_or("/usr/aarch64-linux-gnu".into());
    let root = Path::new(&root);
    let mut results = Results::default();
    let all: [&[&str]; 6] = [
        &["-O0"],
        &["-O1", "-fno-omit-frame-pointer"],
        &["-O2", "-fomit-frame-pointer"],
        &["-Os", "-fstack-protector-all", "-mbranch-protection=standard"],
        &["-O3", "-fstack-clash-protection"],
        &["-O2", "-static"],
    ];
    for (number, options) in all.into_iter().enumerate() {
        let name = format!("walks-aarch64-{number}");
        let program = compiled("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu", &name, options);
        results.add(&[&program], "", Some(root));
    }
    for program in PROGRAMS {
        let path = root.join(&program[0][1..]);
        let mut words: Vec<_> = program.iter().map(Path::new).collect();
        words[0] = &path;
        if path.is_file() {
            results.add(&words, "malloc free", Some(root));
        }
    }
    results.judge();
}
