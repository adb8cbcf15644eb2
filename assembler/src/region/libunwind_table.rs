//! HP's libunwind: a search table, and the structure that leads to it.
//!
//! ```text
//! unw_dyn_info_t, 88 bytes                             table entry, 8 bytes
//!  0 next, 8 prev   the library's                       0 i32 start of the function
//! 16 start_ip       24 end_ip, exclusive                4 i32 its FDE, from segbase
//! 32 gp = 0         40 i32 format, 44 padding
//! 48 load_offset = 0
//! 56 name  64 segbase  72 entries  80 table
//! ```
//!
//! `libunwind-dynamic.h` of libunwind 1.6; measured with 1.6.2 and 1.8.1. The library differs from its
//! documentation: the table's length counts entries of 8 bytes, and the FDEs are FDEs of `.eh_frame`.

use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Endian};

use super::eh_frame::{EhFrame, distance};
use super::{Error, Region};

/// The base that a table's offsets count from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LibunwindForm {
    /// `UNW_INFO_FORMAT_IP_OFFSET`: starts count from the first PC, and FDEs count from the `.eh_frame`. With
    /// [`Pointers::Absolute`](super::Pointers::Absolute) the code may lie anywhere. Choose this form if you
    /// can.
    IpOffset,
    /// `UNW_INFO_FORMAT_REMOTE_TABLE`: starts and FDEs count from the `.eh_frame`. It must be within 2 GiB of
    /// the code.
    RemoteTable,
}

/// The layout of `unw_dyn_info_t` in the library. Look it up in the header that your program is compiled
/// with: does the structure have a member `load_offset`?
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DynInfoLayout {
    /// Libunwind 1.6.0 to 1.8.3: 88 bytes.
    WithLoadOffset,
    /// Libunwind up to 1.5: 80 bytes.
    WithoutLoadOffset,
}

impl DynInfoLayout {
    /// Returns the size of the structure in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::WithLoadOffset => 88,
            Self::WithoutLoadOffset => 80,
        }
    }
}

/// A search table over the FDEs of a region's [`EhFrame`].
#[derive(Clone, Debug)]
pub struct LibunwindTable {
    endian: Endian,
    form: LibunwindForm,
    start: Address,
    end: Address,
    segbase: Address,
    bytes: Vec<u8>,
}

impl LibunwindTable {
    /// Makes the table of a region. The region's `.eh_frame` lies at `eh_frame_address`.
    ///
    /// # Errors
    /// [`Error::Distance`]: an offset does not fit 32 bits. [`Error::Arch`]: an architecture of 32 bits.
    pub fn new(
        region: &Region,
        form: LibunwindForm,
        eh_frame: &EhFrame,
        eh_frame_address: Address,
    ) -> Result<Self, Error> {
        region.needs_64_bit("libunwind's table")?;
        let (arch, start) = (region.arch(), region.base());
        let end = Address(start.0 + region.code_len());
        let base = match form {
            LibunwindForm::IpOffset => start,
            LibunwindForm::RemoteTable => eh_frame_address,
        };
        let endian = Arch::endian(arch);
        let mut bytes = Vec::with_capacity(8 * eh_frame.fdes().len());
        for fde in eh_frame.fdes() {
            let offset = Address(fde.offset.0.to_u64());
            let fields = [distance(base, fde.start)?, distance(Address(0), offset)?];
            fields.iter().for_each(|&field| bytes.extend(endian.put_u32(field as u32)));
        }
        Ok(Self { endian, form, start, end, segbase: eh_frame_address, bytes })
    }

    /// Returns the entries. They may lie at any address that is a multiple of 4.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the structure that `_U_dyn_register` takes, for entries at the address `table`. The library
    /// links the structure into a list, so put it in writable memory at a multiple of 8. Keep it, the entries
    /// and the `.eh_frame` until `_U_dyn_cancel`. Only the first [`DynInfoLayout::size`] bytes count.
    pub fn dyn_info(&self, layout: DynInfoLayout, table: Address) -> [u8; 88] {
        let format: u32 = match self.form {
            LibunwindForm::RemoteTable => 2,
            LibunwindForm::IpOffset => 4,
        };
        let format = match self.endian {
            Endian::Little => u64::from(format),
            Endian::Big => u64::from(format) << 32,
        };
        let entries = self.bytes.len().to_u64() / 8;
        let common = [0, 0, self.start.0, self.end.0, 0, format];
        let load_offset = match layout {
            DynInfoLayout::WithLoadOffset => &[0][..],
            DynInfoLayout::WithoutLoadOffset => &[],
        };
        let union = [0, self.segbase.0, entries, table.0];
        let mut out = [0; 88];
        let words = common.iter().chain(load_offset).chain(&union);
        for (slot, &word) in out.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&self.endian.put_u64(word));
        }
        out
    }
}
