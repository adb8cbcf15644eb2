//! Magic numbers that files start with.

use object::{archive, elf};

use crate::fat;
use crate::macho::file as macho;

/// Returns whether a file that starts like this is of a kind that is known here: ELF, Mach-O, fat, or an archive,
/// thin ones among them, though [`members`](crate::members) refuses these. Of `head` at most the first
/// 8 bytes matter. A bare section has no such magic.
pub fn has_known_magic(head: &[u8]) -> bool {
    let others = [&elf::ELFMAG[..], &archive::MAGIC, &archive::THIN_MAGIC];
    others.iter().any(|magic| head.starts_with(magic)) || macho::has_magic(head) || fat::has_magic(head)
}
