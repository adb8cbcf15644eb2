//! Recognizes files by their first bytes.

use object::{archive, elf};

use crate::fat;
use crate::macho::file as macho;

/// Returns whether a file of this crate's formats starts with these bytes: ELF, Mach-O, a fat file or an archive. For
/// example, you can skip other files while you walk through a directory.
///
/// Only the first 8 bytes of `head` matter. Thin archives are recognized, although [`members`](crate::members)
/// refuses them. A file that contains only the bytes of a section is not recognized.
pub fn has_known_magic(head: &[u8]) -> bool {
    let others = [&elf::ELFMAG[..], &archive::MAGIC, &archive::THIN_MAGIC];
    others.iter().any(|magic| head.starts_with(magic)) || macho::has_magic(head) || fat::has_magic(head)
}
