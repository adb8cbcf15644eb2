//! Walks stacks by a model of the kernel's reader. Programs of three architectures stop at many points, and an emulator
//! writes their memory. Each frame that the table finds must be the frame by CFI.

mod core_file;

use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::{KernelTable, kernel_verdict};
use cfipack_testkit::by_cfi::{Cfi, Registers, Slice, Stop};
use cfipack_testkit::needs;
use cfipack_tests::convert::{build, cfi_of};
use cfipack_tests::kernel_reader::{Frame, Table, Way, step};
use gimli::EhFrame;

use core_file::Core;

/// An architecture, with the tools for its programs.
struct Target {
    arch: Arch,
    compiler: &'static str,
    emulator: &'static str,
    /// The option with which code without CFI keeps what leads to its caller.
    bare: &'static str,
}

const TARGETS: [Target; 3] = [
    Target { arch: Arch::Amd64, compiler: "gcc", emulator: "qemu-x86_64", bare: "-fno-omit-frame-pointer" },
    Target {
        arch: Arch::Aarch64,
        compiler: "aarch64-linux-gnu-gcc",
        emulator: "qemu-aarch64",
        bare: "-fno-omit-frame-pointer",
    },
    Target {
        arch: Arch::S390x,
        compiler: "s390x-linux-gnu-gcc",
        emulator: "qemu-s390x",
        bare: "-mbackchain",
    },
];

/// How often each program stops. It reaches as many points.
const POINTS: usize = 15;

/// An address for the table that no program uses.
const TABLE: u64 = 0x7f00_0000_0000;

/// Counts of the frames on all stacks of a program.
#[derive(Default, Debug, PartialEq, Eq)]
struct Counts {
    stacks: usize,
    /// Found by the table. Each is the frame by CFI.
    by_table: usize,
    /// Found by the frame pointer though the CFI has a row. Each is the frame by CFI.
    good_guesses: usize,
    bad_guesses: usize,
    /// Callers of code without CFI, which the frame pointer finds.
    without_cfi: usize,
    /// Walks that end where the walk by CFI ends.
    complete: usize,
}

#[test]
#[ignore = "needs gcc and qemu for three architectures"]
fn the_kernels_reader_walks_stacks_of_three_architectures() {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernel-reader");
    std::fs::create_dir_all(&scratch).expect("the target's directory can be written to");
    for target in &TARGETS {
        needs::program(target.compiler, "gcc, gcc-aarch64-linux-gnu, gcc-s390x-linux-gnu");
        needs::program(target.emulator, "qemu-user");
        let stacks = target.stacks(&scratch);
        let (program, cores) = stacks.unwrap_or_else(|why| panic!("{:?}: {why}", target.arch));
        check(target, &program, &cores);
    }
}

fn check(target: &Target, program: &[u8], cores: &[Core]) {
    let flex = walk_all(target.arch, program, cores, true);
    let no_flex = walk_all(target.arch, program, cores, false);
    println!("{:?}: {flex:?}; without flex FDEs: {no_flex:?}", target.arch);
    assert_eq!(flex.stacks, POINTS);
    assert!(flex.by_table > 6 * POINTS && flex.without_cfi >= 1, "{:?}: {flex:?}", target.arch);
    assert_eq!((flex.complete, flex.bad_guesses), (POINTS, 0), "{:?}: {flex:?}", target.arch);
    let guesses = |counts: &Counts| counts.good_guesses + counts.bad_guesses;
    assert!(guesses(&flex) <= guesses(&no_flex), "{:?}: {flex:?} {no_flex:?}", target.arch);
    // A table without flex FDEs omits `aligned` on x86-64, so the frame pointer is used more often.
    assert!(target.arch != Arch::Amd64 || guesses(&flex) < guesses(&no_flex), "{flex:?} {no_flex:?}");
}

/// Walks every stack by a table, with or without flex FDEs.
fn walk_all(arch: Arch, program: &[u8], cores: &[Core], has_flex: bool) -> Counts {
    let file = File::parse(program).expect("an ELF file");
    let sections = file.call_frame_sections().expect("its CFI");
    let options = Options::new().with_flex(has_flex);
    let (section, ..) = build(cfi_of(&sections), arch, options);
    let bytes = section.into_bytes(Address(TABLE), |key| key.address()).expect("within reach");
    let ours = cfipack_decoder::sframe::Section::parse(&bytes, Address(TABLE)).expect("our table");
    assert!(kernel_verdict(&ours, &KernelTable::Linked(None), 1).is_accepted());
    let table = Table::new(&bytes, TABLE, arch).expect("the model takes it");
    table.validate(0..u64::MAX).expect("the model takes all of it");
    let cfi =
        sections.iter().find(|section| section.section.name == ".eh_frame").expect("call frame information");
    let (address, text, data) = (cfi.section.address.0, cfi.text.0, cfi.data.0);
    let cfi = Cfi::eh_frame(&cfi.section.bytes, address, text, data, arch);
    let mut cfi = cfi.expect("well-formed CFI");
    let mut counts = Counts::default();
    for core in cores {
        walk_one(arch, &table, &mut cfi, core, &mut counts);
    }
    counts
}

