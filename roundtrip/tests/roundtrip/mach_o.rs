//! What llvm-mc 23 wrote beside the CFI of the same directives, judged by that CFI.

use std::fs;
use std::path::Path;

use cfipack_container::File;
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{Code, Entry, Report, Table, verify};

/// An object of the corpus, held against its own `__eh_frame`.
fn report(case: &str) -> Option<Report> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let bytes = fs::read(directory.join(format!("{case}.o"))).unwrap();
    let file = File::parse(&bytes).unwrap();
    let compact = file.compact_unwind().unwrap()?;
    let entries = compact.rows.iter().map(|row| Entry {
        start: row.function,
        end: row.function.offset(row.length.into()),
        encoding: row.encoding,
        personality: row.personality.map_or(0, |number| number.get().into()),
        lsda: row.lsda,
    });
    let code = file.code_sections().unwrap();
    let code = Code::new(code.iter().map(|section| (section.address, &section.bytes[..])));
    let table = Table::of_object(file.arch(), entries.collect(), code);
    let sections = file.call_frame_sections().unwrap();
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    Some(verify(&cfi, &table, &Options::default()))
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

/// The encodings that llvm-mc gives without looking closely: for all that follows from the directives,
/// see `cases.tsv`. The CFI differs, and nothing else does.
#[test]
fn llvm_mc_is_wrong_where_it_is_known_to_be() {
    let (mut wrong, mut unjudged, mut judged) = (Vec::new(), Vec::new(), 0);
    for case in cases() {
        let Some(report) = report(&case) else { continue };
        judged += report.equal;
        if report.different != 0 {
            wrong.push(case);
        } else if !report.is_complete() {
            unjudged.push((case, report.reasons_by_count()[0].0.to_owned()));
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

/// `push %rbp; mov %rsp,%rbp`, five registers said to be saved, `ret`; no way out in the CFI.
#[test]
fn prologues_are_counted() {
    let report = report("x05_rbp_all5").unwrap();
    // 1 byte of push, 3 of mov, 1 of ret.
    assert_eq!((report.functions, report.equal, report.pcs_prologue), (1, 1, 1 + 3));
    assert_eq!((report.pcs_equal, report.pcs_epilogue, report.pcs_different), (1, 0, 0));
}
