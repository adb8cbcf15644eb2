//! Regions of generated code, and the tables that runtimes register for them.

use core::ffi::c_char;

use cfipack_assembler::region::{Error, Pointers, Region};
use cfipack_cfi::{Functions, Section, SectionKind};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use crate::arguments::{arch, arch_number, array, array_mut, reference_mut, write, write_optional};
use crate::cfipack_message;
use crate::cfipack_status::{self, BufferSize, InvalidArgument, Refused, Unsupported, Write};
use crate::directives::{cfipack_directive, directives, name};
use crate::handle::{self, Failure, Opaque};
use crate::options::cfipack_sframe_options;
use crate::sized_options::options;
use crate::status::call;

/// A contiguous range of generated code, with its functions and their call frame information. Tables for the region
/// are copied into your memory, and you register them.
#[derive(Debug)]
pub struct cfipack_region(());

impl Opaque for cfipack_region {
    type State = Region;
}

/// `.eh_frame` contains absolute addresses, so it may lie anywhere.
pub const CFIPACK_POINTERS_ABSOLUTE: u32 = 0;
/// `.eh_frame` contains distances of 32 bits. It is smaller, and must lie within 2 GiB of the code.
pub const CFIPACK_POINTERS_PC_RELATIVE: u32 = 1;

/// The place of an FDE in the `.eh_frame` of a region.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_region_fde {
    /// The offset in bytes from the start of the section. LLVM's libunwind takes the FDE's address in
    /// `__register_frame`.
    pub offset: u64,
    /// The address of the function.
    pub start: u64,
    /// The size of the function in bytes.
    pub size: u64,
}

/// The four numbers to register a `.sframe` table with.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_registration {
    /// The address of the table.
    pub table: u64,
    /// The size of the table in bytes.
    pub table_size: u64,
    /// The address of the code.
    pub text: u64,
    /// The size of the code in bytes.
    pub text_size: u64,
}

pub(crate) fn failure(error: Error) -> Failure {
    let status = match error {
        Error::Arch { .. } => Unsupported,
        Error::Range { .. } | Error::CodeLength { .. } => InvalidArgument,
        Error::NotFound { .. } | Error::NoFunction { .. } => cfipack_status::NotFound,
        Error::Distance { .. } | Error::TooLarge { .. } => Write,
        _ => Refused,
    };
    Failure::new(status, &error)
}

/// Creates a region of `length` bytes of code at `base`. `message` may be null; otherwise it gets a description of
/// the error. Free the region with `cfipack_region_free`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_new(
    out: *mut *mut cfipack_region,
    architecture: u32,
    base: u64,
    length: u64,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, message, || {
            Region::new(arch(architecture)?, Address(base), length).map_err(failure)
        })
    }
}

/// Adds a function of `size` bytes at `offset` in the region's code, described by directives. `function_name` may be
/// null; debuggers and profilers print it. The region is unchanged if the function cannot be added.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `function_name` ends with a zero.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_push(
    region: *mut cfipack_region,
    function_name: *const c_char,
    offset: u64,
    size: u64,
    given: *const cfipack_directive,
    num_directives: usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let directives = directives(region.arch(), size, array(given, num_directives)?)?;
            region.push(name(function_name)?, offset, &directives).map_err(failure)
        })
    }
}

/// Adds the functions of an `.eh_frame` that lies at `address`, for example from another code generator. The
/// functions have no names. If any function cannot be read or added, the call fails and the region is unchanged,
/// because unwinders would register the whole section. If you only know the start of the section,
/// `cfipack_eh_frame_len` finds its length.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `bytes` is readable for `len` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_push_eh_frame(
    region: *mut cfipack_region,
    bytes: *const u8,
    len: usize,
    address: u64,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let bytes = array(bytes, len)?;
            let section = Section::new(SectionKind::EhFrame, bytes, Address(address), region.arch());
            let mut more = region.clone();
            for function in Functions::new(&section) {
                let function = function.map_err(|error| Failure::new(cfipack_status::Malformed, &error))?;
                more.push_cfi("", &function).map_err(failure)?;
            }
            *region = more;
            Ok(())
        })
    }
}

