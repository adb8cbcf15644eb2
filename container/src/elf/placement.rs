//! Addresses of the sections of a file, also before a linker has placed them.

use cfipack_format::Address;
use object::SectionIndex;
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS};
use object::read::elf::SectionHeader as _;

use super::headers::Headers;
use crate::error::Error;
use crate::kind::Kind;
use crate::names;
use crate::section::Location;

/// The addresses that the sections of a relocatable object are taken to have. Linked files have addresses of
/// their own, and sections that are not loaded are at zero in every placement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Placement {
    /// Every section at zero, as readelf shows them: addresses are offsets in sections.
    Zero,
    /// Every section at a place of its own, code first, with room between them: an address identifies a
    /// section and an offset ([`File::locate`](crate::File::locate)).
    Apart,
}

/// The first address that [`Placement::Apart`] gives out: undefined symbols are 0, no section is.
const FIRST: u64 = 0x1_0000;

/// Bytes at least between two sections, so that the end of one is not the start of the next.
const ROOM: u64 = 16;

/// The addresses of a file's sections.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// By the sections' places in the section table.
    all: Vec<u64>,
    /// The sections that have addresses of their own, by address.
    placed: Vec<usize>,
    /// For each of those, the last end of it and of all before it.
    reached: Vec<u64>,
}

impl Addresses {
    /// Takes the addresses that a linker assigned; of a relocatable object those of a placement.
    pub(super) fn new(headers: &Headers<'_>, placement: Placement) -> Result<Self, Error> {
        let count = headers.sections.len();
        let section = |index| headers.sections.section(SectionIndex(index));
        let all = match (headers.kind, placement) {
            (Kind::Relocatable, Placement::Zero) => {
                return Ok(Self { all: vec![0; count], placed: Vec::new(), reached: Vec::new() });
            }
            (Kind::Relocatable, Placement::Apart) => apart(headers)?,
            (Kind::Linked, _) => {
                let address = |index| section(index).map_or(0, |header| header.sh_addr(headers.endian));
                (0..count).map(address).collect()
            }
        };
        let mut placed: Vec<_> = (0..count).filter(|&index| is_placed(headers, index)).collect();
        placed.sort_by_key(|&index| all[index]);
        let size = |index| section(index).map_or(0, |header| header.sh_size(headers.endian));
        let mut end = 0;
        let ends = placed.iter().map(|&index| {
            end = all[index].saturating_add(size(index)).max(end);
            end
        });
        let reached = ends.collect();
        Ok(Self { all, placed, reached })
    }

    /// Returns whether several sections lie at one place.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.placed.is_empty()
    }

    /// The place of a section; 0 for one that does not exist.
    pub(crate) fn of(&self, section: usize) -> u64 {
        self.all.get(section).copied().unwrap_or(0)
    }

    /// Returns whether an address lies in any section, of which several may overlap.
    pub(super) fn is_loaded(&self, address: Address) -> bool {
        let after = self.placed.partition_point(|&index| self.of(index) <= address.0);
        after.checked_sub(1).is_some_and(|last| address.0 < self.reached[last])
    }

    /// The section that an address lies in.
    pub(super) fn locate<'a>(&self, headers: &Headers<'a>, address: Address) -> Option<Location<'a>> {
        let after = self.placed.partition_point(|&index| self.of(index) <= address.0);
        // Sections without bytes may share an address with the one that is meant.
        for &index in self.placed[..after].iter().rev() {
            let header = headers.sections.section(SectionIndex(index)).ok()?;
            let offset = address.0 - self.of(index);
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

/// Gives every loaded section a place of its own; the result is indexed as the section table.
/// Code comes first, so that objects with the same code have it at the same places, whatever
/// tables they carry beside it, and whatever sections without bytes.
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

/// Returns whether a section occupies memory at its address: loaded, and not a template for threads.
fn is_placed(headers: &Headers<'_>, section: usize) -> bool {
    let Ok(header) = headers.sections.section(SectionIndex(section)) else { return false };
    let flags = header.sh_flags(headers.endian);
    flags.contains(SHF_ALLOC) && !flags.contains(SHF_TLS)
}
