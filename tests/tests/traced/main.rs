//! Steps a program instruction by instruction. At each one the chain of callers by our tables must equal the chain by
//! CFI, which gimli evaluates without any code of cfipack. The program, its loader and its libraries are copies that
//! have tables, found by `PT_GNU_SFRAME`. Only the vDSO's table is made of its CFI.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod foreign;
mod pieces;
mod qemu;
mod stubs;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_testkit::child::Child;
use cfipack_testkit::needs;
use cfipack_testkit::process::Process;
use cfipack_tests::embedded_copy::EmbeddedCopy;
use cfipack_tests::traced::chain::{End, by_cfi, by_table};
use cfipack_tests::traced::images::Images;

#[test]
#[ignore = "needs ptrace and glibc"]
fn rust_program() {
    trace("Rust program", Path::new(env!("CARGO_BIN_EXE_traced")), 30_000);
}

#[test]
#[ignore = "needs ptrace and gcc"]
fn c_program_optimised() {
    trace_c("-O2");
}

#[test]
#[ignore = "needs ptrace and gcc"]
fn c_program_with_frame_pointers() {
    trace_c("-O0");
}

fn trace_c(optimisation: &str) {
    needs::program("cc", "gcc");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/program.c");
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("program{optimisation}"));
    let compiled = Command::new("cc").arg(optimisation).arg("-o").arg(&program).arg(&source).status();
    assert!(compiled.is_ok_and(|status| status.success()), "a C compiler");
    trace(&format!("C program {optimisation}"), &program, 10_000);
}

fn trace(what: &str, program: &Path, at_least: usize) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(what.replace(' ', "-"));
    let copy = EmbeddedCopy::make(program, &directory).expect("copies with tables");
    let mut child = Child::start(copy.command()).expect("tracing is permitted");
    let mut images = Images::default();
    let (mut steps, mut frames, mut deepest, mut cut_short) = (0, 0, 0, 0);
    let mut ends = BTreeMap::new();
    loop {
        let stopped = child.registers();
        let stack = Stack::read(&child, stopped.registers[7].expect("all registers are known"));
        let memory = |address| stack.word(address);
        let (by_cfi, cfi_end) = by_cfi(&stopped, &memory, &mut images, &child);
        let (by_table, table_end) = by_table(&stopped, &memory, &mut images, &child);
        let place = || {
            format!(
                "{what}, instruction {steps}: cfi {by_cfi:x?} {cfi_end:?}\ntable {by_table:x?} {table_end:?}"
            )
        };
        // If the format cannot represent a frame, the chain by tables ends there.
        let cut = matches!(table_end, End::OmittedFunction(_) | End::Unrestored(_));
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
        images.list().len()
    );
    for image in images.list() {
        assert_eq!(image.is_embedded, image.name != "[vdso]", "{what}: {}", image.name);
    }
    assert!(images.list().len() > 3, "{what}: the program, the loader, the C library and the vDSO");
    println!("    chains end: {ends:?}");
    assert!(steps > at_least && frames > 2 * steps, "too little was unwound");
    assert!(cut_short * 10 < steps, "{cut_short} of {steps} chains were cut short");
}

/// The top of the stack, read in one call.
struct Stack<'c> {
    child: &'c Child,
    from: u64,
    bytes: Vec<u8>,
}

impl<'c> Stack<'c> {
    fn read(child: &'c Child, sp: u64) -> Self {
        let mut bytes = vec![0; 8192];
        let from = sp.wrapping_sub(256);
        let read = Process::read(child, from, &mut bytes);
        bytes.truncate(read);
        Self { child, from, bytes }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let at = address.wrapping_sub(self.from) as usize;
        if let Some(&bytes) = self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            return Some(u64::from_le_bytes(bytes));
        }
        let mut bytes = [0; 8];
        (Process::read(self.child, address, &mut bytes) == 8).then_some(u64::from_le_bytes(bytes))
    }
}
