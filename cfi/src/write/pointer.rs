//! Writes encoded pointers (`DW_EH_PE_*`; Linux Standard Base 5.0, "DWARF Extensions").

use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use super::Error;
use super::section::Writer;
use crate::PointerEncoding;

impl Writer {
    /// Appends a pointer to `target`, relative to the base of its encoding. [`Writer::fde`] and [`Writer::cie`]
    /// call it for their own pointers.
    ///
    /// # Errors
    /// The distance does not fit, or the encoding cannot be written.
    pub fn pointer(&mut self, encoding: PointerEncoding, target: Address) -> Result<(), Error> {
        let base = match encoding.0 & 0x70 {
            0x00 => Address(0),
            0x10 => Address(self.address.0.wrapping_add(self.bytes.len().to_u64())),
            0x20 => self.text,
            0x30 => self.data,
            0x50 if encoding.0 & 0x0f == 0 => {
                let here = self.address.0.wrapping_add(self.bytes.len().to_u64());
                let padding = here.wrapping_neg() % u64::from(self.arch.pointer_size());
                self.bytes.resize(self.bytes.len() + padding as usize, 0);
                Address(0)
            }
            _ => return Err(Error::PointerEncoding { encoding }),
        };
        self.value(encoding, target.0.wrapping_sub(base.0))
    }

    /// Appends a value in the format of a pointer, without a base, for example the size of a function.
    pub(super) fn value(&mut self, encoding: PointerEncoding, value: u64) -> Result<(), Error> {
        let is_narrow = self.arch.pointer_size() == 4;
        let does_not_fit = Error::Pointer { value, encoding };
        let signed = if is_narrow { i64::from(value as i32) } else { value as i64 };
        match encoding.0 & 0x0f {
            0x00 if is_narrow => self.u32(value as u32),
            0x00 | 0x04 | 0x0c => self.u64(value),
            0x01 => self.uleb(value),
            0x02 => self.u16(value.try_into().map_err(|_| does_not_fit)?),
            0x03 => self.u32(value.try_into().map_err(|_| does_not_fit)?),
            0x09 => self.sleb(signed),
            0x0a => self.u16(i16::try_from(signed).map_err(|_| does_not_fit)? as u16),
            0x0b => self.u32(i32::try_from(signed).map_err(|_| does_not_fit)? as u32),
            _ => return Err(Error::PointerEncoding { encoding }),
        }
        Ok(())
    }
}
