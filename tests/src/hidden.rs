//! Makes rows from code while the CFI is hidden, and compares them with the CFI.
//!
//! Only the functions and their landing pads are taken from the CFI. The program `against-code` does this for every
//! file of a system.

use std::cell::RefCell;
use std::collections::BTreeMap;

use cfipack_code::{Analysis, Candidate, Code, State, Surroundings, Value, landing_pads, synthesize_with};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Address, Arch, Cfa, Row, Rule};
use cfipack_lint::FileMemory;
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions};

/// The comparison of a file's hidden CFI with rows of its code.
#[derive(Debug, Default)]
pub struct Hidden {
    /// Functions of the CFI, without fragments and stubs.
    pub functions: u64,
    /// Functions that have rows.
    pub decided: u64,
    /// Instructions at which both rows agree.
    pub instructions: u64,
    /// Functions without rows, by reason.
    pub omitted: BTreeMap<&'static str, u64>,
    /// The first functions of each reason.
    pub examples: Vec<(&'static str, Address)>,
    /// One difference per function: the first instruction, the CFI's row, and the row that was made.
    pub different: Vec<(String, Row, Row)>,
}

/// The number of examples for each reason.
const EXAMPLES: u64 = 5;

/// Makes rows of a file's functions without its CFI, and compares them with the CFI at every instruction.
pub fn hide(file: &File<'_>) -> Result<Hidden, cfipack_container::Error> {
    let arch = file.arch();
    let sections = file.call_frame_sections()?;
    let memory = FileMemory::new(file)?;
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&functions);
    let symbols = file.symbols()?;
    let is_fragment = |start: Address| {
        let symbol = symbols.lookup(start);
        symbol.is_some_and(|symbol| symbol.offset == 0 && symbol.name.contains(".cold"))
    };
    let mut known = Vec::new();
    for function in functions.as_slice() {
        // One FDE describes many stubs, but each stub is a function.
        if memory.is_stub(function.start) {
            continue;
        }
        let size = function.end.0 - function.start.0;
        let Some((code, relocated)) = memory.code(function.start, size) else { continue };
        let lsda = evaluator.handler(function).ok().and_then(|handler| handler.lsda);
        let sites = lsda.map_or_else(Vec::new, |lsda| {
            let bytes = cfipack_code::Memory::at(&memory, lsda);
            landing_pads::read(bytes, lsda, function.start, size as u32, arch)
        });
        known.push((*function, code, relocated, sites));
    }
    let candidates: Vec<_> = known
        .iter()
        .map(|(function, bytes, relocated, sites)| Candidate {
            code: Code { arch, start: function.start, bytes, relocated },
            call_sites: sites,
            noreturn: &[],
            is_known: true,
            is_exported: false,
        })
        .collect();
    let evaluator = RefCell::new(evaluator);
    let rows_of = |start: Address| {
        let index = known.partition_point(|(function, ..)| function.start < start);
        let mut cfi = Vec::new();
        let mut evaluator = evaluator.borrow_mut();
        let result = evaluator.evaluate(&known[index].0, |range, answer, _| cfi.push((range.start, *answer)));
        result.is_ok().then_some(cfi)
    };
    let surroundings = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
    let all = synthesize_with(&candidates, &surroundings, &memory, |analysis| {
        let rows = analysis.synthesize()?;
        Ok(rows_of(analysis.code().start).map(|cfi| compare(analysis, &rows, &cfi)))
    });
    let mut hidden = Hidden::default();
    for ((function, ..), compared) in known.iter().zip(all) {
        let start = function.start;
        if is_fragment(start) || rows_of(start).is_none() {
            continue;
        }
        hidden.functions += 1;
        match compared {
            Err(refused) => {
                let name = refused.omission.name();
                let count = hidden.omitted.entry(name).or_default();
                *count += 1;
                if *count <= EXAMPLES {
                    hidden.examples.push((name, start));
                }
            }
            Ok(None) => {}
            Ok(Some(compared)) => {
                hidden.decided += 1;
                hidden.instructions += compared.right;
                let symbol = symbols.lookup(start).map(|symbol| symbol.name.to_string());
                let place = |pc| format!("{pc} {}", symbol.unwrap_or_default());
                hidden.different.extend(compared.different.map(|(pc, cfi, made)| (place(pc), cfi, made)));
            }
        }
    }
    Ok(hidden)
}

/// The result for a function.
struct Compared {
    /// Instructions before the first difference.
    right: u64,
    /// The first instruction that differs, the CFI's row there, and the row that was made.
    different: Option<(Address, Row, Row)>,
}

/// Compares rows with the CFI at every instruction that can be reached.
fn compare(analysis: &Analysis<'_>, rows: &[Row], cfi: &[(u64, Answer)]) -> Compared {
    let code = analysis.code();
    let mut compared = Compared { right: 0, different: None };
    analysis.for_each(|_, instruction, state| {
        let (Some(state), None) = (state, &compared.different) else { return };
        let pc = code.start.offset(instruction.offset.into());
        let made = rows[rows.partition_point(|row| row.start.0 <= instruction.offset) - 1];
        let at = cfi.partition_point(|(start, _)| *start <= pc.0).checked_sub(1);
        let Some(Answer::Row(cfi)) = at.map(|at| cfi[at].1.at(pc.0)) else { return };
        if agrees(code.arch, state, &cfi, &made) {
            compared.right += 1;
        } else {
            compared.different = Some((pc, cfi, made));
        }
    });
    compared
}

/// Returns whether two rows agree. If they name different places, both must hold the value.
fn agrees(arch: Arch, state: &State, cfi: &Row, made: &Row) -> bool {
    if cfi.return_address == Rule::Undefined || cfi.cfa == Cfa::Expression {
        return true;
    }
    let is_cfa = match cfi.cfa {
        Cfa::Register { register, offset } => {
            i64::from(match state.get(arch, register) {
                Value::Cfa(at) => at,
                _ => return false,
            }) == -offset
        }
        Cfa::Memory { register, offset } => state.pointed(arch, register, offset) == Value::Cfa(0),
        Cfa::Undefined | Cfa::Expression => false,
    };
    let has = |rule: Rule, register| match rule {
        Rule::SameValue => state.get(arch, register),
        Rule::Cfa(offset) => state.slot(offset),
        _ => Value::Unknown,
    };
    let (frame, link) = (arch.frame_pointer(), arch.return_address());
    let is_frame =
        cfi.frame_pointer == made.frame_pointer || has(cfi.frame_pointer, frame) == Value::Caller(frame);
    let is_link = cfi.return_address == made.return_address
        || has(cfi.return_address, link) == has(made.return_address, link);
    (cfi.cfa == made.cfa || is_cfa) && is_frame && is_link && cfi.signed == made.signed
}
