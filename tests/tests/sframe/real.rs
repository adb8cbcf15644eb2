//! Real binaries: every function is in the table or omitted with a reason, and no PC differs.

use std::path::{Path, PathBuf};

use cfipack_container::File;
use cfipack_format::Address;
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::machine::{system_library, toolchain_library};
use cfipack_tests::not_tested::skipped;
use cfipack_tests::workload::libraries;

/// At most one function in a thousand may be omitted.
const LEFT_OUT_PER_THOUSAND: usize = 1;

fn check(path: Option<PathBuf>, what: &str, at_most_omitted: usize) {
    let Some(path) = path else {
        return skipped(what, "this machine does not have it");
    };
    let bytes = std::fs::read(&path).unwrap();
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let cfi = cfi_of(&sections);
    assert!(!cfi.is_empty(), "{}: no CFI", path.display());
    // After the CFI, where a linker would put it; version 2 reaches 2 GiB.
    let address = sections.iter().map(|s| s.section.address.0 + s.section.bytes.len() as u64).max().unwrap();
    for options in all_options() {
        let converted = convert(&cfi, file.arch(), Address(address), options);
        let report = converted.verify(&cfi);
        let line = format!("{what}, {:?} {:?}", options.layout, options.version);
        assert!(report.differences.is_empty(), "{line}: {}", report.differences[0]);
        assert!(report.is_true(), "{line}: {report:?}");
        assert_eq!(report.pcs_unjudged, 0, "{line}: gimli could not judge everything");
        let omitted = converted.omitted.len() + converted.malformed.len();
        assert!(converted.malformed.is_empty());
        assert_eq!(report.unexplained, 0, "{line}: a silent hole: {:?}", report.unverified);
        let functions = converted.functions;
        println!("{line}: {} bytes, {omitted} of {functions} omitted", converted.bytes.len());
        if options == Default::default() {
            converted.omitted.iter().for_each(|unsupported| println!("    {unsupported}"));
            assert!(omitted * 1000 <= functions * at_most_omitted, "{line}: {omitted} omitted");
        }
    }
}

#[test]
fn librustc_driver() {
    check(toolchain_library("librustc_driver"), "librustc_driver", LEFT_OUT_PER_THOUSAND);
}

#[test]
fn libllvm() {
    check(toolchain_library("libLLVM"), "libLLVM", LEFT_OUT_PER_THOUSAND);
}

#[test]
fn libc() {
    // glibc 2.36 has 3713 functions, and in `setcontext` and three forms of `longjmp` the caller's stack
    // pointer is not the CFA, which the format cannot represent.
    check(system_library("libc.so.6"), "libc.so.6", 2);
}

#[test]
fn libstdcxx() {
    check(system_library("libstdc++.so.6"), "libstdc++.so.6", LEFT_OUT_PER_THOUSAND);
}

#[test]
fn this_test() {
    check(std::env::current_exe().ok(), "the test program", LEFT_OUT_PER_THOUSAND);
}

/// Its vectors and assembly are the hardest on the machine: OpenSSL's `*(rsp+N)+8` cannot be represented.
#[test]
fn libcrypto() {
    let path = system_library("libcrypto.so.3").filter(|path| Path::exists(path));
    check(path, "libcrypto.so.3", 100);
}

/// The bytes do not depend on the number of threads.
#[test]
fn bytes_do_not_depend_on_threads() {
    let libraries = libraries();
    if libraries.is_empty() {
        skipped("threads on a large library", "the toolchain has none");
    }
    for library in libraries {
        for options in all_options() {
            let one = library.convert(options, 1);
            for threads in [2, 3, 7] {
                assert!(
                    library.convert(options, threads)[..] == one[..],
                    "{}, {threads} threads",
                    library.name
                );
            }
        }
    }
}
