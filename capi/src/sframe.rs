//! Reads `.sframe` tables: parse, look up, iterate, print.

use core::ffi::{CStr, c_char};

use cfipack_decoder::sframe::{Error, Frame, Function, Section};
use cfipack_format::Address;
use cfipack_format::sframe::FdeType;
use cfipack_format::widen::ToUsize;

use crate::arguments::{arch_number, array, write, write_list, write_text};
use crate::cfipack_status::{self, InvalidArgument, Malformed, NotFound, Unsupported};
use crate::in_place::{Memory, clear, get, put};
use crate::status::{Described, call, described};
use crate::{cfipack_message, cfipack_row};

/// A parsed `.sframe` table. It lives in memory of the caller, can be copied, and needs no release. The bytes of the
/// table must stay where they are as long as it is used. Any number of threads may read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_sframe {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 16],
}

impl Memory for cfipack_sframe {
    const TAG: u64 = u64::from_le_bytes(*b"cfiSFRAM");
    type Value = Section<'static>;
}

/// The properties of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cfipack_sframe_info {
    /// The version of the format: 1, 2 or 3.
    pub version: u32,
    /// `CFIPACK_ARCH_...`
    pub arch: u32,
    /// The address of the table.
    pub address: u64,
    /// The size of the table in bytes, without anything that follows it in the section.
    pub size: usize,
    /// The number of functions.
    pub num_functions: usize,
    /// The number of rows, as the header counts them.
    pub num_rows: usize,
    /// 1 if the functions are sorted by their starts.
    pub is_sorted: u32,
    /// The flags of the header.
    pub flags: u32,
}

/// A function of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cfipack_sframe_function {
    /// The address of the function.
    pub start: u64,
    /// The number of rows.
    pub num_rows: usize,
    /// The size of the function in bytes.
    pub size: u32,
    /// The number of bytes after which the rows of a PC-mask function repeat; 0 for other functions.
    pub repeat: u32,
    /// 1 if the function is a signal frame.
    pub is_signal_frame: u8,
    /// AArch64: 1 if return addresses are signed with key B.
    pub has_pauth_key_b: u8,
    /// 1 if the function has a flex FDE.
    pub is_flex: u8,
    /// Always 0.
    pub reserved: [u8; 5],
}

pub(crate) fn malformed(error: Error) -> cfipack_status {
    match error {
        Error::Version { .. } | Error::Abi { .. } => Unsupported,
        _ => Malformed,
    }
}

/// Writes the result of a lookup directly from its place, which saves copies.
///
/// # Safety
/// `out` is writable.
#[inline(always)]
pub(crate) unsafe fn write_frame(
    out: *mut cfipack_row,
    found: &Result<Option<Frame>, Error>,
) -> Result<(), cfipack_status> {
    match found {
        // SAFETY: promised by the caller.
        Ok(Some(frame)) => unsafe { write(out, cfipack_row::new(&frame.row, frame.is_signal_frame)) },
        Ok(None) => Err(NotFound),
        Err(error) => Err(malformed(*error)),
    }
}

/// Parses the table at the start of `bytes`, for a table that lies, or will lie, at `address` in memory. Zeros and
/// other tables may follow the table; `cfipack_sframe_get_info` returns its size. `message` may be null; otherwise it
/// gets a description of the error. After an error, other calls refuse `out`.
///
/// Async-signal-safe.
///
/// # Safety
/// `bytes` must be readable for `len` bytes as long as the table is used.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_parse(
    out: *mut cfipack_sframe,
    bytes: *const u8,
    len: usize,
    address: u64,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        described(message, || {
            clear(out)?;
            let bytes: &'static [u8] = array(bytes, len)?;
            let section = Section::parse_first(bytes, Address(address));
            let (section, _) = section.map_err(|error| Described::new(malformed(error), error))?;
            Ok(put(out, section)?)
        })
    }
}