/// Copies bytes into the caller's buffer and sets `len` to their number. A buffer that is too small is not written
/// to.
///
/// # Safety
/// `out` is writable for `capacity` bytes, `len` is writable.
pub(crate) unsafe fn copy(
    bytes: &[u8],
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        write(len, bytes.len())?;
        let out: &mut [u8] = array_mut(out, capacity)?;
        let out = out.get_mut(..bytes.len()).ok_or(BufferSize)?;
        out.copy_from_slice(bytes);
    }
    Ok(())
}

pub(crate) fn pointers(number: u32) -> Result<Pointers, cfipack_status> {
    match number {
        CFIPACK_POINTERS_ABSOLUTE => Ok(Pointers::Absolute),
        CFIPACK_POINTERS_PC_RELATIVE => Ok(Pointers::PcRelative),
        _ => Err(InvalidArgument),
    }
}

/// Makes the region's `.eh_frame` for `address`, with a terminator, as the unwinders of libgcc and LLVM expect it.
/// `len` gets the number of bytes; pass a `capacity` of 0 to get only this number. Returns
/// `CFIPACK_STATUS_BUFFER_SIZE` if the section does not fit. `fdes` may be null; otherwise it gets an FDE for each
/// function of the region, in the order of their addresses.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `capacity` bytes, `fdes` for as many
/// FDEs as the region has functions.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_eh_frame(
    region: *mut cfipack_region,
    pointer_form: u32,
    address: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    fdes: *mut cfipack_region_fde,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let mut eh_frame = region.eh_frame(pointers(pointer_form)?).map_err(failure)?;
            eh_frame.place(Address(address)).map_err(failure)?;
            if !fdes.is_null() {
                let fdes = fdes.cast::<core::mem::MaybeUninit<cfipack_region_fde>>();
                for (out, fde) in array_mut(fdes, eh_frame.fdes().len())?.iter_mut().zip(eh_frame.fdes()) {
                    let (offset, start) = (fde.offset.0.to_u64(), fde.start.0);
                    out.write(cfipack_region_fde { offset, start, size: fde.size });
                }
            }
            copy(eh_frame.bytes(), out, capacity, len)
        })
    }
}

/// Gets the number of functions in the region.
///
/// # Safety
/// `region` is null or a region, `count` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_num_functions(
    region: *const cfipack_region,
    count: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(count, handle::get(region)?.len()) })
}

/// Memory of the caller, for output with a length that is not known before the call.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_buffer {
    /// The memory for the bytes; null if `capacity` is 0.
    pub bytes: *mut u8,
    /// The number of bytes that may be written.
    pub capacity: usize,
    /// The function sets this to the number of bytes of output. If it is more than `capacity`, nothing is written,
    /// and the status is `CFIPACK_STATUS_BUFFER_SIZE`.
    pub len: usize,
}

/// Copies bytes into a buffer of the caller.
///
/// # Safety
/// `buffer` is null or a buffer, writable for its capacity.
pub(crate) unsafe fn fill(bytes: &[u8], buffer: *mut cfipack_buffer) -> Result<(), Failure> {
    // SAFETY: promised by the caller.
    unsafe {
        let buffer = reference_mut(buffer)?;
        copy(bytes, buffer.bytes, buffer.capacity, &mut buffer.len)
    }
}

