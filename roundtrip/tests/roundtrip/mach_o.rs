//! Verifies rows that llvm-mc 23 made of directives against the CFI that it made of the same directives.

use std::fs;
use std::path::Path;

use cfipack_container::File;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, SectionOffset};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{Code, Entry, Report, Rows, Table, Violation, verify};

/// Reads an object of the corpus. Returns the file and its rows.
fn object(case: &str) -> (Vec<u8>, Vec<(SectionOffset, Entry)>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let bytes = fs::read(directory.join(format!("{case}.o"))).unwrap();
    let compact = File::parse(&bytes).unwrap().as_macho().unwrap().compact_unwind().unwrap();
    let rows = compact.iter().flat_map(|compact| &compact.rows).map(|row| {
        let entry = Entry {
            start: row.function,
            end: row.function.offset(row.length.into()),
            encoding: row.encoding,
            personality: row.personality.map_or(0, |number| number.get().into()),
            lsda: row.lsda,
        };
        (row.offset, entry)
    });
    let rows = rows.collect();
    (bytes, rows)
}

/// Calls `judge` with an object's file and code.
fn with_code<T>(bytes: &[u8], judge: impl FnOnce(&File<'_>, Code<'_>) -> T) -> T {
    let file = File::parse(bytes).unwrap();
    let code = file.code_sections().unwrap();
    judge(&file, Code::new(code.iter().map(|section| (section.address, &section.bytes[..]))))
}

/// Verifies the rows of an object against its own `__eh_frame`. Returns `None` if there are no rows.
fn report(case: &str) -> Option<Report> {
    let (bytes, rows) = object(case);
    with_code(&bytes, |file, code| {
        let sections = file.call_frame_sections().unwrap();
        let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
        let entries: Vec<_> = rows.iter().map(|row| row.1).collect();
        let table = Table::of_object(file.arch(), entries, code);
        (!rows.is_empty()).then(|| verify(&cfi, &table, &Options::default()))
    })
}

fn cases() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let objects = files.filter(|path| path.extension().is_some_and(|extension| extension == "o"));
    let mut cases: Vec<_> =
        objects.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    cases.sort();
    cases
}

/// llvm-mc makes some encodings without a close look at the directives: `cases.tsv` lists what follows from them.
/// Exactly these encodings differ from the CFI.
#[test]
fn llvm_mc_is_wrong_where_it_is_known_to_be() {
    let (mut wrong, mut unjudged, mut judged) = (Vec::new(), Vec::new(), 0);
    for case in cases() {
        let Some(report) = report(&case) else { continue };
        judged += report.equal;
        if report.different != 0 {
            wrong.push(case);
        } else if !report.is_complete() {
            unjudged.push((case, report.reasons.into_keys().next().unwrap()));
        }
    }
    // DW_CFA_LLVM_def_aspace_cfa.
    let unknown = "gimli cannot evaluate the CFI: unknown call frame instruction: 0x30";
    assert_eq!(unjudged, [("x59_llvm_def_aspace".to_owned(), unknown.to_owned())]);
    assert_eq!(
        wrong,
        [
            "x06_rbp_dir_order_reversed",
            "x07_rbp_hole",
            "x10_rbp_6regs",
            "x21_fl_ind_nosub",
            "x22_fl_ind_pushrax",
            "x23_epilogue_offset",
            "x37_odd_offset",
            "x38_neg_offset",
            "x48_fl_save_nonadj",
            "x49_fl_dir_order",
            "x51_rbp_cfa_after",
            "x52_rbp_first_reg",
        ]
    );
    assert!(judged > 30, "{judged}");
}

/// `push %rbp; mov %rsp,%rbp; ret`, and CFI that saves five registers and does not describe the epilogue.
#[test]
fn prologues_are_counted() {
    let report = report("x05_rbp_all5").unwrap();
    // `push` has 1 byte, `mov` 3 bytes, and `ret` 1 byte.
    assert_eq!((report.functions, report.equal, report.pcs_prologue), (1, 1, 1 + 3));
    assert_eq!((report.pcs_equal, report.pcs_epilogue, report.pcs_different), (1, 0, 0));
}

