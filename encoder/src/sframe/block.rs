//! Attribute and FREs of functions, each distinct block once in layout `small`.

use alloc::vec::Vec;

use cfipack_format::Endian;
use cfipack_format::sframe::{Attribute, FdeInfo, FdeType, Version};

use super::Layout;
use super::fre::Fres;
use super::hash_index::{HashIndex, hash};
use crate::Reason;

/// What a function says once for all its FREs, and where they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Offset in the FRE sub-section: of the attribute (version 3) or the first FRE.
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) num_fres: u32,
    pub(super) info: FdeInfo,
    pub(super) info2: u8,
    pub(super) rep_size: u8,
}

/// The FRE sub-section in the making.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    pub(super) bytes: Vec<u8>,
    pub(super) list: Vec<Block>,
    /// The blocks by their bytes; none in a layout that shares nothing.
    index: Option<HashIndex>,
    seed: u64,
    version: Version,
    endian: Endian,
}

impl Blocks {
    pub(super) fn new(version: Version, layout: Layout, endian: Endian, seed: u64) -> Self {
        let index = (layout == Layout::Small).then(HashIndex::new);
        Self { bytes: Vec::new(), list: Vec::new(), index, seed, version, endian }
    }

    /// Adds a function's FREs, or finds them. Returns the block's number.
    #[inline]
    pub(super) fn add(
        &mut self,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> Result<u32, Reason> {
        let num_fres = fres.count();
        let info = info.with_fre_type(fres.fre_type());
        let attribute = Attribute { num_fres: num_fres as u16, info, info2: fde_type as u8, rep_size };
        let bytes = fres.block();
        bytes[..Attribute::SIZE].copy_from_slice(&attribute.write(self.endian));
        let block = Block { offset: 0, len: 0, num_fres, info, info2: attribute.info2, rep_size };
        self.add_block(block, bytes)
    }

    /// Adds a block of another builder with the same options, or finds it.
    pub(super) fn absorb(&mut self, block: Block, other: &Self) -> Result<u32, Reason> {
        let fres = &other.bytes[block.offset as usize..][..block.len as usize];
        if self.version == Version::V3 {
            return self.add_block(block, fres);
        }
        // Version 2 keeps the attribute elsewhere; only its room is needed.
        let mut bytes = alloc::vec![0; Attribute::SIZE];
        let count = block.num_fres as u16;
        let attribute =
            Attribute { num_fres: count, info: block.info, info2: block.info2, rep_size: block.rep_size };
        bytes.copy_from_slice(&attribute.write(self.endian));
        bytes.extend_from_slice(fres);
        self.add_block(block, &bytes)
    }

    /// `bytes` is the attribute and the FREs, whatever the version.
    #[inline]
    fn add_block(&mut self, block: Block, bytes: &[u8]) -> Result<u32, Reason> {
        let stored = match self.version {
            Version::V3 => bytes,
            _ => &bytes[Attribute::SIZE..],
        };
        let hash = match &self.index {
            None => 0,
            Some(index) => {
                let hash = hash(self.seed, bytes);
                let found = index.find(hash, |number| {
                    let other = &self.list[number as usize];
                    let same_bytes =
                        self.bytes.get(other.offset as usize..(other.offset + other.len) as usize)
                            == Some(stored);
                    same_bytes && Block { offset: other.offset, len: other.len, ..block } == *other
                });
                if let Some(number) = found {
                    return Ok(number);
                }
                hash
            }
        };
        let too_large = |_| Reason::SectionSize;
        let offset = u32::try_from(self.bytes.len()).map_err(too_large)?;
        let len = u32::try_from(stored.len()).map_err(too_large)?;
        offset.checked_add(len).ok_or(Reason::SectionSize)?;
        let number = self.list.len() as u32;
        self.bytes.extend_from_slice(stored);
        self.list.push(Block { offset, len, ..block });
        if let Some(index) = &mut self.index {
            index.insert(hash, number);
        }
        Ok(number)
    }
}
