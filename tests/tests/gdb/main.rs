//! Compares gdb's backtraces with [`step`](cfipack_decoder::sframe::step). gdb stops programs at many places. From the
//! registers and stack that gdb reads there, we must find gdb's frames.
//!
//! There are two exceptions. If no table has the PC, gdb goes on by analysing code: our frames end there and must be
//! the start of gdb's. The same holds if the table omits the function, or if a caller's row needs a register that
//! tables do not restore.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod walks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cfipack_format::{Arch, Register};
use cfipack_testkit::needs;
use cfipack_testkit::process::{Process, Stopped};
use cfipack_testkit::random::cases;
use cfipack_tests::traced::chain::{End, Frame, by_table};
use cfipack_tests::traced::images::Images;

/// Reads what gdb prints about a program, line by line.
#[derive(Default)]
struct Backtraces {
    maps: String,
    /// Whether the last line was a line of the mappings.
    in_maps: bool,
    stack: (u64, Vec<u8>),
}

/// A stop of the program: its registers, and gdb's frames.
struct Stop {
    arch: Arch,
    stopped: Stopped,
    frames: Vec<Frame>,
    outermost: u64,
    end: String,
}

impl Default for Stop {
    fn default() -> Self {
        let stopped = Stopped { pc: 0, registers: [None; 160] };
        Self { arch: Arch::Amd64, stopped, frames: Vec::new(), outermost: 0, end: String::new() }
    }
}

impl Stop {
    /// Returns the registers by their DWARF numbers.
    fn registers(&self) -> Vec<(Register, u64)> {
        let count = if self.arch == Arch::Amd64 { 16 } else { 32 };
        (0..count).map(|n| (Register(n), self.stopped.registers[usize::from(n)].unwrap())).collect()
    }

    /// Returns the stack pointer, the frame pointer and the link register.
    fn named(&self) -> [Option<u64>; 3] {
        let value = |register: Register| self.stopped.registers[usize::from(register.0)];
        let lr = if self.arch == Arch::Amd64 { None } else { value(self.arch.return_address()) };
        [value(self.arch.stack_pointer()), value(self.arch.frame_pointer()), lr]
    }
}

impl Process for Backtraces {
    fn maps(&self) -> String {
        self.maps.clone()
    }

    /// gdb's output does not have the vDSO's bytes, so chains end there.
    fn read(&self, _: u64, _: &mut [u8]) -> usize {
        0
    }
}

impl Backtraces {
    fn word(&self, address: u64) -> Option<u64> {
        let (start, bytes) = &self.stack;
        let at = usize::try_from(address.checked_sub(*start)?).ok()?;
        bytes.get(at..).and_then(<[u8]>::first_chunk).map(|&word| u64::from_le_bytes(word))
    }

    /// Reads a line. Returns true if it completes a stop.
    fn line(&mut self, line: &str, stop: &mut Stop) -> bool {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = || rest.split(' ').map(|number| u64::from_str_radix(number, 16).expect("hexadecimal"));
        match kind {
            "map" => {
                if !std::mem::replace(&mut self.in_maps, true) {
                    self.maps.clear();
                }
                self.maps += rest;
                self.maps += "\n";
                return false;
            }
            "stop" => {
                let numbers: Vec<_> = numbers().collect();
                stop.arch = if numbers.len() == 17 { Arch::Amd64 } else { Arch::Aarch64 };
                let mut registers = [None; 160];
                for (register, number) in registers.iter_mut().zip(&numbers[1..]) {
                    *register = Some(*number);
                }
                if stop.arch == Arch::Amd64 {
                    registers[16] = Some(numbers[0]);
                }
                stop.stopped = Stopped { pc: numbers[0], registers };
                stop.frames.clear();
            }
            "stack" => {
                let (address, bytes) = rest.split_once(' ').expect("an address and bytes");
                let digits = bytes.as_bytes().chunks_exact(2).map(|pair| std::str::from_utf8(pair).unwrap());
                let bytes = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"));
                self.stack = (u64::from_str_radix(address, 16).expect("hexadecimal"), bytes.collect());
            }
            "frame" => match numbers().collect::<Vec<_>>()[..] {
                [pc, cfa] => stop.frames.push((pc, cfa)),
                [pc] => stop.outermost = pc,
                _ => panic!("{line}"),
            },
            "end" => stop.end = rest.to_owned(),
            _ => {}
        }
        self.in_maps = false;
        kind == "end"
    }
}

/// Where gdb stops a program.
struct Stops<'a> {
    seed: u64,
    count: usize,
    /// The largest number of instructions before a stop.
    distance: usize,
    /// Functions. The program runs to a call of one of them before it goes these instructions.
    at: &'a str,
    /// The root directory of an AArch64 program. `None` for a program of this machine.
    root: Option<&'a Path>,
}

