//! Finds jumps and calls from functions with CFI into code without CFI. They show how the code without CFI is entered.

use std::ops::Range;

use cfipack_code::{Code, Flow, Instructions, Jump};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Address, Cfa};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions};

use crate::FileMemory;

/// The ways into functions without CFI.
#[derive(Debug, Default)]
pub struct Into {
    /// Direct jumps.
    pub jumps: Vec<Jump>,
    /// Targets of direct calls.
    pub calls: Vec<Address>,
}

/// Finds the direct jumps and calls from functions with CFI into `functions`. At each jump, the CFI decides whether a
/// frame is in place.
///
/// The ranges in `functions` have to be ascending, without overlap.
pub fn into(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    memory: &FileMemory<'_>,
    functions: &[Range<Address>],
) -> Into {
    if functions.is_empty() {
        return Into::default();
    }
    let is_inside = |target: &Address| {
        let next = functions.partition_point(|function| function.end <= *target);
        functions.get(next).is_some_and(|function| function.start <= *target)
    };
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let with_cfi = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&with_cfi);
    let arch = file.arch();
    let entry = Cfa::Register { register: arch.stack_pointer(), offset: arch.cfa_offset_at_entry() };
    let (mut instructions, mut all, mut calls) = (Instructions::default(), Vec::new(), Vec::new());
    for function in with_cfi.as_slice() {
        let Some((bytes, relocated)) = memory.code(function.start, function.end.0 - function.start.0) else {
            continue;
        };
        instructions.decode(&Code { arch, start: function.start, bytes, relocated: &relocated });
        let first = all.len();
        let mut places = Vec::new();
        for instruction in instructions.as_slice() {
            if let Flow::Call(Some(target)) = instruction.flow
                && is_inside(&target)
            {
                calls.push(target);
            }
            let (Flow::Jump(Some(target)) | Flow::Branch(Some(target), _)) = instruction.flow else {
                continue;
            };
            if is_inside(&target) {
                places.push(function.start.0 + u64::from(instruction.offset));
                // Without a row, we assume a frame.
                all.push(Jump { target, has_frame: true });
            }
        }
        if places.is_empty() {
            continue;
        }
        // After an error, the remaining jumps keep their frame.
        let _ = evaluator.evaluate(function, |range, answer, _| {
            let from = places.partition_point(|pc| *pc < range.start);
            let to = places.partition_point(|pc| *pc < range.end);
            let is_entry = matches!(answer, Answer::Row(row) if row.cfa == entry);
            all[first + from..first + to].iter_mut().for_each(|jump| jump.has_frame = !is_entry);
        });
    }
    calls.sort_unstable();
    calls.dedup();
    Into { jumps: all, calls }
}
