//! The rows of blocks, read back as they were written.

use cfipack_format::Endian;
use cfipack_format::sframe::{Attribute, FdeInfo, FdeType, FreInfo, FreType};

use crate::sframe::rows::fre::{Fre, fre_len};
use crate::sframe::table::block::Blocks;
use crate::sframe::table::wide_attribute::WideAttribute;

/// A row: its start, and its FRE after the start.
pub(crate) type Row = (u32, Fre);

/// The part of a block that holds for its functions as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) num_fres: u32,
    pub(crate) info: FdeInfo,
    pub(crate) fde_type: FdeType,
    pub(crate) rep_size: u8,
}

impl Head {
    /// Removes the parts that depend on the starts of rows.
    pub(crate) fn without_starts(self) -> Self {
        Self { num_fres: 0, info: self.info.with_fre_type(FreType::Addr1), ..self }
    }
}

/// The rows of a block.
#[derive(Clone, Debug)]
pub(crate) struct Rows<'b> {
    rest: &'b [u8],
    width: usize,
    endian: Endian,
}

/// Reads a block.
pub(crate) fn read_back<'b>(blocks: &'b Blocks<'_>, number: u32, endian: Endian) -> (Head, Rows<'b>) {
    let block = blocks.block(number);
    let head = |attribute: WideAttribute| Head {
        num_fres: attribute.num_fres(),
        info: attribute.info(),
        fde_type: FdeType::Default,
        rep_size: attribute.rep_size(),
    };
    let (head, rest) = match (blocks.attribute(number), block.split_first_chunk()) {
        (Some(attribute), _) => (head(attribute), block),
        (None, Some((attribute, rest))) => {
            let Attribute { num_fres, info, rep_size, .. } = Attribute::read(attribute, endian);
            let fde_type = Attribute::read(attribute, endian).fde_type().unwrap_or(FdeType::Default);
            (Head { num_fres: num_fres.into(), info, fde_type, rep_size }, rest)
        }
        (None, None) => (head(WideAttribute::default()), block),
    };
    let width = head.info.fre_type().map_or(4, FreType::width);
    (head, Rows { rest, width, endian })
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let (start, tail) = self.rest.split_at_checked(self.width)?;
        let start = match self.endian {
            Endian::Little => start.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)),
            Endian::Big => start.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)),
        };
        let len = fre_len(FreInfo(*tail.first()?));
        let (fre, rest) = tail.split_at(len.min(tail.len()));
        self.rest = rest;
        Some((start, Fre::from_bytes(fre)))
    }
}