/// Makes the region's `.sframe` table for `address`. `given` may be null for the default options. `registration` and
/// `omitted` may be null; otherwise they get the numbers to register, and the number of functions that the table
/// cannot represent. Unwinding ends in omitted functions.
///
/// # Safety
/// Each pointer is null or points to a value of its type; the buffer is writable for its capacity.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_sframe(
    region: *mut cfipack_region,
    given: *const cfipack_sframe_options,
    address: u64,
    out: *mut cfipack_buffer,
    registration: *mut cfipack_registration,
    omitted: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let table = region.sframe(options(given)?.table()?).map_err(failure)?;
            let out = reference_mut(out)?;
            out.len = table.len();
            write_optional(omitted, table.omitted().len())?;
            let out: &mut [u8] = array_mut(out.bytes, out.capacity)?;
            let out = out.get_mut(..table.len()).ok_or(BufferSize)?;
            let numbers = table.write(out, Address(address)).map_err(failure)?;
            Ok(write_optional(registration, numbers.into())?)
        })
    }
}

impl From<cfipack_assembler::region::Registration> for cfipack_registration {
    fn from(numbers: cfipack_assembler::region::Registration) -> Self {
        Self {
            table: numbers.table.0,
            table_size: numbers.table_size,
            text: numbers.text.0,
            text_size: numbers.text_size,
        }
    }
}

/// Makes the in-memory ELF file for gdb's JIT interface. `len` gets the number of bytes; pass a `capacity` of 0 to
/// get only this number.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `out` is writable for `capacity` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_gdb_elf(
    region: *mut cfipack_region,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::with(region, |region| copy(&region.gdb_elf().map_err(failure)?, out, capacity, len)) }
}

/// The sections of a region for Apple's and LLVM's unwinders, as in their `unw_dynamic_unwind_sections`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_dynamic_sections {
    /// The address from which the table counts its functions: the start of the region.
    pub dso_base: u64,
    /// The address of `__eh_frame`.
    pub dwarf_section: u64,
    /// The size of `__eh_frame` in bytes.
    pub dwarf_section_length: u64,
    /// The address of `__unwind_info`, or 0 if there is none.
    pub compact_unwind_section: u64,
    /// The size of `__unwind_info` in bytes.
    pub compact_unwind_section_length: u64,
}

/// Makes the region's `__eh_frame` and `__unwind_info`. `code` may be null, or is the region's code: without it,
/// fewer functions get a compact encoding. `sections` may be null; otherwise it gets the structure that a callback of
/// `__unw_add_find_dynamic_unwind_sections` returns.
///
/// # Safety
/// Each pointer is null or points to a value of its type; buffers are writable for their capacities, `code` is
/// readable for the length of the region.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_unwind_info(
    region: *mut cfipack_region,
    code: *const u8,
    eh_frame_address: u64,
    eh_frame: *mut cfipack_buffer,
    unwind_info_address: u64,
    unwind_info: *mut cfipack_buffer,
    sections: *mut cfipack_dynamic_sections,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let length = usize::try_from(region.code_len()).map_err(|_| InvalidArgument)?;
            let code = if code.is_null() { None } else { Some(array(code, length)?) };
            let made = region.unwind_info(code).map_err(failure)?;
            let numbers = made.sections(Address(eh_frame_address), Address(unwind_info_address));
            let first = fill(made.eh_frame().bytes(), eh_frame);
            fill(made.unwind_info(), unwind_info)?;
            first?;
            let numbers = cfipack_dynamic_sections {
                dso_base: numbers.dso_base.0,
                dwarf_section: numbers.dwarf_section.0,
                dwarf_section_length: numbers.dwarf_section_length,
                compact_unwind_section: numbers.compact_unwind_section.0,
                compact_unwind_section_length: numbers.compact_unwind_section_length,
            };
            Ok(write_optional(sections, numbers)?)
        })
    }
}

/// Returns the architecture of a region as `CFIPACK_ARCH_...`, or 0 for null.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_arch(region: *const cfipack_region) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { handle::get(region) }.map_or(0, |region| arch_number(region.arch()))
}

/// Returns the message of the region's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_message(region: *const cfipack_region) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(region) }
}

/// Frees a region. Does nothing for null. Tables that were made from the region stay valid.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_free(region: *mut cfipack_region) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(region) };
}
