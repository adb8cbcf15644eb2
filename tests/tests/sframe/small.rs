//! Prints layout `small` of every golden into snapshots, so that you see the effect of a change. `INSTA_UPDATE=always
//! cargo test -p cfipack-tests --test sframe small` updates them. Each table is verified against the CFI first.

use std::fmt::Write;

use cfipack_container::{File, Placement};
use cfipack_encoder::sframe::Options;
use cfipack_format::Address;
use cfipack_tests::convert::{cfi_of, convert};
use cfipack_tests::corpora;

fn snapshot(architecture: &str) {
    let mut text = String::new();
    for golden in corpora::sframe("gas247").iter().filter(|golden| golden.name.starts_with(architecture)) {
        let file = File::parse_with(&golden.object, Placement::Apart).unwrap();
        let sections = file.call_frame_sections().unwrap();
        let cfi = cfi_of(&sections);
        let converted = convert(&cfi, golden.arch, Address(0), Options::default());
        let report = converted.verify(&cfi);
        assert!(report.is_true(), "{}: {:?}", golden.name, report.differences.first());
        assert!(report.missing <= converted.omitted.len() as u64, "{}: a silent hole", golden.name);

        writeln!(text, "==> {}: {} bytes", golden.name, converted.bytes.len()).unwrap();
        converted.omitted.iter().for_each(|unsupported| writeln!(text, "omitted: {unsupported}").unwrap());
        let mut table = String::new();
        converted.table().dump(&mut table, ".sframe").unwrap();
        let functions = table.lines().skip_while(|line| !line.contains("func idx"));
        functions.for_each(|line| writeln!(text, "{}", line.trim_end()).unwrap());
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(corpora::directory().join("small"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(architecture.trim_end_matches('/'), text));
}

#[test]
fn x86_64() {
    snapshot("x86_64/");
}

#[test]
fn aarch64() {
    snapshot("aarch64/");
}

#[test]
fn aarch64_be() {
    snapshot("aarch64_be/");
}

#[test]
fn s390x() {
    snapshot("s390x/");
}
