//! Encodes real functions. By independent readers, each encoding agrees with the CFI at every call and in the body.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cfipack_cfi::SectionKind;
use cfipack_container::File;
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_format::Arch;
use cfipack_format::compact_unwind::Mode as Kind;
use cfipack_testkit::needs;
use cfipack_tests::encoding_by_cfi::{Judge, Judged};
use cfipack_tests::machine::{system_library, toolchain_library};

/// Counts of the functions of files.
#[derive(Debug, Default)]
struct Found {
    functions: usize,
    judged: Judged,
    kinds: BTreeMap<String, usize>,
}

impl Found {
    /// Encodes every function of a file.
    fn add(&mut self, what: &str, file: &File<'_>, with_code: bool) {
        let code_sections = file.code_sections().unwrap();
        let sections = file.call_frame_sections().unwrap();
        for section in sections.iter().filter(|section| section.kind == SectionKind::EhFrame) {
            let mut judge = Judge::new(&section.section.bytes, section.section.address, file.arch());
            let mut encoder = Encoder::new(file.arch()).unwrap();
            let cfi = section.cfi();
            for function in cfipack_cfi::Functions::new(&cfi) {
                let function = function.unwrap();
                self.functions += 1;
                let code = code_sections.iter().find_map(|section| {
                    let start = function.key.0.checked_sub(section.address.0)? as usize;
                    section.bytes.get(start..start.checked_add(function.size as usize)?)
                });
                let Some(code) = code else { continue };
                let name = match encoder.encode(&function, with_code.then_some(code), Mode::Checked) {
                    Err(unsupported) => format!("DWARF: {}", unsupported.reason.name()),
                    Ok(encoding) => match judge.judge(encoding, function.fde.0, code) {
                        Ok(here) => {
                            self.judged.calls += here.calls;
                            self.judged.equal += here.equal;
                            self.judged.different += here.different;
                            format!("{:?}", encoding.mode(file.arch()).unwrap_or(Kind::None))
                        }
                        // Without code, the encoder cannot look for calls while a row is short enough for one instruction.
                        Err(_) if !with_code => "untrue at a call".into(),
                        Err(error) => panic!("{what}: function {}: {error}", function.key.address()),
                    },
                };
                *self.kinds.entry(name).or_insert(0) += 1;
            }
        }
    }

    /// Asserts that at least `per_hundred` of 100 functions have an encoding.
    fn require(&self, what: &str, per_hundred: usize) {
        let Self { functions, kinds, .. } = self;
        println!("{what}: {self:#?}");
        let dwarf = kinds.iter().filter(|(kind, _)| kind.starts_with("DWARF"));
        let dwarf: usize = dwarf.map(|(_, count)| count).sum();
        assert!((functions - dwarf) * 100 >= functions * per_hundred, "{dwarf} of {functions} stay DWARF");
        let untrue = kinds.get("untrue at a call").copied().unwrap_or(0);
        assert!(untrue * 500 <= *functions, "{untrue} untrue");
    }
}

/// Encodes every function of a library, and asserts that `per_hundred` of 100 get an encoding.
fn check(what: &str, path: Option<PathBuf>, with_code: bool, per_hundred: usize) {
    let path = path.unwrap_or_else(|| panic!("this test needs {what}"));
    let bytes = std::fs::read(&path).unwrap();
    let mut found = Found::default();
    found.add(what, &File::parse(&bytes).unwrap(), with_code);
    found.require(&format!("{what}, with code: {with_code}"), per_hundred);
}

/// Tests the Rust libraries that `tests/real-libraries/download` fetches. Nearly all their functions have FDEs. LLVM
/// merges epilogues in one function of a hundred, which must not prevent an encoding.
#[test]
#[ignore = "needs CFIPACK_MACOS_LIBRARIES"]
fn macos_libraries_in_rust_download() {
    let what = "encodings of real macOS libraries";
    let mut found = Found::default();
    let mut open = vec![needs::directory("CFIPACK_MACOS_LIBRARIES", "tests/real-libraries/download DIR")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        // Panics in Rust's standard library name source files.
        let is_rust = bytes.windows(7).any(|bytes| bytes == b"/rustc/");
        let Some(file) = File::parse(&bytes).ok().filter(|_| is_rust) else { continue };
        if file.arch() == Arch::Aarch64 {
            found.add(&path.display().to_string(), &file, true);
        }
    }
    assert_ne!(found.functions, 0, "no arm64 library in Rust found");
    found.require(what, 99);
}

#[test]
fn rusts_libstd() {
    check("libstd", toolchain_library("libstd-"), true, 50);
    check("libstd", toolchain_library("libstd-"), false, 50);
}

#[test]
#[ignore = "takes minutes"]
fn librustc_driver_slow() {
    check("librustc_driver", toolchain_library("librustc_driver"), true, 50);
    check("librustc_driver", toolchain_library("librustc_driver"), false, 50);
}

#[test]
#[ignore = "takes minutes"]
fn libllvm_slow() {
    check("libLLVM", toolchain_library("libLLVM"), true, 50);
    check("libLLVM", toolchain_library("libLLVM"), false, 50);
}

#[test]
#[ignore = "needs glibc"]
fn libc() {
    check("libc.so.6", system_library("libc.so.6"), true, 30);
    check("libc.so.6", system_library("libc.so.6"), false, 10);
}

#[test]
#[ignore = "needs libstdc++"]
fn libstdcxx() {
    check("libstdc++.so.6", system_library("libstdc++.so.6"), true, 30);
    check("libstdc++.so.6", system_library("libstdc++.so.6"), false, 10);
}

#[test]
#[ignore = "needs libcrypto.so.3"]
fn libcrypto() {
    check("libcrypto.so.3", system_library("libcrypto.so.3"), true, 30);
}
