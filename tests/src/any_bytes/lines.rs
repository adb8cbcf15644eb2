//! Reads any bytes as line tables, without a panic and in memory proportional to the bytes.

use cfipack_format::Arch;
use cfipack_roundtrip::{LineSections, Lines};

/// Reads the input as line tables.
pub fn lines(input: &[u8]) {
    // The input: architecture and length of `.debug_line`, then its bytes. The rest is both string sections.
    let Some(([arch, len @ ..], bytes)) = input.split_first_chunk::<3>() else { return };
    let arch = Arch::ALL[usize::from(*arch) % Arch::ALL.len()];
    let (line, strings) = bytes.split_at(bytes.len().min(u16::from_le_bytes(*len).into()));
    let sections = LineSections { line, line_str: strings, str: strings };
    let Ok(lines) = Lines::read(sections, arch) else { return };
    assert!(lines.lines.len() <= line.len() && lines.files.len() <= line.len());
    assert!(lines.lines.is_sorted_by_key(|line| line.addresses.start));
    for line in &lines.lines {
        assert!(line.addresses.start < line.addresses.end && line.file < lines.files.len());
    }
}