/// Runs gdb's script and returns its output. `program` is a program with its arguments.
fn run_gdb(what: &str, program: &[&Path], written: &Path, stops: Stops<'_>) -> String {
    let name = if stops.root.is_some() { "gdb-multiarch" } else { "gdb" };
    needs::program(name, name);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gdb/backtraces.py");
    let _ = fs::remove_file(written);
    let mut gdb = Command::new(name);
    gdb.args(["-nx", "-batch", "-x"]).arg(script).arg("--args").args(program).stdin(Stdio::null());
    gdb.env("CFIPACK_BACKTRACES", written).env("CFIPACK_STOPS_SEED", stops.seed.to_string());
    gdb.env("CFIPACK_STOPS", stops.count.to_string()).env("CFIPACK_STOPS_AT", stops.at);
    gdb.env("CFIPACK_STOPS_DISTANCE", stops.distance.to_string());
    gdb.env("CFIPACK_STOPS_ROOT", stops.root.unwrap_or(Path::new("")));
    let output = gdb.output().expect("gdb starts");
    let text = fs::read_to_string(written).unwrap_or_default();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("started"), "{what}: gdb cannot run its script or a program here: {error}");
    text
}

fn compare(what: &str, program: &Path, stops: usize) {
    let (seed, stops) = cases(what, stops);
    let where_to_stop = Stops { seed, count: stops, distance: 120, at: "", root: None };
    let text = run_gdb(what, &[program], &program.with_extension("backtraces"), where_to_stop);
    let process = RefCell::new(Backtraces::default());
    let mut images = Images::default();
    let mut stop = Stop::default();
    let (mut compared, mut frames, mut whole) = (0, 0, 0);
    let mut ends = BTreeMap::new();
    for line in text.lines() {
        if !process.borrow_mut().line(line, &mut stop) {
            continue;
        }
        let process = process.borrow();
        let memory = |address| process.word(address);
        let (ours, end) = by_table(&stop.stopped, &memory, &mut images, &*process);
        let place = || {
            let Stop { stopped, frames, outermost, end: theirs, .. } = &stop;
            let pc = stopped.pc;
            format!("{what}, {pc:#x}: ours {ours:x?} {end:?}\ngdb {frames:x?} {outermost:x} {theirs}")
        };
        assert!(stop.frames.starts_with(&ours), "{}", place());
        // Without a row, gdb analyses code and goes on.
        let is_cut = !matches!(end, End::Outermost);
        assert!(is_cut || stop.frames.len() == ours.len(), "{}", place());
        assert!(!matches!(end, End::Lost | End::Long), "{}", place());
        compared += 1;
        frames += ours.len();
        whole += usize::from(!is_cut);
        *ends.entry(format!("{end:?}; gdb: {}", stop.end)).or_insert(0) += 1;
    }
    println!(
        "{what}: {compared} stops in {} images, {frames} frames, {whole} chains to their end",
        images.list().len()
    );
    ends.iter().for_each(|(end, count)| println!("    {count}: {end}"));
    assert!(compared * 2 > stops, "the program ended after {compared} of {stops} stops");
    assert!(frames > 2 * compared && whole * 4 > compared, "too little was unwound");
}

fn compare_c(number: usize, options: &[&str]) {
    let what = format!("gdb, C program {}", options.join(" "));
    compare(&what, &compiled("cc", "gcc", &format!("gdb-{number}"), options), 100);
}

/// Compiles the C program.
fn compiled(compiler: &str, package: &str, name: &str, options: &[&str]) -> PathBuf {
    needs::program(compiler, package);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/program.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(compiler).args(options).arg("-o").arg(&program).arg(&source).output();
    let output = compiled.expect("the compiler runs");
    assert!(output.status.success(), "{name} {options:?}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

#[test]
#[ignore = "needs gdb and gcc"]
fn c_program() {
    let all: [&[&str]; 6] = [
        &["-O0"],
        &["-O1", "-mno-red-zone"],
        &["-O2"],
        &["-O2", "-fno-omit-frame-pointer"],
        &["-Os", "-fcf-protection=full", "-fstack-protector-all"],
        &["-O2", "-static"],
    ];
    for (number, options) in all.iter().enumerate() {
        compare_c(number, options);
    }
}

#[test]
#[ignore = "needs gdb"]
fn rust_program() {
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gdb-rust");
    // Another process copies the program, so that no child of another test has it open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_traced")).arg(&program).status();
    assert!(copied.expect("cp").success(), "a copy of the program");
    compare("gdb, Rust program", &program, 100);
}
