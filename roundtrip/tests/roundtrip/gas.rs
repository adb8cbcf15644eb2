//! Verifies tables that gas and LLVM wrote against their `.eh_frame`. The verifier must find the rows in which these
//! assemblers are known to be wrong, and nothing else.

use std::path::{Path, PathBuf};

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_roundtrip::{Options, Report, Table, verify};
use cfipack_testkit::gas_errors;

/// Returns the files of the corpus with this ending, sorted. The test fails without the corpus.
pub fn corpus(ending: &str) -> Vec<PathBuf> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe");
    let mut files: Vec<_> = std::fs::read_dir(corpora)
        .unwrap()
        .flat_map(|arch| std::fs::read_dir(arch.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .filter(|file| file.to_str().unwrap().ends_with(ending))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Returns the table in a section. The relocations of gas 2.44 make starts relative to their fields. gas sets the flag
/// for this only since 2.45.
fn table<'s>(file: &File<'_>, section: &'s cfipack_container::Section<'_>) -> Section<'s> {
    let relocations = file.relocations(section.index.unwrap()).unwrap();
    let is_relative =
        |field: u64| relocations.iter().any(|relocation| relocation.offset == field && relocation.relative);
    Section::parse(&section.bytes, section.address).unwrap().relocated(|field| is_relative(field.0 as u64))
}

/// Returns the report on a file, if it has a table.
fn judge(path: &Path) -> Option<Report> {
    let bytes = std::fs::read(path).unwrap();
    let file = File::parse(&bytes).unwrap();
    let sframe = file.sframe_sections().unwrap();
    let tables: Vec<_> = sframe.iter().map(|section| table(&file, section)).collect();
    let frames = file.call_frame_sections().unwrap();
    let cfi: Vec<_> = frames.iter().map(|section| section.cfi()).collect();
    (!tables.is_empty()).then(|| verify(&cfi, &Table::new(&tables), &Options::default()))
}

fn name(path: &Path, ending: &str) -> String {
    path.file_name().unwrap().to_str().unwrap().strip_suffix(ending).unwrap().to_owned()
}

/// CFI that the judge cannot evaluate. gimli does not know some instructions, for example of AArch64. Other CFI has no
/// meaning: it changes the offset of a CFA that is given by an expression, or that is not set.
const UNJUDGED: [(&str, &str); 6] = [
    ("s_window_save", "unknown call frame instruction: 0x2d"),
    ("x_window_save", "unknown call frame instruction: 0x2d"),
    ("x_escape_unknown", "unknown call frame instruction: 0x1c"),
    ("x_escape_expr_offset", "invalid context for call frame instruction"),
    ("x_escape_sum_offset", "invalid context for call frame instruction"),
    ("x_simple_off_nocfa", "invalid context for call frame instruction"),
];

#[test]
fn gas_247() {
    let (mut tables, mut functions) = (0, 0);
    for path in corpus(".gas247.o") {
        let Some(report) = judge(&path) else { continue };
        let name = name(&path, ".gas247.o");
        (tables, functions) = (tables + 1, functions + report.functions);
        let wrong = gas_errors::WRONG.iter().find(|wrong| wrong.0 == name);
        assert_eq!(
            report.pcs_different,
            wrong.map_or(0, |wrong| wrong.1),
            "{name}: {:#?}",
            report.differences
        );
        if let Some((.., words)) = wrong {
            let said = report.differences[0].to_string();
            assert!(said.contains(words), "{name}: {said}");
        }
        let unjudged = UNJUDGED.iter().find(|unjudged| unjudged.0 == name);
        assert_eq!(report.unjudged, unjudged.is_some() as u64, "{name}: {:#?}", report.unverified);
        if let Some((_, why)) = unjudged {
            assert!(report.unverified[0].words.contains(why), "{name}: {}", report.unverified[0].words);
        }
    }
    assert!(tables > 250 && functions > 300, "{tables} tables of {functions} functions");
}