fn walk_one<'f>(
    arch: Arch,
    table: &Table<'_>,
    cfi: &mut Cfi<'f, EhFrame<Slice<'f>>>,
    core: &Core,
    counts: &mut Counts,
) {
    let own = |register: cfipack_format::Register| core.registers[usize::from(register.0)];
    let mut frame =
        Frame { pc: core.pc, sp: own(arch.stack_pointer()), fp: own(arch.frame_pointer()), is_exact: true };
    let mut registers: Registers = std::array::from_fn(|number| core.registers.get(number).copied());
    counts.stacks += 1;
    for depth in 0..100 {
        let address = if frame.is_exact { frame.pc } else { frame.pc - 1 };
        let row = table.find(address).expect("a valid table");
        let machine = (depth == 0).then_some(&core.registers[..]);
        let found = step(arch, row, &frame, machine, &|address| core.word(address));
        let caller = cfi.caller(address, &registers, &|address| core.word(address));
        match (found, caller) {
            (Ok(found), Ok(caller)) => {
                let pc = caller.return_address.expect("the return address");
                let sp = caller.registers[usize::from(arch.stack_pointer().0)].expect("the stack pointer");
                let is_equal = (found.frame.pc, found.frame.sp) == (pc, sp);
                match found.way {
                    Way::Table => {
                        assert!(is_equal, "{arch:?} at {address:#x}: {found:?}, by CFI {pc:#x} {sp:#x}")
                    }
                    Way::FramePointer if is_equal => counts.good_guesses += 1,
                    Way::FramePointer => {
                        counts.bad_guesses += 1;
                        return;
                    }
                }
                counts.by_table += usize::from(found.way == Way::Table);
                (frame, registers) = (found.frame, caller.registers);
            }
            // Without CFI, only the frame pointer tells the caller, so there is nothing to compare with.
            (Ok(found), Err(Stop::NoRow)) => {
                assert_eq!(found.way, Way::FramePointer);
                counts.without_cfi += 1;
                frame = found.frame;
                registers.fill(None);
                registers[usize::from(arch.stack_pointer().0)] = Some(frame.sp);
                registers[usize::from(arch.frame_pointer().0)] = Some(frame.fp);
            }
            // For an outermost frame the reader tries the frame pointer, which is 0.
            (Err(_), Err(Stop::Outermost)) => {
                counts.complete += 1;
                return;
            }
            (_, Err(stop @ (Stop::Lost | Stop::Malformed(_)))) => {
                panic!("{arch:?} at {address:#x}: {stop:?}")
            }
            (Ok(found), Err(Stop::Outermost)) => panic!("{arch:?}: beyond the outermost frame: {found:?}"),
            (Err(_), _) => return,
        }
    }
    panic!("{arch:?}: a walk without an end");
}

impl Target {
    /// Builds the program and stops it at each point. An error names what is missing.
    fn stacks(&self, scratch: &Path) -> Result<(Vec<u8>, Vec<Core>), String> {
        let directory = scratch.join(format!("{:?}", self.arch));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile/kernel");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).current_dir(&directory).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            if !output.status.success() {
                return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr)));
            }
            Ok(())
        };
        let source = |name: &str| sources.join(name).to_string_lossy().into_owned();
        let bare = [
            "-O1",
            "-fno-asynchronous-unwind-tables",
            "-fno-unwind-tables",
            self.bare,
            "-fcf-protection=none",
        ];
        let bare = &bare[..if self.arch == Arch::Amd64 { 5 } else { 4 }];
        run(self.compiler, &[bare, &["-c", &source("bare.c"), "-o", "bare.o"]].concat())?;
        let program = ["-O2", "-g0", "-static", &source("frames.c"), "bare.o", "-o", "program"];
        run(self.compiler, &program)?;
        let mut cores = Vec::new();
        for point in 1..=POINTS {
            // The emulator names the core file after the time and its process.
            let stopped = Command::new("sh")
                .current_dir(&directory)
                .env("POINT", point.to_string())
                .env("EMULATOR", self.emulator)
                .args(["-c", "rm -f ./*.core; ulimit -c unlimited; \"$EMULATOR\" ./program \"$POINT\""])
                .output();
            stopped.map_err(|error| error.to_string())?;
            let core = core_in(&directory).ok_or_else(|| format!("{} writes no core file", self.emulator))?;
            cores.push(Core::read(&core, self.arch));
        }
        let program = std::fs::read(directory.join("program")).map_err(|error| error.to_string())?;
        Ok((program, cores))
    }
}

fn core_in(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|extension| extension == "core"))
}
