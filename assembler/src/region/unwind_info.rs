//! Makes Apple's `__unwind_info` and `__eh_frame` for a dynamic section.
//!
//! If dyld does not know a PC, LLVM's libunwind asks callbacks (`__unw_add_find_dynamic_unwind_sections`) for
//! the sections of its code. Sources: `mach-o/compact_unwind_encoding.h` and `libunwind_ext.h` of LLVM.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_cfi::Functions;
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_encoder::unwind_info::{Builder, Entry, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, Unsupported};

use super::{EhFrame, Error, Pointers, Region};

/// The tables of a region for Apple's unwinder.
#[derive(Clone, Debug)]
pub struct UnwindInfo {
    arch: Arch,
    base: Address,
    eh_frame: EhFrame,
    table: Vec<u8>,
    in_dwarf_mode: Vec<Unsupported>,
}

/// The result of a callback for a PC in the region: `unw_dynamic_unwind_sections`. Set all five members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct DynamicSections {
    /// The address that the table's functions count from: the region's start.
    pub dso_base: Address,
    /// The address of `__eh_frame`.
    pub dwarf_section: Address,
    /// The size of `__eh_frame` in bytes.
    pub dwarf_section_length: u64,
    /// The address of `__unwind_info`, or 0 if there is none.
    pub compact_unwind_section: Address,
    /// The size of `__unwind_info` in bytes.
    pub compact_unwind_section_length: u64,
}

impl Region {
    /// Returns the region's `__unwind_info` and `__eh_frame`.
    ///
    /// A function gets a compact encoding if the encoding restores the same registers as its call frame
    /// information. Other functions are in DWARF mode, and so are all functions with a personality or LSDA.
    /// `code` is the region's code. Without `code`, fewer functions get an encoding.
    ///
    /// # Errors
    /// - [`Error::Arch`]: Apple does not use the architecture.
    /// - [`Error::CodeLength`]: `code` is not as long as the region.
    /// - [`Error::TooLarge`]: the code or the call frame information is too large for a table.
    pub fn unwind_info(&self, code: Option<&[u8]>) -> Result<UnwindInfo, Error> {
        let (arch, no_format) = (self.arch, Error::Arch { arch: self.arch, form: "__unwind_info" });
        if let Some(code) = code
            && code.len().to_u64() != self.length
        {
            return Err(Error::CodeLength { given: code.len().to_u64(), needed: self.length });
        }
        if self.length > u32::MAX.into() {
            let what = "bytes of code for __unwind_info";
            return Err(Error::TooLarge { what, value: self.length, most: u32::MAX.into() });
        }
        let eh_frame = self.eh_frame(Pointers::Absolute)?;
        // The offset of an FDE has 24 bits.
        if eh_frame.bytes().len() >= 1 << 24 {
            let (what, value) = ("bytes of __eh_frame", eh_frame.bytes().len().to_u64());
            return Err(Error::TooLarge { what, value, most: (1 << 24) - 1 });
        }
        let mut builder = Builder::new(arch, Options::default()).map_err(|_| no_format)?;
        builder.reserve(self.len());
        let (mut encoder, mut in_dwarf_mode) = (Encoder::new(arch).map_err(|_| no_format)?, Vec::new());
        let section = eh_frame.section(Address(0));
        for function in Functions::new(&section) {
            let function = function.map_err(Error::Record)?;
            let offset = function.key.0 - self.base.0;
            let code = code.map(|code| &code[offset.to_usize()..][..function.size.to_usize()]);
            let by_dwarf = Encoding::dwarf(arch, function.fde.0 as u32);
            let encoding = match encoder.encode(&function, code, Mode::Checked) {
                // The table refers to a personality by the place of a pointer, and the region has no such
                // pointer.
                Ok(_) if function.cie.personality.is_some() => by_dwarf,
                Ok(encoding) => encoding,
                Err(unsupported) => {
                    in_dwarf_mode.push(unsupported);
                    by_dwarf
                }
            };
            let mut entry = Entry::new(ImageOffset(offset as u32), function.size as u32, encoding);
            entry.fde = NonZeroU32::new(function.fde.0 as u32);
            builder.push(entry);
        }
        let placed = builder.finish().place(None, Key::image_offset, LsdaKey::image_offset);
        let placed = placed.map_err(Error::UnwindInfo)?;
        let mut table = vec![0; placed.len()];
        placed.write(&mut table, |_| ImageOffset(0)).map_err(Error::UnwindInfo)?;
        Ok(UnwindInfo { arch, base: self.base, eh_frame, table, in_dwarf_mode })
    }
}

impl UnwindInfo {
    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns `__eh_frame`, which may lie anywhere.
    pub fn eh_frame(&self) -> &EhFrame {
        &self.eh_frame
    }

    /// Returns `__unwind_info`, which may lie at any multiple of 4. It is empty if there are no functions.
    pub fn unwind_info(&self) -> &[u8] {
        &self.table
    }

    /// Returns the functions without a compact encoding, with the reasons.
    pub fn in_dwarf_mode(&self) -> &[Unsupported] {
        &self.in_dwarf_mode
    }

    /// Returns the result of a callback for a PC of the region, if the two sections lie at these addresses.
    /// libunwind remembers FDEs under `dso_base`. When you remove the region, call
    /// `__unw_remove_dynamic_eh_frame_section(dso_base)`, which drops them.
    pub fn sections(&self, eh_frame: Address, unwind_info: Address) -> DynamicSections {
        let unwind_info = if self.table.is_empty() { Address(0) } else { unwind_info };
        DynamicSections {
            dso_base: self.base,
            dwarf_section: eh_frame,
            dwarf_section_length: self.eh_frame.bytes().len().to_u64(),
            compact_unwind_section: unwind_info,
            compact_unwind_section_length: self.table.len().to_u64(),
        }
    }
}
