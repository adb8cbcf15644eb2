//! Encodings of real functions: each says what the CFI says, at every call and in the body, as a
//! second reader of both finds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cfipack_container::File;
use cfipack_encoder::cfi::SectionKind;
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_format::compact_unwind::Mode as Kind;
use cfipack_tests::encoding_by_cfi::{Judge, Judged};
use cfipack_tests::machine::{system_library, toolchain_library};
use cfipack_tests::reference::skipped;

/// Encodes every function of a library; at least `per_hundred` of 100 must get an encoding.
fn check(what: &str, path: Option<PathBuf>, with_code: bool, per_hundred: usize) {
    let Some(path) = path else {
        return skipped(what, "this machine does not have it");
    };
    let bytes = std::fs::read(&path).unwrap();
    let file = File::parse(&bytes).unwrap();
    let code_sections = file.code_sections().unwrap();
    let (mut functions, mut judged) = (0, Judged::default());
    let mut kinds = BTreeMap::new();
    let mut count = |name: String| *kinds.entry(name).or_insert(0) += 1;
    let sections = file.call_frame_sections().unwrap();
    for section in sections.iter().filter(|section| section.kind == SectionKind::EhFrame) {
        let mut judge = Judge::new(&section.section.bytes, section.section.address, file.arch());
        let mut encoder = Encoder::new();
        let cfi = section.cfi();
        for function in cfipack_cfi::Functions::new(&cfi) {
            let function = function.unwrap();
            functions += 1;
            let code = code_sections.iter().find_map(|section| {
                let start = function.start.0.checked_sub(section.address.0)? as usize;
                section.bytes.get(start..start.checked_add(function.size as usize)?)
            });
            let Some(code) = code else { continue };
            match encoder.encode(&function, with_code.then_some(code), Mode::Checked) {
                Err(unsupported) => count(format!("DWARF: {}", unsupported.reason.name())),
                Ok(encoding) => {
                    let here = judge.judge(encoding, function.fde.0, code);
                    match here {
                        Ok(here) => {
                            count(format!("{:?}", encoding.mode(file.arch()).unwrap_or(Kind::None)));
                            judged.calls += here.calls;
                            judged.equal += here.equal;
                            judged.different += here.different;
                        }
                        // Without code nobody looks for calls in what is short enough for a step.
                        Err(_) if !with_code => count("untrue at a call".into()),
                        Err(error) => panic!("{what}: function {}: {error}", function.start),
                    }
                }
            }
        }
    }
    let dwarf: usize =
        kinds.iter().filter(|(kind, _)| kind.starts_with("DWARF")).map(|(_, count)| count).sum();
    println!("{what}, with code: {with_code}: {functions} functions, {judged:?}\n{kinds:#?}");
    assert!((functions - dwarf) * 100 >= functions * per_hundred, "{dwarf} of {functions} stay DWARF");
    let untrue = kinds.get("untrue at a call").copied().unwrap_or(0);
    assert!(untrue * 500 <= functions, "{untrue} untrue");
}

#[test]
fn librustc_driver() {
    check("librustc_driver", toolchain_library("librustc_driver"), true, 50);
    check("librustc_driver", toolchain_library("librustc_driver"), false, 50);
}

#[test]
fn libllvm() {
    check("libLLVM", toolchain_library("libLLVM"), true, 50);
    check("libLLVM", toolchain_library("libLLVM"), false, 50);
}

#[test]
fn libc() {
    check("libc.so.6", system_library("libc.so.6"), true, 30);
    check("libc.so.6", system_library("libc.so.6"), false, 10);
}

#[test]
fn libstdcxx() {
    check("libstdc++.so.6", system_library("libstdc++.so.6"), true, 30);
    check("libstdc++.so.6", system_library("libstdc++.so.6"), false, 10);
}

#[test]
fn libcrypto() {
    check("libcrypto.so.3", system_library("libcrypto.so.3"), true, 30);
}