/// gas 2.44 ignores rules for the return address other than the default rule, undefined registers, and rules for the
/// stack pointer. It remembers the state of the row before.
#[rustfmt::skip]
const WRONG_IN_GAS_244: [(&str, u64); 55] = [
    ("a_key_b_debug_frame", 4), ("a_negate_restore_34", 8), ("a_pac_epilogue_amid", 4), ("a_unaligned", 4),
    ("a_register_sp", 4), ("a_remember_nested_fp", 4), ("a_restore_first_row", 4), ("a_same_lr", 4), ("a_same_lr_fp_kept", 4),
    ("a_signal_err_pac_b", 4), ("a_undef_fp", 4), ("a_undef_lr", 12), ("a_undef_lr_back", 4), ("a_undef_lr_pac", 4),
    ("a_undef_lr_restore", 4), ("a_val_offset_sp", 4), ("x_all_skip", 1), ("x_cfa_m3", 1),
    ("x_flex_restore_ra", 1), ("x_flex_same_ra", 3), ("x_mixed_flex", 2), ("x_mixed_skip", 1),
    ("x_offset_ra_fp", 1), ("x_offset_ra_m15072", 1), ("x_offset_ra_m16", 1), ("x_offset_ra_m16_back", 1), ("x_reg_off_order", 1), ("x_register_ra", 1),
    ("x_register_ra_r130", 1), ("x_register_sp", 1), ("x_remember_nested", 1), ("x_remember_nested2", 1),
    ("x_remember_pending", 1), ("x_remember_same_pc", 2), ("x_restore_first_row", 1), ("x_same_fp", 1),
    ("x_sections_sframe", 2), ("x_signal_err", 1), ("x_undef_fp", 1), ("x_undef_ra", 3),
    ("x_undef_ra_back", 1), ("x_undef_ra_cfa", 2), ("x_undef_ra_register", 3), ("x_undef_ra_remember", 1),
    ("x_undef_ra_restore", 2), ("x_undef_ra_same", 3), ("x_undef_sp", 1), ("x_val_offset_ra", 1),
    ("x_val_offset_sp8", 1), ("a_negate_same_34", 8), ("x_offset_sp", 4), ("x_real_gcc_cold", 13), ("x_same_ra", 4),
    ("x_same_sp", 1), ("x_simple_offset_late", 4),
];

/// LLVM 23 has the errors of gas 2.44, and more: registers in registers, expressions, and rows without a CFA. An offset
/// that is not a multiple of the data alignment is cut in `.eh_frame`, but not in the table.
#[rustfmt::skip]
const WRONG_IN_LLVM_23: [(&str, u64); 54] = [
    ("a_return_column", 8), ("x_all_skip", 1), ("x_cfa_2g", 1), ("x_def_cfa_2g", 1),
    ("x_escape_expr_ra", 1), ("x_flex_fp_restore", 1), ("x_flex_reenter_first", 1),
    ("x_flex_restore_ra", 1), ("x_flex_same_ra", 3), ("x_fpoff_0", 1), ("x_fpoff_m127", 1),
    ("x_fpoff_m129", 1), ("x_fpoff_m32767", 1), ("x_fpoff_m32769", 1), ("x_mixed_flex", 2),
    ("x_mixed_skip", 1), ("x_offset_ra_fp", 1), ("x_offset_ra_m15072", 1), ("x_offset_ra_m16", 1),
    ("x_offset_ra_m16_back", 1), ("x_register_fp", 1), ("x_register_fp_r31", 1), ("x_register_fp_r32", 1), ("x_register_fp_ra", 2),
    ("x_register_fp_xmm", 1), ("x_register_ra", 1), ("x_register_ra_r130", 1), ("x_register_sp", 1),
    ("x_adjust_fp", 12), ("x_rel_offset", 2), ("x_remember_nested_args", 7), ("x_restore_first_row", 1), ("x_same_fp", 1), ("x_same_sp", 1), ("x_sections_sframe", 2),
    ("x_signal_err", 1),
    ("x_simple_late", 1), ("x_simple_nocfa", 1),
    ("x_start_cfi", 2), ("x_undef_fp", 1), ("x_undef_ra", 3), ("x_undef_ra_back", 1), ("x_undef_ra_cfa", 2),
    ("x_undef_ra_register", 3), ("x_undef_ra_restore", 1), ("x_undef_ra_same", 3), ("x_undef_sp", 1),
    ("x_val_offset_fp", 1), ("x_val_offset_ra", 1), ("x_val_offset_sp8", 1),
    ("x_offset_sp", 4), ("x_real_gcc_cold", 13), ("x_same_ra", 4), ("x_simple_offset_late", 8),
];

#[test]
fn gas_244_and_llvm_23() {
    for (ending, known) in [(".gas244.o", &WRONG_IN_GAS_244[..]), (".llvm23.o", &WRONG_IN_LLVM_23)] {
        let mut tables = 0;
        for path in corpus(ending) {
            let Some(report) = judge(&path) else { continue };
            let name = name(&path, ending);
            tables += 1;
            let wrong = known.iter().find(|wrong| wrong.0 == name).map_or(0, |wrong| wrong.1);
            assert_eq!(report.pcs_different, wrong, "{name}{ending}: {:#?}", report.differences);
        }
        assert!(tables > 100, "{tables} tables in *{ending}");
    }
}
