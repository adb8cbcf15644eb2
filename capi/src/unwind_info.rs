//! Reads `__unwind_info` tables: parse, look up, iterate, print.

use core::ffi::c_char;

use cfipack_decoder::compact_unwind;
use cfipack_decoder::unwind_info::{Entry, Error, Section};
use cfipack_format::ImageOffset;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::widen::ToUsize;

use crate::arguments::{arch, array, write, write_list, write_text};
use crate::cfipack_status::{self, InvalidArgument, Malformed, NotFound, Unsupported};
use crate::in_place::{Memory, clear, get, put};
use crate::status::{Described, call, described};
use crate::{cfipack_message, cfipack_row};

/// A parsed `__unwind_info` table. It lives in memory of the caller, can be copied, and needs no release. The bytes
/// of the table must stay where they are as long as it is used. Any number of threads may read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_unwind_info {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 16],
}

impl Memory for cfipack_unwind_info {
    const TAG: u64 = u64::from_le_bytes(*b"cfiUNWIN");
    type Value = Section<'static>;
}

/// An entry of the table: `encoding` describes how to unwind the code from `start` up to `end`. Both are in
/// bytes from the image's Mach-O header.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_unwind_info_entry {
    /// The first byte of the code.
    pub start: u32,
    /// The first byte after the code.
    pub end: u32,
    /// The compact encoding.
    pub encoding: u32,
    /// The pointer slot that holds the address of the personality, in bytes from the Mach-O header; 0 if there is
    /// none.
    pub personality: u32,
    /// The language-specific data area, in bytes from the Mach-O header; 0 if there is none.
    pub lsda: u32,
    /// Always 0.
    pub reserved: u32,
    /// The number of the page, from 0.
    pub page: usize,
}

fn malformed(error: Error) -> cfipack_status {
    match error {
        Error::Version(_) => Unsupported,
        _ => Malformed,
    }
}

/// Parses the `__unwind_info` of an image. `message` may be null; otherwise it gets a description of the error. After
/// an error, other calls refuse `out`. Async-signal-safe.
///
/// # Safety
/// `bytes` must be readable for `len` bytes as long as the table is used.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_info_parse(
    out: *mut cfipack_unwind_info,
    bytes: *const u8,
    len: usize,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        described(message, || {
            clear(out)?;
            let bytes: &'static [u8] = array(bytes, len)?;
            let section = Section::parse(bytes);
            let section = section.map_err(|error| Described::new(malformed(error), error))?;
            Ok(put(out, section)?)
        })
    }
}

fn entry(section: &Section<'_>, entry: &Entry) -> Result<cfipack_unwind_info_entry, cfipack_status> {
    let personality = section.personality(entry).map_err(malformed)?;
    let lsda = section.lsda(entry).map_err(malformed)?;
    Ok(cfipack_unwind_info_entry {
        start: entry.start.0,
        end: entry.end.0,
        encoding: entry.encoding.0,
        personality: personality.map_or(0, |slot| slot.0),
        lsda: lsda.map_or(0, |lsda| lsda.0),
        reserved: 0,
        page: entry.page.to_usize(),
    })
}

/// Gets the entry for a PC, which is given in bytes from the image's Mach-O header. Returns
/// `CFIPACK_STATUS_NOT_FOUND` if there is no entry. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_info_lookup(
    table: *const cfipack_unwind_info,
    pc: u32,
    out: *mut cfipack_unwind_info_entry,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        let found = section.lookup(ImageOffset(pc)).map_err(malformed)?.ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, entry(section, &found)?) }
    })
}

/// Gets the number of pages of the table. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `count` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_info_num_pages(
    table: *const cfipack_unwind_info,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        // SAFETY: promised by the caller.
        unsafe { write(count, section.num_pages()) }
    })
}

/// Gets the entries of a page, in ascending order. `count` gets their number; pass a `capacity` of 0 to get only the
/// number. Returns `CFIPACK_STATUS_BUFFER_SIZE` if there are more than `capacity`, and then only the first entries
/// are written. Returns `CFIPACK_STATUS_NOT_FOUND` after the last page. Async-signal-safe.
///
/// # Safety
/// `table` was parsed; `entries` is writable for `capacity` entries, `count` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_info_get_entries(
    table: *const cfipack_unwind_info,
    page: usize,
    entries: *mut cfipack_unwind_info_entry,
    capacity: usize,
    count: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        let page = section.page(page).ok_or(NotFound)?.map_err(malformed)?;
        let values = (0..page.len()).map(|number| {
            let found = page.entry(number).ok_or(NotFound)?.map_err(malformed)?;
            entry(section, &found)
        });
        // SAFETY: promised by the caller.
        unsafe { write_list(entries, capacity, count, page.len(), values) }
    })
}

/// Gets the row that an encoding describes for the body of a function. The encoding does not describe the
/// prologue and the epilogue. Returns `CFIPACK_STATUS_NOT_FOUND` if the encoding has no unwind information,
/// or if it refers to an FDE. The lower 24 bits of that encoding are the offset of the FDE in `__eh_frame`.
///
/// `code` is the code from the entry's start on. Only the indirect mode of x86 reads it, and only its first 259
/// bytes. For all other encodings pass null and 0. Async-signal-safe.
///
/// # Safety
/// `code` is readable for `code_len` bytes, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_compact_unwind_row(
    architecture: u32,
    encoding: u32,
    code: *const u8,
    code_len: usize,
    out: *mut cfipack_row,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let code = unsafe { array(code, code_len) }?;
        let row = compact_unwind::row(Encoding(encoding), arch(architecture)?, code);
        let (row, _) = row.map_err(|_| Malformed)?.ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, cfipack_row::new(&row, false)) }
    })
}

/// Writes the table as text, as `llvm-objdump --unwind-info` prints it. `len` gets the size of the whole text in
/// bytes; pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer
/// than `capacity`; then only its first part is written. The text has no final zero. Async-signal-safe.
///
/// # Safety
/// `table` was parsed; `text` is writable for `capacity` bytes, `len` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_unwind_info_dump(
    table: *const cfipack_unwind_info,
    text: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        if len.is_null() {
            return Err(InvalidArgument);
        }
        // SAFETY: promised by the caller.
        unsafe { write_text(text, capacity, len, |out| section.dump(out).map(|_| ())) }
    })
}
