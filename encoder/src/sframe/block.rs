//! Attribute and FREs of functions, each distinct block once in layout `small`.

use alloc::vec::Vec;

use cfipack_format::Endian;
use cfipack_format::sframe::{Attribute, FdeInfo, FdeType, Version};

use super::Layout;
use super::fre::Fres;
use super::hash_index::{HashIndex, hash};
use crate::Reason;

/// The FRE sub-section in the making. A block is a function's attribute and FREs; before version 3,
/// where the attribute lies in the FDE, the FREs alone. Blocks are numbered.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    bytes: Vec<u8>,
    /// Where each block starts.
    starts: Vec<u32>,
    /// What the FDEs of each block say; empty in version 3.
    attributes: Vec<WideAttribute>,
    /// The blocks by their bytes; none in a layout that shares nothing.
    index: Option<HashIndex>,
    seed: u64,
    version: Version,
    endian: Endian,
}

/// An attribute with more rows than version 3 can count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WideAttribute {
    pub(super) num_fres: u32,
    pub(super) info: FdeInfo,
    pub(super) rep_size: u8,
}

impl Blocks {
    pub(super) fn new(version: Version, layout: Layout, endian: Endian, seed: u64) -> Self {
        let index = (layout == Layout::Small).then(HashIndex::new);
        let (bytes, starts, attributes) = (Vec::new(), Vec::new(), Vec::new());
        Self { bytes, starts, attributes, index, seed, version, endian }
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
        let block = fres.block();
        if self.version == Version::V3 {
            block[..Attribute::SIZE].copy_from_slice(&attribute.write(self.endian));
            self.add_block(block, None)
        } else {
            self.add_block(&block[Attribute::SIZE..], Some(WideAttribute { num_fres, info, rep_size }))
        }
    }

    /// Adds the blocks of another builder with the same options, or finds them. Returns the number
    /// here of each.
    pub(super) fn absorb(&mut self, other: &Self) -> Result<Vec<u32>, Reason> {
        let numbers = 0..other.starts.len() as u32;
        numbers
            .map(|number| {
                let attribute = other.attributes.get(number as usize).copied();
                self.add_block(other.block(number), attribute)
            })
            .collect()
    }

    /// Where a block lies in the FRE sub-section.
    #[inline]
    pub(super) fn offset(&self, number: u32) -> u32 {
        self.starts[number as usize]
    }

    /// What the FDEs of a block say, before version 3.
    #[inline]
    pub(super) fn attribute(&self, number: u32) -> Option<WideAttribute> {
        self.attributes.get(number as usize).copied()
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The whole sub-section.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of a block.
    pub(super) fn block(&self, number: u32) -> &[u8] {
        let start = self.starts[number as usize] as usize;
        let end = self.starts.get(number as usize + 1).map_or(self.bytes.len(), |&end| end as usize);
        &self.bytes[start..end]
    }

    #[inline]
    fn add_block(&mut self, block: &[u8], attribute: Option<WideAttribute>) -> Result<u32, Reason> {
        let Some(index) = &mut self.index else { return self.append(block, attribute) };
        let hash = hash(self.seed, block);
        let (bytes, starts, attributes) = (&self.bytes, &self.starts, &self.attributes);
        // A block ends where its attribute says, so equal bytes from its start on are the block.
        let found = index.find(hash, |number| {
            let start = starts[number as usize] as usize;
            bytes.get(start..start + block.len()) == Some(block)
                && attributes.get(number as usize).copied() == attribute
        });
        match found {
            Some(number) => Ok(number),
            None => {
                index.insert(hash, starts.len() as u32);
                self.append(block, attribute)
            }
        }
    }

    #[inline]
    fn append(&mut self, block: &[u8], attribute: Option<WideAttribute>) -> Result<u32, Reason> {
        let start = u32::try_from(self.bytes.len()).map_err(|_| Reason::SectionSize)?;
        let number = self.starts.len() as u32;
        self.bytes.extend_from_slice(block);
        self.starts.push(start);
        self.attributes.extend(attribute);
        Ok(number)
    }
}
