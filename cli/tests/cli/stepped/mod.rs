//! Judges `lint` by stepping a program one instruction at a time. The machine alone gives the caller's frame: the stack
//! pointer at a function's entry plus 8, and the registers at the entry. A row is right if it leads to that frame.
//! `lint` does not run the program, and must accuse the same PCs. No signal arrives between two steps, so steps cannot show
//! that a register saved below the stack pointer and its red zone gets lost.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Cfa, Register, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions};
use cfipack_testkit::child::Child;
use cfipack_testkit::needs;
use cfipack_testkit::process::{Process as _, Stopped};
use serde_json::Value;

use crate::program::{run, scratch};

/// The registers whose places are compared: rbx, rbp, r12 to r15, and the return address.
const SAVED: [u16; 6] = [3, 6, 12, 13, 14, 15];
const STACK_POINTER: usize = 7;
const RETURN_ADDRESS: Register = Register(16);

/// A running function, with the machine's state at its entry.
struct Frame {
    function: String,
    registers: Stopped,
    return_address: u64,
}

#[test]
#[ignore = "needs ptrace and gcc"]
fn lint_says_at_each_instruction_what_the_machine_says() {
    needs::program("cc", "gcc");
    let program = scratch("stepped").join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/stepped/program.s");
    let flags = ["-nostdlib", "-static", "-no-pie", "-o"];
    let linked = Command::new("cc").args(flags).args([&program, &source]).status();
    assert!(linked.unwrap().success());
    let bytes = std::fs::read(&program).unwrap();
    let file = File::parse(&bytes).unwrap();
    let symbols = file.symbols().unwrap();
    let rows = rows(&file);
    let accused = accused(&program);
    let mut child = Child::start(Command::new(&program)).expect("tracing is permitted");
    let word = |child: &Child, address: u64| {
        let mut bytes = [0; 8];
        assert_eq!(child.read(address, &mut bytes), 8);
        u64::from_le_bytes(bytes)
    };
    let mut frames: Vec<Frame> = Vec::new();
    let mut stepped = BTreeMap::<(String, u64), bool>::new();
    loop {
        let stopped = child.registers();
        let symbol = symbols.lookup(cfipack_format::Address(stopped.pc)).unwrap();
        let stack = stopped.registers[STACK_POINTER].unwrap();
        if frames.last().is_some_and(|frame| frame.return_address == stopped.pc) {
            frames.pop();
        }
        let name = symbol.name.to_string();
        if symbol.offset == 0 && name != "_start" {
            let return_address = word(&child, stack);
            frames.push(Frame { function: name, registers: stopped.clone(), return_address });
        }
        if let Some(frame) = frames.last() {
            let (row, saved) = &rows[&stopped.pc];
            let is_right = is_right(row, saved, &stopped, frame, |address| word(&child, address));
            let is_accused = accused.iter().any(|range| range.contains(&stopped.pc));
            assert_eq!(
                is_accused, !is_right,
                "{:#x} <{}+{:#x}>: {row:?} {saved:?}",
                stopped.pc, frame.function, symbol.offset
            );
            stepped.entry((frame.function.clone(), stopped.pc)).or_insert(is_right);
        }
        if !child.step() {
            break;
        }
    }
    // Every function was stepped through, and every function with wrong CFI is wrong at some PC.
    let mut functions = BTreeMap::<&str, (usize, usize)>::new();
    for ((function, _), is_right) in &stepped {
        let count = functions.entry(function).or_default();
        *(if *is_right { &mut count.0 } else { &mut count.1 }) += 1;
    }
    println!("instructions right and wrong: {functions:?}");
    assert_eq!(functions.len(), 11);
    for (function, (right, wrong)) in functions {
        assert_eq!(wrong > 0, function.starts_with("wrong_"), "{function}");
        assert!(right > 0, "{function}");
    }
}

/// Evaluates the row at every address with gimli.
fn rows(file: &File<'_>) -> BTreeMap<u64, (Row, Vec<(Register, Rule)>)> {
    let sections = file.call_frame_sections().unwrap();
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&functions);
    let mut rows = BTreeMap::new();
    for function in functions.as_slice() {
        let result = evaluator.evaluate_registers(function, |range, answer, saved, _| {
            if let Answer::Row(row) = answer {
                rows.extend(range.map(|pc| (pc, (*row, saved.to_vec()))));
            }
        });
        assert!(result.is_ok());
    }
    rows
}

/// Returns the PCs for which `lint` reports a wrong row.
fn accused(program: &Path) -> Vec<std::ops::Range<u64>> {
    let output = run(&["lint", "--json", program.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let address = |value: &Value| {
        let text = value.as_str().unwrap();
        u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
    };
    let findings = report["findings"].as_array().unwrap().iter();
    findings.map(|finding| address(&finding["wrong_start"])..address(&finding["wrong_end"])).collect()
}

/// Returns whether a row leads to the caller's frame, return address and registers.
fn is_right(
    row: &Row,
    saved: &[(Register, Rule)],
    stopped: &Stopped,
    frame: &Frame,
    word: impl Fn(u64) -> u64,
) -> bool {
    let now = |register: Register| stopped.registers[usize::from(register.0)].unwrap();
    let Cfa::Register { register, offset } = row.cfa else { panic!("{row:?}") };
    let cfa = now(register).wrapping_add_signed(offset);
    if cfa != frame.registers.registers[STACK_POINTER].unwrap() + 8 {
        return false;
    }
    let value = |register: Register, rule: Rule| match rule {
        Rule::SameValue => now(register),
        Rule::Cfa(offset) => word(cfa.wrapping_add_signed(offset)),
        rule => panic!("{rule:?}"),
    };
    let rule = |register: Register| match register {
        Register(6) => row.frame_pointer,
        register => {
            let found = saved.iter().find(|(saved, _)| *saved == register);
            found.map_or(Rule::SameValue, |(_, rule)| *rule)
        }
    };
    value(RETURN_ADDRESS, row.return_address) == frame.return_address
        && SAVED.map(Register).into_iter().all(|register| {
            let own = frame.registers.registers[usize::from(register.0)].unwrap();
            value(register, rule(register)) == own
        })
}
