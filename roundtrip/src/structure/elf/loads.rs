//! The memory of a file: the bytes that its segments load, by address.

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::error::{StructureError, Version};
use super::plain::Segment;

/// How often the segments of a file may load each of its bytes, on average.
const LOADED_PER_BYTE: u64 = 2;

/// A segment that is loaded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// The index of its program header.
    pub(super) index: usize,
    pub(super) segment: Segment,
}

impl Load {
    /// Returns the end of the segment: one past its last address.
    pub(super) fn end(&self) -> u64 {
        self.segment.vaddr + self.segment.memsz
    }

    /// Returns the end of the addresses that have bytes of the file.
    fn file_end(&self) -> u64 {
        self.segment.vaddr + self.segment.filesz
    }
}

/// The memory at an address: bytes of the file, or addresses without bytes.
pub(super) enum Memory {
    /// The offset of loaded bytes in the file, and their number.
    Bytes(usize, usize),
    /// The number of addresses at which no byte of the file is loaded.
    Nothing(usize),
}

/// The loaded segments, in ascending order of address.
#[derive(Debug)]
pub(super) struct Loads(pub(super) Vec<Load>);

impl Loads {
    /// Finds the loaded segments. They must be in ascending order, and lie in the file.
    pub(super) fn read(file: Version, bytes: &[u8], segments: &[Segment]) -> Result<Self, StructureError> {
        let mut loads: Vec<Load> = Vec::new();
        let (mut end, mut loaded) = (0, 0_u64);
        for (index, segment) in segments.iter().enumerate().filter(|(_, s)| s.kind == elf::PT_LOAD.0) {
            let Segment { offset, vaddr, filesz, memsz, .. } = *segment;
            let damaged = StructureError::Unreadable { file, what: "PT_LOAD", offset, value: filesz };
            let in_file = offset.checked_add(filesz).is_some_and(|end| end <= bytes.len().to_u64());
            let next = vaddr.checked_add(memsz).ok_or(damaged)?;
            loaded = loaded.saturating_add(filesz);
            let has_room = loaded <= bytes.len().to_u64().saturating_mul(LOADED_PER_BYTE);
            if !in_file || filesz > memsz || !has_room {
                return Err(damaged);
            }
            if vaddr < end {
                return Err(StructureError::Overlap { file, what: "PT_LOADs in memory", offset: vaddr, end });
            }
            end = next;
            loads.push(Load { index, segment: *segment });
        }
        Ok(Self(loads))
    }

    /// Returns the segment that contains a range of addresses.
    pub(super) fn containing(&self, address: u64, size: u64) -> Option<&Load> {
        let after = self.0.partition_point(|load| load.segment.vaddr <= address);
        let load = self.0[..after].last()?;
        let end = address.checked_add(size)?;
        (end <= load.end() && (address < load.end() || size == 0)).then_some(load)
    }

    /// Returns the offset in the file of the bytes that are loaded at a range of addresses.
    pub(super) fn offset_of(&self, address: u64, size: u64) -> Option<u64> {
        let load = self.containing(address, size)?;
        let end = address.checked_add(size)?;
        (end <= load.file_end()).then(|| load.segment.offset + (address - load.segment.vaddr))
    }

    /// Returns the address at which a byte of the file is loaded. If there are several, returns the lowest.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let load = self.0.iter().find(|load| {
            load.segment.offset <= offset && offset - load.segment.offset < load.segment.filesz
        })?;
        Some(load.segment.vaddr + (offset - load.segment.offset))
    }

    /// Returns the memory from an address on, up to the next change.
    pub(super) fn at(&self, address: u64) -> Memory {
        let after = self.0.partition_point(|load| load.segment.vaddr <= address);
        if let Some(load) = self.0[..after].last().filter(|load| address < load.file_end()) {
            let into = address - load.segment.vaddr;
            // A segment lies in the file.
            return Memory::Bytes(
                (load.segment.offset + into).to_usize(),
                (load.segment.filesz - into).to_usize(),
            );
        }
        let next = self.0.get(after).map_or(u64::MAX, |load| load.segment.vaddr);
        Memory::Nothing(usize::try_from(next - address).unwrap_or(usize::MAX).max(1))
    }
}
