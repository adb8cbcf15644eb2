//! CFI that is hidden from the making of rows, and compared with them.
//!
//! Functions are those of the CFI, with its landing pads; all else comes from the code. `HIDE_CFI_OF` names files, separated
//! by colons, for the long run: `HIDE_CFI_OF=/usr/bin/bash cargo test -p cfi2sframe hidden -- --ignored --nocapture`.

use std::collections::BTreeMap;

use cfipack_code::{
    Analysis, CallSite, Candidate, Code, Instructions, State, Value, Ways, landing_pads, synthesize,
};
use cfipack_container::{CallFrameSection, File};
use cfipack_format::{Address, Arch, Cfa, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Functions};

use super::memory::FileMemory;

/// The comparison of a file's hidden CFI with rows of its code.
#[derive(Debug, Default)]
struct Hidden {
    functions: u64,
    decided: u64,
    instructions: u64,
    omitted: BTreeMap<&'static str, u64>,
    /// Each function once: the first instruction, what the CFI has, what was made.
    different: Vec<(String, Row, Row)>,
}

/// Makes rows of a file's functions without its CFI, and compares them with it at every instruction.
fn hide(bytes: &[u8]) -> Hidden {
    let file = File::parse(bytes).unwrap();
    let arch = file.arch();
    let sections = file.call_frame_sections().unwrap();
    let memory = FileMemory::new(&file).unwrap();
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&functions);
    let symbols = file.symbols().unwrap();
    let is_fragment = |start: Address| {
        let symbol = symbols.lookup(start);
        symbol.is_some_and(|symbol| symbol.offset == 0 && symbol.name.contains(".cold"))
    };
    let mut known = Vec::new();
    for function in functions.as_slice() {
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
        })
        .collect();
    let all = synthesize(&candidates, &[], &memory, &|_| false);
    let mut hidden = Hidden::default();
    for ((function, ..), (candidate, rows)) in known.iter().zip(candidates.iter().zip(all)) {
        let mut cfi = Vec::new();
        let evaluated = evaluator.evaluate(function, |range, answer, _| {
            cfi.push((range.start, *answer));
        });
        let is_plt = cfi.iter().any(|(_, answer)| matches!(answer, Answer::Plt { .. }));
        if evaluated.is_err() || is_fragment(function.start) || is_plt {
            continue;
        }
        hidden.functions += 1;
        let rows = match rows {
            Ok(rows) => rows,
            Err(omission) => {
                *hidden.omitted.entry(omission.name()).or_default() += 1;
                continue;
            }
        };
        hidden.decided += 1;
        compare(candidate, &memory, &rows, &cfi, |pc, cfi, made| match (cfi, made) {
            _ if cfi.is_none() => hidden.instructions += 1,
            (Some(cfi), made) => {
                let symbol = symbols.lookup(pc).map(|symbol| symbol.name.to_string());
                let place = format!("{pc} {}", symbol.unwrap_or_default());
                hidden.different.push((place, cfi, made));
            }
            (None, _) => {}
        });
    }
    hidden
}

/// Calls `found` for every instruction, with both rows for the first one that differs.
fn compare(
    candidate: &Candidate<'_>,
    memory: &FileMemory<'_>,
    rows: &[Row],
    cfi: &[(u64, Answer)],
    mut found: impl FnMut(Address, Option<Row>, Row),
) {
    let code = candidate.code;
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(code.arch);
    let sites: &[CallSite] = candidate.call_sites;
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: sites, noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, memory, ways);
    let mut is_different = false;
    analysis.for_each(|_, instruction, state| {
        let (Some(state), false) = (state, is_different) else { return };
        let pc = code.start.offset(instruction.offset.into());
        let made = rows[rows.partition_point(|row| row.start.0 <= instruction.offset) - 1];
        let at = cfi.partition_point(|(start, _)| *start <= pc.0).checked_sub(1);
        let Some(Answer::Row(cfi)) = at.map(|at| cfi[at].1.at(pc.0)) else { return };
        is_different = !agrees(code.arch, state, &cfi, &made);
        found(pc, is_different.then_some(cfi), made);
    });
}

/// Returns whether two rows say the same. Where they name other places, both must have the value.
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

/// The functions whose rows differ from the CFI.
fn different(hidden: &Hidden) -> Vec<&str> {
    hidden.different.iter().filter_map(|(place, ..)| place.split(' ').nth(1)).collect()
}

/// In explain.s and explain_aarch64.s the CFI of these is wrong, as their comments say.
#[test]
fn only_wrong_cfi_differs_from_rows_of_code() {
    let corpora = std::path::Path::new("../corpora");
    if !corpora.exists() {
        eprintln!("NOT TESTED: rows of the corpora's objects without their CFI: no package has the corpora");
        return;
    }
    let read = |name: &str| hide(&std::fs::read(corpora.join(name)).unwrap());
    let hidden = read("container/explain.o");
    assert_eq!(different(&hidden), ["no_row", "no_instruction", "prologue_only"]);
    assert_eq!(different(&read("container/explain_aarch64.o")), ["prologue_only", "no_row"]);
    let hidden = read("sframe/x86_64/x_real_gcc_r3.gas247.o");
    assert_eq!((hidden.decided, different(&hidden)), (5, Vec::new()));
}

#[test]
fn rows_of_libc_are_its_cfi() {
    let Some(bytes) = super::tests::PATHS.iter().find_map(|path| std::fs::read(path).ok()) else {
        eprintln!("NOT TESTED: rows of a real library without its CFI: no libc.so.6");
        return;
    };
    let hidden = hide(&bytes);
    assert!(hidden.decided > 1000 && hidden.decided * 100 > hidden.functions * 80, "{hidden:?}");
    // Known: assembler functions that push and have one row, in some versions.
    assert!(hidden.different.len() as u64 * 500 < hidden.decided, "{hidden:#?}");
}

#[test]
#[ignore = "reads files that it is told"]
fn hidden_cfi_of_files() {
    let files = std::env::var("HIDE_CFI_OF").unwrap_or_default();
    let (mut functions, mut decided, mut instructions, mut different) = (0, 0, 0, 0);
    for path in files.split(':').filter(|path| !path.is_empty()) {
        let hidden = hide(&std::fs::read(path).unwrap());
        let Hidden { omitted, .. } = &hidden;
        println!("{path}: {} of {} functions, {omitted:?}", hidden.decided, hidden.functions);
        for (place, cfi, made) in &hidden.different {
            println!("  {place}\n    cfi  {cfi:?}\n    made {made:?}");
        }
        functions += hidden.functions;
        decided += hidden.decided;
        instructions += hidden.instructions;
        different += hidden.different.len();
    }
    println!(
        "{decided} of {functions} functions decided, {instructions} instructions, {different} functions different"
    );
}
