//! Tests tables without rows of outermost frames, for glibc 2.43. Functions with such a row are omitted with a reason.
//! The other functions keep their rows.

use cfipack_container::{File, Placement};
use cfipack_format::Address;
use cfipack_format::Reason;
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::corpora;

/// Returns the text of each function as readelf prints it, without its number.
fn functions(table: &cfipack_decoder::sframe::Section<'_>) -> Vec<String> {
    let mut text = String::new();
    table.dump(&mut text, ".sframe").unwrap();
    let functions = text.split("    func idx [").skip(1);
    functions.map(|function| function.split_once("]:").unwrap().1.trim_end().to_owned()).collect()
}

#[test]
fn functions_without_a_caller_are_omitted() {
    let mut omitted = 0;
    for golden in corpora::sframe("gas247") {
        let file = File::parse_with(&golden.object, Placement::Apart).unwrap();
        let sections = file.call_frame_sections().unwrap();
        let cfi = cfi_of(&sections);
        for options in all_options() {
            let with = convert(&cfi, golden.arch, Address(0), options);
            let without = convert(&cfi, golden.arch, Address(0), options.with_outermost(false));
            let mut expected = functions(&with.table());
            let all = expected.len();
            expected.retain(|function| !function.contains("RA undefined"));
            assert_eq!(functions(&without.table()), expected, "{} {options:?}", golden.name);

            let reasons = without.omitted.iter().filter(|it| it.reason == Reason::ReturnAddressRule).count();
            let before = with.omitted.iter().filter(|it| it.reason == Reason::ReturnAddressRule).count();
            assert!(reasons - before >= all - expected.len(), "{} {options:?}", golden.name);
            assert!(without.verify(&cfi).is_true(), "{} {options:?}", golden.name);
            omitted += all - expected.len();
        }
    }
    assert!(omitted >= 20, "{omitted} functions without a caller");
}
