//! `.sframe` tables, read: parse, look up, iterate, print.

use core::ffi::{CStr, c_char};

use cfipack_decoder::sframe::{Error, Frame, Function, Section};
use cfipack_format::Address;
use cfipack_format::sframe::FdeType;
use cfipack_format::widen::ToUsize;

use crate::arguments::{arch_number, array, array_mut, write};
use crate::cfipack_status::{self, BufferSize, InvalidArgument, Malformed, NotFound, Unsupported};
use crate::in_place::{Memory, clear, get, put};
use crate::status::{Described, Text, call, described};
use crate::{cfipack_message, cfipack_row};

/// A parsed `.sframe` table. It lives in memory of the caller, may be copied, and needs no release. The bytes of the
/// table have to stay where they are as long as it is used. Any number of threads may read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_sframe {
    /// Memory of the library, which nothing else reads or writes.
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
    /// 1, 2 or 3.
    pub version: u32,
    /// `CFIPACK_ARCH_...`
    pub arch: u32,
    /// The place of the table.
    pub address: u64,
    /// Bytes of the table. What follows it in the section is not part of it.
    pub size: usize,
    /// Functions.
    pub num_functions: usize,
    /// Rows, as the header counts them.
    pub num_rows: usize,
    /// 1 if functions are sorted by their starts.
    pub is_sorted: u32,
    /// The flags of the header.
    pub flags: u32,
}

/// A function of a table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cfipack_sframe_function {
    /// The start.
    pub start: u64,
    /// Rows.
    pub num_rows: usize,
    /// Bytes of code.
    pub size: u32,
    /// PC-mask functions: the bytes after which rows repeat; 0 otherwise.
    pub repeat: u32,
    /// 1 if it is a signal frame.
    pub is_signal_frame: u8,
    /// AArch64: 1 if return addresses are signed with key B.
    pub has_pauth_key_b: u8,
    /// 1 if it is a flex FDE.
    pub is_flex: u8,
    /// 0.
    pub reserved: [u8; 5],
}

pub(crate) fn malformed(error: Error) -> cfipack_status {
    match error {
        Error::Version { .. } | Error::Abi { .. } => Unsupported,
        _ => Malformed,
    }
}

/// Writes what a lookup found: from where it lies, which saves copies.
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

/// Parses the table at the start of `bytes`, which lies, or will lie, at `address` in memory. Zeros and other tables may
/// follow it; `cfipack_sframe_get_info` has its size. `message`, which may be null, gets what is wrong. After a failure `out` is
/// no table, and calls refuse it.
///
/// Async-signal-safe.
///
/// # Safety
/// `bytes` has to be readable for `len` bytes as long as the table is used.
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

/// Checks the whole table: every function and row, and their order. Lookups check only what they pass. `message`, which
/// may be null, gets what is wrong. Async-signal-safe.
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

/// The row that answers for a PC; `CFIPACK_STATUS_NOT_FOUND` if there is none. Its start counts from that of its function.
/// Async-signal-safe; it reads only what it passes.
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

/// The number of the function that has a PC; `CFIPACK_STATUS_NOT_FOUND` if there is none. Async-signal-safe.
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

/// The function of a number, from 0 in the order of the table; `CFIPACK_STATUS_NOT_FOUND` after the last one.
/// Async-signal-safe.
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

/// The rows of a function. `count` gets their number, which may be asked for with a `capacity` of 0;
/// `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`, whose first are written. Async-signal-safe.
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
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(rows.cast::<core::mem::MaybeUninit<cfipack_row>>(), capacity) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, function.num_fres().to_usize()) }?;
        for (row, out) in function.rows().zip(out) {
            out.write(cfipack_row::new(&row.map_err(malformed)?, function.is_signal_frame()));
        }
        if function.num_fres().to_usize() > capacity { Err(BufferSize) } else { Ok(()) }
    })
}

/// The table as text, as `readelf --sframe` prints it. `name` is the section's name. `len` gets the bytes of all text,
/// which may be asked for with a `capacity` of 0; `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer, whose first part is
/// written. There is no zero at its end. Async-signal-safe.
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
        // SAFETY: promised by the caller.
        let mut out = Text::new(unsafe { array_mut(text.cast::<u8>(), capacity) }?);
        // The text counts what does not fit, and has no errors.
        let _ = section.dump(&mut out, name);
        let written = out.len;
        // SAFETY: promised by the caller.
        unsafe { write(len, written) }?;
        if written > capacity { Err(BufferSize) } else { Ok(()) }
    })
}
