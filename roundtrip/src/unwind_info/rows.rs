//! Checks the rules of `__compact_unwind`, row by row.

use cfipack_format::{Address, Arch, ImageOffset, SectionOffset};

use super::encoding::check;
use super::{Code, Entry, Violation};

/// Returns all rules that an object's rows break. Each row comes with its offset in the section. Linkers rely on these
/// rules: lld keeps all bits of an encoding and later gives some of them another meaning, and ld64 refuses the object.
pub fn row_violations(arch: Arch, rows: &[(SectionOffset, Entry)], code: &Code<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for &(offset, Entry { start, encoding, lsda, .. }) in rows {
        let function = image_offset(start);
        let from_here = code.starting_at(start);
        found.extend(check(arch, from_here, offset, function, encoding));
        if encoding.personality() != 0 {
            found.push(Violation::RowPersonality { offset, function, encoding });
        }
        if encoding.has_lsda() != lsda.is_some() {
            found.push(Violation::RowLsda { offset, function, encoding });
        }
    }
    let mut sorted: Vec<_> = rows.iter().filter(|(_, row)| row.start < row.end).collect();
    sorted.sort_by_key(|(_, row)| row.start);
    for pair in sorted.windows(2) {
        let [(_, before), (offset, row)] = pair else { continue };
        if row.start < before.end {
            found.push(Violation::RowOverlap { offset: *offset, function: image_offset(row.start) });
        }
    }
    found
}

/// Returns an address in an object. No object reaches beyond 4 GiB, because its relocations have 32 bits.
fn image_offset(address: Address) -> ImageOffset {
    ImageOffset(address.0 as u32)
}
