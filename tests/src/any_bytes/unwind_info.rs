//! Reads any bytes as an `__unwind_info` section: errors are fine, panics are not. A lookup finds what a walk over the
//! entries finds.

use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::Section;
use cfipack_format::{Arch, ImageOffset};

/// Reads the input as `__unwind_info`.
pub fn unwind_info(bytes: &[u8]) {
    let Ok(section) = Section::parse(bytes) else { return };
    let mut text = String::new();
    section.dump(&mut text).expect("a String takes everything");
    assert!(text.len() <= 1000 + 50 * bytes.len(), "{} of text for {} bytes", text.len(), bytes.len());
    let index = section.index().map(|entry| entry.function);
    let mut valid = index.is_sorted();
    let mut before = None;
    let mut entries = Vec::new();
    let mut count = 0;
    for entry in section.entries() {
        count += 1;
        let Ok(entry) = entry else {
            valid = false;
            continue;
        };
        valid &= before.is_none_or(|before| before <= entry.start);
        before = Some(entry.start);
        let _ = (section.lsda(&entry), section.personality(&entry));
        for arch in [Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32] {
            let _ = row(entry.encoding, arch, bytes);
        }
        entries.push(entry);
    }
    // Each entry has at least 4 bytes of its own, and each broken page an index entry of 12 bytes.
    assert!(count <= bytes.len() / 4 + bytes.len() / 12, "{count} entries in {} bytes", bytes.len());
    for index in section.index() {
        let _ = section.lookup(ImageOffset(index.function.0.wrapping_sub(1)));
    }
    for entry in entries.iter().filter(|entry| entry.start < entry.end) {
        for pc in [entry.start, ImageOffset(entry.end.0 - 1)] {
            let found = section.lookup(pc);
            assert!(!valid || found == Ok(Some(*entry)), "{pc}: {found:?}, not {entry:?}");
        }
    }
}
