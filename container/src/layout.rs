//! Where the sections of a relocatable object lie before a linker has placed them.

use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS};
use object::read::elf::SectionHeader as _;

use crate::Error;
use crate::elf::Elf;

/// Where the sections of a relocatable object are taken to lie. Linked files have addresses of
/// their own, and sections that are not loaded are at zero in every layout.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layout {
    /// Every section at zero, as readelf shows them: addresses are offsets in sections.
    Zero,
    /// Every section at a place of its own, code first, with room between them: an address identifies a section and an offset ([`File::locate`](crate::File::locate)).
    Apart,
}

/// The first address that [`Layout::Apart`] gives out: undefined symbols are 0, no section is.
const FIRST: u64 = 0x1_0000;

/// Bytes at least between two sections, so that the end of one is not the start of the next.
const ROOM: u64 = 16;

/// Gives every loaded section a place of its own; the result is indexed as the section table.
/// Code comes first, so that objects with the same code have it at the same places, whatever
/// tables they carry beside it.
pub(crate) fn apart(elf: &Elf<'_>) -> Result<Vec<u64>, Error> {
    let mut addresses = vec![0; elf.sections.len()];
    let mut next = FIRST;
    for code in [true, false] {
        for (index, header) in elf.sections.enumerate() {
            let is_code = header.sh_flags(elf.endian).contains(SHF_EXECINSTR);
            if !is_placed(elf, index.0) || is_code != code {
                continue;
            }
            let size = header.sh_size.get(elf.endian);
            let align = header.sh_addralign.get(elf.endian).max(ROOM);
            let align = if align.is_power_of_two() { align } else { ROOM };
            let place = next.checked_next_multiple_of(align);
            let end = place.and_then(|place| place.checked_add(size)?.checked_add(ROOM));
            let (Some(place), Some(end)) = (place, end) else {
                return Err(Error::SectionSize { section: elf.name_for_error(index.0), size });
            };
            (addresses[index.0], next) = (place, end);
        }
    }
    Ok(addresses)
}

/// Whether a section occupies memory at its address: loaded, and not a template for threads.
pub(crate) fn is_placed(elf: &Elf<'_>, section: usize) -> bool {
    let Ok(header) = elf.sections.section(object::SectionIndex(section)) else { return false };
    let flags = header.sh_flags(elf.endian);
    flags.contains(SHF_ALLOC) && !flags.contains(SHF_TLS)
}
