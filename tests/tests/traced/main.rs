//! A traced program, stepped instruction by instruction: at every one the whole chain of callers
//! unwound by our tables equals the chain unwound by the CFI (gimli's evaluation, and none of
//! cfipack's code). The tables are made from each file that the program has mapped.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod child;
mod images;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_decoder::sframe::{Registers, StepError, step};
use cfipack_format::{Address, Arch, Register};
use cfipack_tests::by_cfi::Stop;
use cfipack_tests::reference::skipped;
use child::{Child, Stopped};
use images::Images;

/// Chains longer than this are cut.
const DEPTH: usize = 200;

/// One frame: where it is, and its canonical frame address.
type Frame = (u64, u64);

/// Why a chain ends.
#[derive(Clone, PartialEq, Eq, Debug)]
enum End {
    Outermost,
    /// No image, no function or no row for the PC.
    NoRow,
    /// The table leaves the function out.
    LeftOut(String),
    /// A caller's row counts its CFA from a register that no table restores.
    Unrestored(Register),
    /// A register or memory that cannot be had.
    Lost,
    Long,
}

#[test]
fn rust_program() {
    trace("Rust program", Path::new(env!("CARGO_BIN_EXE_traced")), 30_000);
}

#[test]
fn c_program_optimised() {
    trace_c("-O2");
}

#[test]
fn c_program_with_frame_pointers() {
    trace_c("-O0");
}

fn trace_c(optimisation: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/program.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("program{optimisation}"));
    let compiled = Command::new("cc").arg(optimisation).arg("-o").arg(&program).arg(&source).output();
    match compiled {
        Ok(output) if output.status.success() => {
            trace(&format!("C program {optimisation}"), &program, 10_000)
        }
        _ => skipped("the traced C program", "there is no C compiler"),
    }
}

fn trace(what: &str, program: &Path, at_least: usize) {
    let mut child = match Child::start(program) {
        Ok(child) => child,
        Err(error) => return skipped(what, &format!("tracing is not permitted: {error}")),
    };
    let mut images = Images::default();
    let (mut steps, mut frames, mut deepest, mut cut_short) = (0, 0, 0, 0);
    let mut ends = BTreeMap::new();
    loop {
        let stopped = child.registers();
        let stack = Stack::read(&child, stopped.registers[7].expect("all registers are known"));
        let (by_cfi, cfi_end) = chain_by_cfi(&stopped, &stack, &mut images, &child);
        let (by_table, table_end) = chain_by_table(&stopped, &stack, &mut images, &child);
        let place = || {
            format!(
                "{what}, instruction {steps}: cfi {by_cfi:x?} {cfi_end:?}\ntable {by_table:x?} {table_end:?}"
            )
        };
        // What the format cannot say ends the table's chain early.
        let cut = matches!(table_end, End::LeftOut(_) | End::Unrestored(_));
        assert!(by_cfi.starts_with(&by_table), "{}", place());
        assert!(cut || table_end == cfi_end && by_table.len() == by_cfi.len(), "{}", place());
        cut_short += usize::from(cut);
        *ends.entry(format!("{table_end:?}")).or_insert(0) += 1;
        steps += 1;
        frames += by_table.len();
        deepest = deepest.max(by_table.len());
        if !child.step() {
            break;
        }
    }
    println!(
        "{what}: {steps} instructions in {} images, {frames} frames, at most {deepest} deep",
        images.len()
    );
    println!("    chains end: {ends:?}");
    assert!(steps > at_least && frames > 2 * steps, "too little was unwound");
    assert!(cut_short * 10 < steps, "{cut_short} of {steps} chains were cut short");
}

/// The top of the stack, read at once.
struct Stack<'c> {
    child: &'c Child,
    from: u64,
    bytes: Vec<u8>,
}

