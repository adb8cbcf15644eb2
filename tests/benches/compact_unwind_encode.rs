//! Measures the encoding of all functions of large libraries, with and without their code. The yardstick is gimli's
//! walk over all rows of the same CFI.
//!
//!     cargo bench -p cfipack-tests --bench compact_unwind_encode

use std::collections::BTreeMap;

use cfipack_cfi as cfi;
use cfipack_container::File;
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch};
use cfipack_tests::figures;
use cfipack_tests::machine::toolchain_library;
use cfipack_tests::timing::{median, time};
use cfipack_tests::workload::libraries;

const RUNS: usize = 9;

/// Code sections by address, with their bytes.
type Code<'a> = [(Address, &'a [u8])];

/// Encodes all functions, DWARF mode included. Returns a number that depends on every encoding, and the reasons for
/// DWARF mode.
fn encode(
    section: &cfi::Section<'_>,
    code: Option<&Code<'_>>,
    reasons: &mut BTreeMap<&'static str, u64>,
) -> u32 {
    let mut encoder = Encoder::new(section.arch).unwrap();
    let mut sum = 0u32;
    for function in cfipack_cfi::Functions::new(section) {
        let Ok(function) = &function else { continue };
        let code = code.and_then(|code| {
            let after = code.partition_point(|(address, _)| *address <= function.key.address());
            let (address, bytes) = code[after.checked_sub(1)?];
            let start = (function.key.0 - address.0) as usize;
            bytes.get(start..start + function.size as usize)
        });
        let encoding = encoder.encode(function, code, Mode::Checked).unwrap_or_else(|unsupported| {
            *reasons.entry(unsupported.reason.name()).or_default() += 1;
            Encoding::dwarf(Arch::Amd64, function.fde.0 as u32)
        });
        sum = sum.wrapping_mul(31).wrapping_add(encoding.0);
    }
    sum
}

fn main() {
    for library in libraries() {
        let bytes = std::fs::read(toolchain_library(library.name).expect("it was there")).expect("readable");
        let sections = File::parse(&bytes).expect("an ELF file").code_sections().expect("its code");
        let mut code: Vec<_> = sections.iter().map(|section| (section.address, &*section.bytes)).collect();
        code.sort_unstable();
        let library: &'static _ = Box::leak(Box::new(library));
        let cfi = library.cfi();
        let mut gimli = library.gimli();
        let mut times = [const { Vec::new() }; 3];
        let mut counted = [const { BTreeMap::new() }; 2];
        for _ in 0..RUNS {
            counted = Default::default();
            times[0].push(time(|| gimli.walk()));
            times[1].push(time(|| encode(&cfi, None, &mut counted[0])));
            times[2].push(time(|| encode(&cfi, Some(&code), &mut counted[1])));
        }
        let [walk, without, with] = times.map(median);
        println!("{}: gimli's walk {walk:?}", library.name);
        for (what, time, reasons) in [("without", without, &counted[0]), ("with", with, &counted[1])] {
            let figure = format!("compact encodings {what} code");
            figures::times(library.name, &figure, time, "gimli walks all rows", walk, 1);
            let ratio = time.as_secs_f64() / walk.as_secs_f64();
            println!("  {what} code: {time:?}, {ratio:.2} of it; stay DWARF: {reasons:?}");
        }
    }
}
