//! Verifies any bytes as a table and its CFI: no panic, and the counts add up.

use cfipack_cfi::{Section as Cfi, SectionKind};
use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_roundtrip::{KernelTable, Options, Table, diff, kernel_verdict, stats, verify as compare};

use super::table_and_cfi;
use crate::ARCHES;

/// Verifies the input's table, and counts.
pub fn verify(input: &[u8]) {
    let Some((choice, table, cfi)) = table_and_cfi(input) else { return };
    let Ok(section) = Section::parse(table, Address(0x2000)) else { return };
    let cfi = Cfi::new(SectionKind::EhFrame, cfi, Address(0x1000), ARCHES[usize::from(choice & 3)]);
    let sections = [section];
    let table = Table::new(&sections);
    let report = compare(&[cfi], &table, &Options::default());
    let pcs =
        [report.pcs_equal, report.pcs_different, report.pcs_missing, report.pcs_unjudged, report.pcs_padding];
    assert_eq!(report.pcs, pcs.iter().sum::<u64>(), "{report:#?}");
    assert_eq!(report.functions, report.equal + report.different + report.missing + report.unjudged);
    kernel_verdict(&section, &KernelTable::Linked(None), 100);
    let counted = stats(&section);
    let parts = counted.bytes;
    assert!(parts.header + parts.index + parts.attributes + parts.other <= parts.total);
    let _ = diff(&table, &table, &Options::default());
}
