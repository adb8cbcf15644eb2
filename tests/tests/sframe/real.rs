//! Tests real binaries. Every function is in the table or omitted with a reason, and no PC differs.

use std::path::PathBuf;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_format::Address;
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::machine::{system_library, toolchain_library};
use cfipack_tests::workload::{Library, libraries};

/// At most this many functions of a thousand may be omitted.
const LEFT_OUT_PER_THOUSAND: usize = 1;

fn check_all(path: Option<PathBuf>, what: &str, at_most_omitted: usize) {
    check(path, what, at_most_omitted, all_options());
}

fn check(path: Option<PathBuf>, what: &str, at_most_omitted: usize, options: impl Iterator<Item = Options>) {
    let path = path.unwrap_or_else(|| panic!("this test needs {what}"));
    let bytes = std::fs::read(&path).unwrap();
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let cfi = cfi_of(&sections);
    assert!(!cfi.is_empty(), "{}: no CFI", path.display());
    // The table follows the CFI, where a linker would put it. Version 2 reaches 2 GiB.
    let address = sections.iter().map(|s| s.section.address.0 + s.section.bytes.len() as u64).max().unwrap();
    for options in options {
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

/// `librustc_driver` is the largest library of every toolchain.
#[test]
fn librustc_driver() {
    let path = toolchain_library("librustc_driver");
    check(path, "librustc_driver", LEFT_OUT_PER_THOUSAND, [Options::default()].into_iter());
}

#[test]
#[ignore = "takes minutes"]
fn librustc_driver_in_every_layout_and_version_slow() {
    check_all(toolchain_library("librustc_driver"), "librustc_driver", LEFT_OUT_PER_THOUSAND);
}

#[test]
#[ignore = "takes minutes"]
fn libllvm_slow() {
    check_all(toolchain_library("libLLVM"), "libLLVM", LEFT_OUT_PER_THOUSAND);
}

#[test]
#[ignore = "needs glibc"]
fn libc() {
    // glibc 2.36 has 3713 functions. In `setcontext` and three forms of `longjmp` the caller's stack pointer is not the
    // CFA, which the format cannot represent.
    check_all(system_library("libc.so.6"), "libc.so.6", 2);
}

#[test]
#[ignore = "needs libstdc++"]
fn libstdcxx() {
    check_all(system_library("libstdc++.so.6"), "libstdc++.so.6", LEFT_OUT_PER_THOUSAND);
}

#[test]
fn this_test() {
    check_all(std::env::current_exe().ok(), "the test program", LEFT_OUT_PER_THOUSAND);
}

/// libcrypto's vector and assembly code is the hardest here: OpenSSL's CFA `*(rsp+N)+8` cannot be represented.
#[test]
#[ignore = "needs libcrypto.so.3"]
fn libcrypto() {
    check_all(system_library("libcrypto.so.3"), "libcrypto.so.3", 100);
}

/// The number of threads does not change the bytes.
#[test]
fn bytes_do_not_depend_on_threads() {
    let std = Library::load("libstd-").expect("every toolchain has it");
    threads_make_no_difference(&std);
}

#[test]
#[ignore = "takes minutes"]
fn bytes_of_large_libraries_do_not_depend_on_threads_slow() {
    let libraries = libraries();
    assert!(!libraries.is_empty(), "the toolchain has neither librustc_driver nor libLLVM");
    libraries.iter().for_each(threads_make_no_difference);
}

fn threads_make_no_difference(library: &Library) {
    for options in all_options() {
        let one = library.convert(options, 1);
        for threads in [2, 3, 7] {
            let bytes = library.convert(options, threads);
            assert!(bytes[..] == one[..], "{}, {threads} threads", library.name);
        }
    }
}
