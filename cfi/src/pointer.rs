//! Encoded pointers of `.eh_frame` (`DW_EH_PE_*`; Linux Standard Base 5.0, "DWARF Extensions").

use cfipack_format::Address;

use crate::cursor::Cursor;

/// How a pointer is stored. The low four bits are its format, the next three bits are its base, and bit 7 is
/// set if it is indirect.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PointerEncoding(pub u8);

/// The addresses that encoded pointers can be relative to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bases {
    pub(crate) text: Address,
    pub(crate) data: Address,
    pub(crate) function: Address,
}

impl PointerEncoding {
    /// An absolute address of the architecture's size, as in `.debug_frame`.
    pub const ABSOLUTE: Self = Self(0);
    /// `DW_EH_PE_pcrel | DW_EH_PE_sdata4`, as in nearly every `.eh_frame`.
    pub const PC_RELATIVE_SIGNED_4: Self = Self(0x1b);
    /// There is no pointer.
    pub const OMITTED: Self = Self(0xff);
    const INDIRECT: u8 = 0x80;

    /// Reads the stored value without a base. Returns `None` if the format is unknown or the bytes end.
    #[inline]
    pub(crate) fn read_value(self, cursor: &mut Cursor<'_>, address_size: u8) -> Option<u64> {
        match self.0 & 0x0f {
            0x0b => Some(cursor.u32()? as i32 as u64),
            0x00 if address_size == 4 => Some(u64::from(cursor.u32()?)),
            0x00 | 0x04 | 0x0c => cursor.u64(),
            0x01 => cursor.uleb(),
            0x02 => Some(u64::from(cursor.u16()?)),
            0x03 => Some(u64::from(cursor.u32()?)),
            0x09 => Some(cursor.sleb()? as u64),
            0x0a => Some(cursor.u16()? as i16 as u64),
            _ => None,
        }
    }

    /// Reads a pointer at address `here`, and returns the address. Returns `None` if the bytes end, if the
    /// encoding is unknown, or if only a running program can follow the pointer.
    #[inline]
    pub(crate) fn read_address(
        self,
        cursor: &mut Cursor<'_>,
        here: Address,
        bases: &Bases,
        address_size: u8,
    ) -> Option<Address> {
        let base = match self.0 & 0xf0 {
            0x10 => here,
            0x00 => Address(0),
            0x20 => bases.text,
            0x30 => bases.data,
            0x40 => bases.function,
            0x50 => return Self::read_aligned(cursor, here, address_size),
            _ => return None,
        };
        let value = self.read_value(cursor, address_size)?;
        let address = base.0.wrapping_add(value);
        Some(Address(if address_size == 4 { address & 0xffff_ffff } else { address }))
    }

    /// Reads `DW_EH_PE_aligned`: an absolute address at the next multiple of its size.
    fn read_aligned(cursor: &mut Cursor<'_>, here: Address, address_size: u8) -> Option<Address> {
        let padding = here.0.wrapping_neg() % u64::from(address_size);
        cursor.take(padding as usize)?;
        Self::ABSOLUTE.read_value(cursor, address_size).map(Address)
    }

    /// Returns whether this is `DW_EH_PE_aligned`: the pointer lies at the next multiple of its size.
    pub(crate) const fn is_aligned(self) -> bool {
        self.0 & 0x70 == 0x50
    }

    /// Returns whether the format is known, so that a pointer can be skipped.
    pub(crate) const fn is_readable(self) -> bool {
        matches!(self.0 & 0x0f, 0..=4 | 9..=0xc)
    }

    /// Returns whether the pointer is relative to the start of the FDE's function (`DW_EH_PE_funcrel`).
    pub(crate) const fn is_in_function(self) -> bool {
        self.0 & 0x70 == 0x40
    }

    /// Returns whether the pointer is the address of a cell that holds the address.
    pub const fn is_indirect(self) -> bool {
        self.0 & Self::INDIRECT != 0
    }
}
