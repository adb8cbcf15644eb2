//! Reads landing pads from an LSDA. A landing pad is where execution continues when a called function throws.
//!
//! Source: "Exception Handling ABI for the Itanium C++ ABI" leaves the language-specific data area (LSDA) of C++ to
//! implementations. This module reads the form that GCC, LLVM and Rust write. The pointer encodings are in the LSB
//! Core specification, "DWARF Extensions".

use cfipack_format::{Address, Arch};

use crate::analysis::CallSite;

/// The encoding of an omitted value.
const OMIT: u8 = 0xff;

/// Returns the call sites with landing pads from a function's LSDA, ascending.
///
/// Pass in `at` the address of the LSDA, and the function's start and `size` in bytes. The result is empty if the
/// LSDA is damaged or has an unknown form. It never has more entries than the function has bytes.
pub fn read(lsda: &[u8], at: Address, start: Address, size: u32, arch: Arch) -> Vec<CallSite> {
    let mut cursor = Cursor { bytes: lsda, at: at.0, arch };
    cursor.call_sites(start, size).unwrap_or_default()
}

struct Cursor<'b> {
    bytes: &'b [u8],
    /// The address of the next byte.
    at: u64,
    arch: Arch,
}

impl Cursor<'_> {
    fn call_sites(&mut self, start: Address, size: u32) -> Option<Vec<CallSite>> {
        let encoding = self.byte()?;
        let base = if encoding == OMIT { start.0 } else { self.pointer(encoding)? };
        if self.byte()? != OMIT {
            self.uleb()?;
        }
        let encoding = self.byte()?;
        let length = usize::try_from(self.uleb()?).ok()?;
        let mut rest = Cursor { bytes: self.bytes.get(..length)?, at: self.at, arch: self.arch };
        let mut sites: Vec<CallSite> = Vec::new();
        let mut last = 0;
        for _ in 0..size {
            if rest.bytes.is_empty() {
                break;
            }
            let (first, len) = (rest.pointer(encoding)?, rest.pointer(encoding)?);
            let (pad, _) = (rest.pointer(encoding)?, rest.uleb()?);
            let end = first.checked_add(len)?;
            if first < last || end > size.into() {
                return None;
            }
            last = end;
            if pad != 0 {
                let landing_pad = Address(base.wrapping_add(pad));
                sites.push(CallSite { start: first as u32, end: end as u32, landing_pad, stack: None });
            }
        }
        Some(sites)
    }

    fn byte(&mut self) -> Option<u8> {
        self.number(1).map(|byte| byte as u8)
    }

    fn number(&mut self, size: usize) -> Option<u64> {
        let (bytes, rest) = self.bytes.split_at_checked(size)?;
        (self.bytes, self.at) = (rest, self.at.wrapping_add(size as u64));
        Some(crate::table::number(bytes, self.arch.endian()))
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a value that is absolute or relative to its own place.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let at = self.at;
        let value = match encoding & 0x0f {
            0x00 => self.number(self.arch.pointer_size().into())?,
            0x01 => self.uleb()?,
            0x02 => self.number(2)?,
            0x03 => self.number(4)?,
            0x04 | 0x0c => self.number(8)?,
            0x0b => i64::from(self.number(4)? as u32 as i32) as u64,
            _ => return None,
        };
        match encoding & 0xf0 {
            0x00 => Some(value),
            0x10 => Some(value.wrapping_add(at)),
            _ => None,
        }
    }
}
