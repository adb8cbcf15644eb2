//! Generated code: what runtimes register for it.

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

/// A contiguous range of generated code, with its functions and their call frame information. What is made of it is copied
/// into the caller's memory; the caller registers it.
#[derive(Debug)]
pub struct cfipack_region(());

impl Opaque for cfipack_region {
    type State = Region;
}

/// `.eh_frame` holds addresses as they are: it may lie anywhere.
pub const CFIPACK_POINTERS_ABSOLUTE: u32 = 0;
/// `.eh_frame` holds distances of 32 bits: smaller, for a section within 2 GiB of the code.
pub const CFIPACK_POINTERS_PC_RELATIVE: u32 = 1;

/// The place of an FDE in the `.eh_frame` of a region.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_region_fde {
    /// In bytes from the section's start: the address is what `__register_frame` of LLVM's libunwind takes.
    pub offset: u64,
    /// The function's start.
    pub start: u64,
    /// Bytes of code.
    pub size: u64,
}

/// The four numbers by which a `.sframe` table is registered.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_registration {
    /// The place of the table.
    pub table: u64,
    /// Bytes of the table.
    pub table_size: u64,
    /// The start of the code.
    pub text: u64,
    /// Bytes of the code.
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

/// Makes a region of `length` bytes of code at `base`. `message`, which may be null, gets what is wrong.
/// `cfipack_region_free` frees it.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
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

/// Adds the function of `size` bytes at `offset` of the region's code, described by directives. Debuggers and profilers
/// print its name, which may be null. The region is unchanged if it cannot be added.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `function_name` ends with a zero.
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

/// Adds the functions of an `.eh_frame` that lies at `address`, such as another writer has made. They have no names. The
/// region is unchanged if one cannot be added, or read: unwinders would register all of the section. If you know the start of
/// the section alone, `cfipack_eh_frame_len` finds its length.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `bytes` is readable for `len` bytes.
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
                let malformed = |error| Failure::new(cfipack_status::Malformed, &error);
                more.push_cfi("", &function.map_err(malformed)?).map_err(failure)?;
            }
            *region = more;
            Ok(())
        })
    }
}

/// Copies bytes into the caller's buffer. `len` gets how many there are; a buffer that is too small is not written to.
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

/// The region's `.eh_frame`, which will lie at `address`, terminated, as libgcc's and LLVM's unwinders take it. `len` gets its
/// bytes, which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if it does not fit. `fdes`, which may
/// be null, gets one FDE for each function of the region, in the order of their addresses.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` bytes, `fdes` for as many FDEs
/// as the region has functions.
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

/// Returns the number of functions in the region.
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

/// Memory of the caller's for bytes of which the length is not known before.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_buffer {
    /// The memory for the bytes; null if `capacity` is 0.
    pub bytes: *mut u8,
    /// Bytes that may be written.
    pub capacity: usize,
    /// Set by the function: how many bytes there are. If they are more than `capacity`, none is written, and the status is
    /// `CFIPACK_STATUS_BUFFER_SIZE`.
    pub len: usize,
}

/// Copies bytes into the caller's buffer.
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

/// The region's `.sframe` table, which will lie at `address`. `registration` and `omitted`, which may be null, get what to register and how many functions the table cannot
/// represent: unwinding ends in them.
///
/// # Safety
/// Pointers are null, or lead to what their types say; the buffer is writable for its capacity.
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

/// The ELF file in memory that gdb's JIT interface takes. `len` gets its bytes, which may be asked for with a `capacity` of 0.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` bytes.
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

/// The sections that Apple's and LLVM's unwinder takes for a dynamic section.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_dynamic_sections {
    /// The address that the table's functions count from: the region's start.
    pub dso_base: u64,
    /// The address of `__eh_frame`.
    pub dwarf_section: u64,
    /// The bytes.
    pub dwarf_section_length: u64,
    /// The address of `__unwind_info`; 0 without one.
    pub compact_unwind_section: u64,
    /// The bytes.
    pub compact_unwind_section_length: u64,
}

/// The region's `__eh_frame` and `__unwind_info`. `code`, which may be null, is the region's code, without which fewer functions
/// have a compact encoding. `sections`, which may be null, gets what a
/// callback of `__unw_add_find_dynamic_unwind_sections` gives.
///
/// # Safety
/// Pointers are null, or lead to what their types say; buffers are writable for their capacities, `code` is readable for
/// the length of the region.
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

/// The architecture of a region, as `CFIPACK_ARCH_...`; 0 for null.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_arch(region: *const cfipack_region) -> u32 {
    // SAFETY: promised by the caller.
    unsafe { handle::get(region) }.map_or(0, |region| arch_number(region.arch()))
}

/// The message of the region's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_message(region: *const cfipack_region) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(region) }
}

/// Frees a region; null is nothing. What was made of it stays.
///
/// # Safety
/// `region` is null or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_free(region: *mut cfipack_region) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(region) };
}
