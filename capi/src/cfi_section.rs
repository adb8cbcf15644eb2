//! Sections of call frame information, as C passes them.

use cfipack_cfi::{Section, SectionKind, eh_frame_len};
use cfipack_format::{Address, Arch};

use crate::arguments::{arch, array, reference, write};
use crate::cfipack_message;
use crate::cfipack_status::{self, InvalidArgument, Malformed};
use crate::status::{Described, described};

/// The section is `.eh_frame`.
pub const CFIPACK_EH_FRAME: u32 = 0;
/// The section is `.debug_frame`.
pub const CFIPACK_DEBUG_FRAME: u32 = 1;

/// A section of call frame information in a linked file, with its address. To find the length of an `.eh_frame` in
/// memory, use `cfipack_eh_frame_len`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_cfi_section {
    /// The bytes.
    pub bytes: *const u8,
    /// The length in bytes.
    pub len: usize,
    /// The address in memory.
    pub address: u64,
    /// The base of `DW_EH_PE_textrel` pointers; 0 if there are none.
    pub text: u64,
    /// The base of `DW_EH_PE_datarel` pointers; 0 if there are none.
    pub data: u64,
    /// `CFIPACK_EH_FRAME` or `CFIPACK_DEBUG_FRAME`
    pub kind: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// The call frame information of a file.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_cfi_sections {
    /// The sections.
    pub sections: *const cfipack_cfi_section,
    /// The number of sections.
    pub num_sections: usize,
    /// `CFIPACK_ARCH_...`.
    pub architecture: u32,
}

/// Finds the length of an `.eh_frame` in the memory of a process, where you know only its start. For example,
/// `PT_GNU_EH_FRAME` leads to `.eh_frame_hdr`, which has a pointer to the section and no length. `bytes` is the start
/// of the section. `available` is the number of bytes from there to any place at or after the section's end, for
/// example the end of the segment. `len` gets the number of bytes up to and including the zero that ends the section.
/// Memory after the zero is not read.
///
/// Returns `CFIPACK_STATUS_MALFORMED` if a record reaches beyond `available`. Then `len` gets the bytes of the
/// records before it, which you can convert. `message`, which may be null, gets the offset and length of the record.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `bytes` is readable for `available` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_eh_frame_len(
    bytes: *const u8,
    available: usize,
    architecture: u32,
    len: *mut usize,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        described(message, || {
            write(len, 0)?;
            let found = eh_frame_len(array(bytes, available)?, arch(architecture)?);
            write(len, found.unwrap_or_else(|error| error.offset().0))?;
            found.map(|_| ()).map_err(|error| Described::new(Malformed, error))
        })
    }
}

/// Returns the architecture and the sections of a file's call frame information.
///
/// # Safety
/// The structures, arrays and bytes are readable for `'a`.
pub(crate) unsafe fn cfi_sections<'a>(
    cfi: *const cfipack_cfi_sections,
) -> Result<(Arch, Vec<Section<'a>>), cfipack_status> {
    // SAFETY: promised by the caller.
    let cfi = unsafe { reference(cfi) }?;
    let arch = arch(cfi.architecture)?;
    // SAFETY: promised by the caller.
    let given = unsafe { array(cfi.sections, cfi.num_sections) }?;
    let mut sections = Vec::new();
    for given in given {
        let kind = match given.kind {
            CFIPACK_EH_FRAME => SectionKind::EhFrame,
            CFIPACK_DEBUG_FRAME => SectionKind::DebugFrame,
            _ => return Err(InvalidArgument),
        };
        // SAFETY: promised by the caller.
        let bytes = unsafe { array(given.bytes, given.len) }?;
        let section = Section::new(kind, bytes, Address(given.address), arch);
        sections.push(section.with_text(Address(given.text)).with_data(Address(given.data)));
    }
    Ok((arch, sections))
}