impl<'c> Stack<'c> {
    fn read(child: &'c Child, sp: u64) -> Self {
        let mut bytes = vec![0; 8192];
        let from = sp.wrapping_sub(256);
        let read = child.read(from, &mut bytes);
        bytes.truncate(read);
        Self { child, from, bytes }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let at = address.wrapping_sub(self.from) as usize;
        if let Some(&bytes) = self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            return Some(u64::from_le_bytes(bytes));
        }
        let mut bytes = [0; 8];
        (self.child.read(address, &mut bytes) == 8).then_some(u64::from_le_bytes(bytes))
    }
}

/// Callers are looked up by the byte in front of the return address, which belongs to the call; what a
/// signal interrupted by the PC itself.
fn lookup_at(pc: u64, exact: bool) -> u64 {
    if exact { pc } else { pc.wrapping_sub(1) }
}

fn chain_by_cfi(
    stopped: &Stopped,
    stack: &Stack<'_>,
    images: &mut Images,
    child: &Child,
) -> (Vec<Frame>, End) {
    let (mut pc, mut registers, mut exact) = (stopped.pc, stopped.registers, true);
    let mut frames = Vec::new();
    while frames.len() < DEPTH {
        let at = lookup_at(pc, exact);
        let Some(image) = images.find(at, child) else { return (frames, End::NoRow) };
        match image.cfi.caller(at.wrapping_sub(image.bias), &registers, &|address| stack.word(address)) {
            Ok(caller) => {
                let Some(return_address) = caller.return_address else { return (frames, End::Lost) };
                frames.push((pc, caller.cfa));
                (pc, registers, exact) = (return_address, caller.registers, caller.signal_frame);
            }
            Err(Stop::Outermost) => return (frames, End::Outermost),
            Err(Stop::NoRow) => return (frames, End::NoRow),
            Err(Stop::Lost) => return (frames, End::Lost),
            Err(Stop::Malformed(error)) => panic!("{}: {at:#x}: {error}", image.name),
        }
    }
    (frames, End::Long)
}

fn chain_by_table(
    stopped: &Stopped,
    stack: &Stack<'_>,
    images: &mut Images,
    child: &Child,
) -> (Vec<Frame>, End) {
    let others: Vec<_> = (0..16).map(|n| (Register(n), stopped.registers[usize::from(n)].unwrap())).collect();
    let (sp, fp) = (stopped.registers[7].unwrap(), stopped.registers[6]);
    let mut registers = Registers { sp, fp, lr: None, others: &others };
    let (mut pc, mut exact) = (stopped.pc, true);
    let mut frames = Vec::new();
    while frames.len() < DEPTH {
        let at = lookup_at(pc, exact);
        let Some(image) = images.find(at, child) else { return (frames, End::NoRow) };
        let in_file = at.wrapping_sub(image.bias);
        if image.table.find(Address(in_file)).expect("our own table").is_none() {
            let left_out = image.cfi.functions().find(|function| function.contains(&in_file));
            return match left_out.filter(|function| image.left_out.contains(&function.start)) {
                Some(function) => (frames, End::LeftOut(format!("{} {:#x}", image.name, function.start))),
                None => (frames, End::NoRow),
            };
        }
        let Some(frame) = image.table.lookup_frame(Address(in_file)).expect("our own table") else {
            return (frames, End::NoRow);
        };
        match step(Arch::Amd64, &frame.row, &registers, |address| stack.word(address.0)) {
            Ok(caller) => {
                frames.push((pc, caller.cfa.0));
                registers = Registers { sp: caller.sp, fp: caller.fp, lr: None, others: &[] };
                (pc, exact) = (caller.pc.0, frame.is_signal_frame);
            }
            Err(StepError::Outermost) => return (frames, End::Outermost),
            Err(StepError::Rule) => return (frames, End::NoRow),
            Err(StepError::Register { register, .. })
                if !frames.is_empty() && register != Arch::Amd64.frame_pointer() =>
            {
                return (frames, End::Unrestored(register));
            }
            Err(StepError::Register { .. } | StepError::Memory { .. }) => return (frames, End::Lost),
        }
    }
    (frames, End::Long)
}
