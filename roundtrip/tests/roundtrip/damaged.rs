//! Damaged CFI and damaged tables: no panic, no overflow, no endless loop, and counts that add up.

use std::borrow::Cow;

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_format::cfi;
use cfipack_roundtrip::{Options, Table, diff, kernel_verdict, stats, verify};

use crate::gas::corpus;

fn run(cfi: &[cfi::Section<'_>], bytes: &[u8], address: cfipack_format::Address) {
    let Ok(section) = Section::parse(bytes, address) else { return };
    let sections = [section];
    let table = Table::new(&sections);
    let report = verify(cfi, &table, &Options::default());
    let pcs =
        [report.pcs_equal, report.pcs_different, report.pcs_missing, report.pcs_unjudged, report.pcs_padding];
    assert_eq!(report.pcs, pcs.iter().sum::<u64>(), "{report:#?}");
    assert_eq!(report.functions, report.equal + report.different + report.missing + report.unjudged);
    kernel_verdict(&section, None, 100);
    let counted = stats(&section);
    let parts = counted.bytes;
    assert!(parts.header + parts.index + parts.attributes + parts.other <= parts.total);
    let _ = diff(&table, &table, &Options::default());
}

/// Every byte of a few objects' `.eh_frame` and `.sframe` changed in three ways, and every truncation.
#[test]
fn every_byte() {
    let chosen =
        ["x_drap", "x_remember_nested", "x_signal_sigreturn", "a_pac_b", "s_ra_off_0", "x_two_funcs"];
    let mut ran = 0;
    for path in corpus(".gas247.o") {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !chosen.iter().any(|chosen| name.starts_with(&format!("{chosen}."))) {
            continue;
        }
        ran += 1;
        let bytes = std::fs::read(&path).unwrap();
        let file = File::parse(&bytes).unwrap();
        let frames = file.call_frame_sections().unwrap();
        let sframe = file.sframe_sections().unwrap().remove(0);
        let good: Vec<_> = frames.iter().map(|section| section.cfi()).collect();
        run(&good, &sframe.bytes, sframe.address);
        let damages: [fn(u8) -> u8; 4] = [|b| b ^ 0xff, |b| b ^ 1, |b| b ^ 0x80, |_| 0xff];
        for damage in damages {
            for at in 0..sframe.bytes.len() {
                let mut bytes = sframe.bytes.to_vec();
                bytes[at] = damage(bytes[at]);
                run(&good, &bytes, sframe.address);
            }
            for at in 0..frames[0].section.bytes.len() {
                let mut damaged = frames[0].clone();
                let byte = &mut damaged.section.bytes.to_mut()[at];
                *byte = damage(*byte);
                run(&[damaged.cfi()], &sframe.bytes, sframe.address);
            }
        }
        for end in 0..sframe.bytes.len() {
            run(&good, &sframe.bytes[..end], sframe.address);
        }
        for end in 0..frames[0].section.bytes.len() {
            let mut damaged = frames[0].clone();
            damaged.section.bytes = Cow::Owned(damaged.section.bytes[..end].to_vec());
            run(&[damaged.cfi()], &sframe.bytes, sframe.address);
        }
    }
    assert_eq!(ran, chosen.len(), "objects of the corpus that were damaged");
}