/// Returns the names of the rules that an object's rows break.
fn broken(bytes: &[u8], rows: &[(SectionOffset, Entry)]) -> Vec<&'static str> {
    let violations = with_code(bytes, |file, code| {
        let sections = file.call_frame_sections().unwrap();
        let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
        let labels = file.as_macho().unwrap().labels();
        let symbols = |start, end| labels.within(start, end);
        Rows::new(file.arch(), rows, &code).with_cfi(&cfi).with_symbols(&symbols).violations()
    });
    violations.iter().map(Violation::name).collect()
}

/// Rows can be wrong without any CFI to compare with.
#[test]
fn rows_break_rules() {
    let mut wrong = Vec::new();
    for case in cases() {
        let (bytes, rows) = object(&case);
        wrong.extend(broken(&bytes, &rows).into_iter().map(|name| (case.clone(), name)));
    }
    let wrong: Vec<_> = wrong.iter().map(|(case, name)| (&case[..], *name)).collect();
    assert_eq!(
        wrong,
        [
            // Register pairs without a frame.
            ("a12_fl_pair", "frameless-pairs"),
            ("a13_fl_pairs_all", "frameless-pairs"),
            ("a39_fl_pair_misplaced", "frameless-pairs"),
            // There is no `sub $imm32` at the place that llvm-mc gives for it.
            ("x21_fl_ind_nosub", "no-immediate"),
            ("x22_fl_ind_pushrax", "no-immediate"),
            ("x38_neg_offset", "no-immediate"),
            // There is no code at this place either.
            ("x38_neg_offset", "encoding"),
        ]
    );
}

/// Breaks one rule after the other in a correct row.
#[test]
fn each_rule_of_rows() {
    let (bytes, good) = object("x39_pers_gxx");
    assert_eq!(broken(&bytes, &good), [] as [&str; 0]);
    let change = |change: fn(&mut Entry)| {
        let mut rows = good.clone();
        change(&mut rows[0].1);
        broken(&bytes, &rows)
    };
    assert_eq!(change(|row| row.encoding = row.encoding.with_personality(1)), ["row-personality"]);
    assert_eq!(change(|row| row.lsda = None), ["row-lsda"]);
    assert_eq!(change(|row| row.encoding = Encoding(0x0100_0000)), ["row-lsda"]);
    assert_eq!(change(|row| row.encoding = Encoding(0x4100_8000)), ["unused-bits"]);
    // Linkers use a row up to the next row or the end of the FDE.
    assert_eq!(change(|row| row.end.0 -= 1), ["row-length"]);
    assert_eq!(change(|row| row.end.0 += 1), ["row-length"]);
    assert_eq!(change(|row| row.end = row.start), ["row-length"]);
    let mut twice = good.clone();
    twice.push((SectionOffset(32), Entry { start: Address(good[0].1.start.0 + 1), ..good[0].1 }));
    assert_eq!(broken(&bytes, &twice), ["row-overlap", "row-length"]);
    // The parts of a function meet.
    twice[0].1.end = twice[1].1.start;
    assert_eq!(broken(&bytes, &twice), [] as [&str; 0]);
}

/// ld64.lld 23 uses rows of length 0, and drops rows in DWARF mode.
#[test]
fn rows_without_an_fde() {
    let (bytes, good) = object("a02_fp");
    assert_eq!(broken(&bytes, &good), [] as [&str; 0]);
    let mut empty = good.clone();
    empty[0].1.end = empty[0].1.start;
    assert_eq!(broken(&bytes, &empty), ["row-length"]);
    let mut dwarf = good.clone();
    dwarf[0].1.encoding = Encoding(0x0300_0000);
    assert_eq!(broken(&bytes, &dwarf), ["dwarf-fde"]);
}

/// A row with an LSDA needs the personality that reads the LSDA.
#[test]
fn rows_without_their_personality() {
    let (bytes, mut rows) = object("x39_pers_gxx");
    let verified = |rows: &[(SectionOffset, Entry)]| {
        with_code(&bytes, |file, code| {
            let sections = file.call_frame_sections().unwrap();
            let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
            let entries = rows.iter().map(|row| row.1).collect();
            verify(&cfi, &Table::of_object(file.arch(), entries, code), &Options::default())
        })
    };
    assert!(verified(&rows).is_complete());
    rows[0].1.personality = 0;
    let report = verified(&rows);
    assert_eq!((report.handlers_different, report.contradicted), (1, vec![rows[0].1.start]));
}