/// Gets the properties of the table. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_get_info(
    table: *const cfipack_sframe,
    out: *mut cfipack_sframe_info,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        let info = cfipack_sframe_info {
            version: section.version() as u32,
            arch: arch_number(section.arch()),
            address: section.address().0,
            size: section.len(),
            num_functions: section.num_functions(),
            num_rows: section.header().num_fres.to_usize(),
            is_sorted: section.is_sorted().into(),
            flags: section.header().flags.bits().into(),
        };
        // SAFETY: promised by the caller.
        unsafe { write(out, info) }
    })
}

/// Checks the whole table: every function, every row, and their order. Lookups only check the parts that they read.
/// `message` may be null; otherwise it gets a description of the error. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `message` is null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_validate(
    table: *const cfipack_sframe,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        described(message, || get(table)?.validate().map_err(|error| Described::new(malformed(error), error)))
    }
}

/// Gets the row for a PC, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none. The start of the row counts from
/// the start of its function. Async-signal-safe; it reads only a small part of the table.
///
/// # Safety
/// `table` was parsed, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_lookup(
    table: *const cfipack_sframe,
    pc: u64,
    out: *mut cfipack_row,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        // SAFETY: promised by the caller.
        unsafe { write_frame(out, &section.lookup_frame(Address(pc))) }
    })
}

/// Gets the number of the function that contains a PC, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none.
/// Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_find(
    table: *const cfipack_sframe,
    pc: u64,
    out: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        let function = section.find(Address(pc)).map_err(malformed)?.ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, function.index()) }
    })
}

fn function<'a>(section: &Section<'a>, index: usize) -> Result<Function<'a>, cfipack_status> {
    section.function(index).ok_or(NotFound)?.map_err(malformed)
}

/// Gets a function by its number, from 0 in the order of the table. Returns `CFIPACK_STATUS_NOT_FOUND` after the last
/// function. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_get_function(
    table: *const cfipack_sframe,
    index: usize,
    out: *mut cfipack_sframe_function,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let function = function(unsafe { get(table) }?, index)?;
        let value = cfipack_sframe_function {
            start: function.start().0,
            num_rows: function.num_fres().to_usize(),
            size: function.size(),
            repeat: if function.is_pc_mask() { function.rep_size().into() } else { 0 },
            is_signal_frame: function.is_signal_frame().into(),
            has_pauth_key_b: function.has_pauth_key_b().into(),
            is_flex: (function.fde_type() == FdeType::Flex).into(),
            reserved: [0; 5],
        };
        // SAFETY: promised by the caller.
        unsafe { write(out, value) }
    })
}

/// Gets the rows of a function. `count` gets their number; pass a `capacity` of 0 to get only the number. Returns
/// `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`; then only the first rows are written.
/// Async-signal-safe.
///
/// # Safety
/// `table` was parsed; `rows` is writable for `capacity` rows, `count` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_get_rows(
    table: *const cfipack_sframe,
    index: usize,
    rows: *mut cfipack_row,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let function = function(unsafe { get(table) }?, index)?;
        let values = function
            .rows()
            .map(|row| Ok(cfipack_row::new(&row.map_err(malformed)?, function.is_signal_frame())));
        // SAFETY: promised by the caller.
        unsafe { write_list(rows, capacity, count, function.num_fres().to_usize(), values) }
    })
}

/// Writes the table as text, as `readelf --sframe` prints it. `name` is the name of the section. `len` gets the size
/// of the whole text in bytes; pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if
/// the text is longer than `capacity`; then only its first part is written. The text has no final zero.
/// Async-signal-safe.
///
/// # Safety
/// `table` was parsed; `name` ends with a zero; `text` is writable for `capacity` bytes, `len` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_dump(
    table: *const cfipack_sframe,
    name: *const c_char,
    text: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        if name.is_null() {
            return Err(InvalidArgument);
        }
        // SAFETY: promised by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| InvalidArgument)?;
        if len.is_null() {
            return Err(InvalidArgument);
        }
        // SAFETY: promised by the caller.
        unsafe { write_text(text, capacity, len, |out| section.dump(out, name)) }
    })
}
