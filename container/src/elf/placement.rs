//! The addresses of a file's sections, even if no linker has placed them yet.

use cfipack_format::Address;
use object::SectionIndex;
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS};
use object::read::elf::SectionHeader as _;

use super::headers::Headers;
use crate::error::Error;
use crate::kind::Kind;
use crate::names;
use crate::section::Location;

/// Chooses the addresses for the sections of a relocatable object. It has no effect on a linked file, because its
/// sections have addresses already. Sections that are not loaded always have address 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Placement {
    /// All sections start at 0, as in the output of readelf. An address is an offset in its section, and does not say
    /// in which section.
    Zero,
    /// Each section gets its own range of addresses, with sections of code first and gaps between sections. So an
    /// address identifies a section and an offset; see [`File::locate`](crate::File::locate).
    Apart,
}

/// The first address that [`Placement::Apart`] assigns. No section lies at 0, because undefined symbols have the
/// value 0.
const FIRST: u64 = 0x1_0000;

/// The minimal gap between two sections in bytes. The end of a section is never the start of the next section.
const ROOM: u64 = 16;

/// The addresses of a file's sections.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The addresses by section index.
    all: Vec<u64>,
    /// The indexes of sections that occupy memory, ascending by address.
    placed: Vec<usize>,
    /// For each section in `placed`, the largest end of this section and all sections before it.
    reached: Vec<u64>,
}

impl Addresses {
    /// Reads the addresses of a linked file, or assigns addresses to the sections of a relocatable object.
    pub(super) fn new(headers: &Headers<'_>, placement: Placement) -> Result<Self, Error> {
        let count = headers.sections.len();
        let section = |index| headers.sections.section(SectionIndex(index));
        let all = match (headers.kind, placement) {
            (Kind::Relocatable, Placement::Zero) => {
                return Ok(Self { all: vec![0; count], placed: Vec::new(), reached: Vec::new() });
            }
            (Kind::Relocatable, Placement::Apart) => apart(headers)?,
            (Kind::Linked, _) => {
                let sections = (0..count).map(section);
                sections.map(|header| header.map_or(0, |header| header.sh_addr(headers.endian))).collect()
            }
        };
        let mut placed: Vec<_> = (0..count).filter(|&index| is_placed(headers, index)).collect();
        placed.sort_by_key(|&index| all[index]);
        let mut end = 0;
        let ends = placed.iter().map(|&index| {
            let size = section(index).map_or(0, |header| header.sh_size(headers.endian));
            end = all[index].saturating_add(size).max(end);
            end
        });
        let reached = ends.collect();
        Ok(Self { all, placed, reached })
    }

    /// Returns whether all sections lie at the same address.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.placed.is_empty()
    }

    /// Returns the address of a section, or 0 if the section does not exist.
    pub(crate) fn of_section(&self, section: usize) -> u64 {
        self.all.get(section).copied().unwrap_or(0)
    }

    /// Returns whether an address lies in some section. Sections may overlap.
    pub(super) fn is_loaded(&self, address: Address) -> bool {
        let after = self.placed.partition_point(|&index| self.of_section(index) <= address.0);
        after.checked_sub(1).is_some_and(|last| address.0 < self.reached[last])
    }

    /// Returns whether no linker stores this address as the start of a function. A function that stays starts in a
    /// section, and a discarded function starts at 0, -1 or -2, plus an offset in an input section.
    pub(super) fn is_no_start(&self, address: Address) -> bool {
        const LARGEST_OFFSET: u64 = 1 << 32;
        let end = self.reached.last().copied().unwrap_or(0).max(LARGEST_OFFSET);
        (end..u64::MAX - LARGEST_OFFSET).contains(&address.0)
    }

    /// Returns the section that contains an address.
    pub(super) fn locate<'a>(&self, headers: &Headers<'a>, address: Address) -> Option<Location<'a>> {
        let after = self.placed.partition_point(|&index| self.of_section(index) <= address.0);
        // An empty section may have the same address as the section that we look for.
        for &index in self.placed[..after].iter().rev() {
            let header = headers.sections.section(SectionIndex(index)).ok()?;
            let offset = address.0 - self.of_section(index);
            let size = header.sh_size(headers.endian);
            if offset < size || (offset == size && headers.kind == Kind::Relocatable) {
                let name = names::text(headers.name(header));
                return Some(Location { section: index, name, offset });
            }
            if size != 0 {
                break;
            }
        }
        None
    }
}

/// Assigns a separate range of addresses to every section that occupies memory. The result is indexed by section.
///
/// Sections of code come first. So two objects with the same code have it at the same addresses, even if they differ
/// in their tables or in empty sections.
fn apart(headers: &Headers<'_>) -> Result<Vec<u64>, Error> {
    let mut addresses = vec![0; headers.sections.len()];
    let mut next = FIRST;
    for code in [true, false] {
        for (index, header) in headers.sections.enumerate() {
            let size = header.sh_size.get(headers.endian);
            let is_code = header.sh_flags(headers.endian).contains(SHF_EXECINSTR) && size != 0;
            if !is_placed(headers, index.0) || is_code != code {
                continue;
            }
            let align = header.sh_addralign.get(headers.endian).max(ROOM);
            let align = if align.is_power_of_two() { align } else { ROOM };
            let place = next.checked_next_multiple_of(align);
            let end = place.and_then(|place| place.checked_add(size)?.checked_add(ROOM));
            let (Some(place), Some(end)) = (place, end) else {
                return Err(Error::SectionSize { section: headers.name_for_error(index.0), size });
            };
            (addresses[index.0], next) = (place, end);
        }
    }
    Ok(addresses)
}

/// Returns whether a section occupies memory at its address. A template for thread-local data does not.
fn is_placed(headers: &Headers<'_>, section: usize) -> bool {
    let Ok(header) = headers.sections.section(SectionIndex(section)) else { return false };
    let flags = header.sh_flags(headers.endian);
    flags.contains(SHF_ALLOC) && !flags.contains(SHF_TLS)
}
