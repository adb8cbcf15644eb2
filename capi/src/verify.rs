//! Verifies a table against call frame information.

use core::ffi::c_char;
use std::fmt::Write as _;

use cfipack_decoder::sframe;
use cfipack_format::Address;
use cfipack_format::widen::ToUsize;
use cfipack_roundtrip::{Options, Report, Table, verify_on};

use crate::arguments::{array, write, write_text};
use crate::cfi_section::{cfi_sections, cfipack_cfi_sections};
use crate::cfipack_message;
use crate::cfipack_status;
use crate::handle::{self, Failure, Opaque};
use crate::pool::{Workers, cfipack_pool};
use crate::status::{Text, call};

/// The counts of a verification. A function is an FDE of the call frame information, and a PC is a byte of code.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_report_counts {
    /// 1 if the table agrees with the call frame information at every PC for which it has a row.
    pub is_true: u32,
    /// 1 if the table has all rows of the call frame information and no others, and every function could be judged.
    pub is_complete: u32,
    /// Functions in the call frame information.
    pub functions: usize,
    /// Functions for which table and call frame information agree at every PC.
    pub equal: usize,
    /// Functions with a PC at which the two differ.
    pub different: usize,
    /// Functions with a PC that has a row in the call frame information and no row in the table.
    pub missing: usize,
    /// Functions that cannot be evaluated to their end.
    pub unjudged: usize,
    /// Functions of the table with rows for PCs that are in no function of the call frame information.
    pub extra: usize,
    /// Faults of the table: functions that cannot be read or found.
    pub malformed: usize,
    /// PCs that the table or the call frame information covers.
    pub pcs: u64,
    /// PCs at which the two agree.
    pub pcs_equal: u64,
    /// PCs at which the two differ.
    pub pcs_different: u64,
    /// PCs for which only the call frame information has a row.
    pub pcs_missing: u64,
}

/// The result of a verification: counts and details.
#[derive(Debug)]
pub struct cfipack_report(());

impl Opaque for cfipack_report {
    type State = Report;
}

/// Compares a `.sframe` table with call frame information at every PC, in both directions. gimli evaluates the call
/// frame information. `table` has `table_len` bytes and lies at `address`. `pool` may be null, or has the threads to
/// use. `message` may be null; otherwise it gets the reason why the table cannot be read. Free the report with
/// `cfipack_report_free`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_verify_sframe(
    out: *mut *mut cfipack_report,
    cfi: *const cfipack_cfi_sections,
    table: *const u8,
    table_len: usize,
    address: u64,
    pool: *const cfipack_pool,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, message, || {
            let (_, cfi) = cfi_sections(cfi)?;
            let table = sframe::Section::parse_first(array(table, table_len)?, Address(address));
            let (table, _) = table.map_err(|error| Failure::new(cfipack_status::Malformed, &error))?;
            let pool = Workers::get(pool)?;
            Ok(verify_on(&pool, &cfi, &Table::new(&[table]), &Options::new()))
        })
    }
}

/// Gets the counts of a report.
///
/// # Safety
/// `report` is null or a report, `out` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_report_get_counts(
    report: *const cfipack_report,
    out: *mut cfipack_report_counts,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let report = unsafe { handle::get(report) }?;
        let counts = cfipack_report_counts {
            is_true: report.is_true().into(),
            is_complete: report.is_complete().into(),
            functions: report.functions.to_usize(),
            equal: report.equal.to_usize(),
            different: report.different.to_usize(),
            missing: report.missing.to_usize(),
            unjudged: report.unjudged.to_usize(),
            extra: report.extra.to_usize(),
            malformed: report.malformed.to_usize(),
            pcs: report.pcs,
            pcs_equal: report.pcs_equal,
            pcs_different: report.pcs_different,
            pcs_missing: report.pcs_missing,
        };
        // SAFETY: promised by the caller.
        unsafe { write(out, counts) }
    })
}

/// Writes the details of a report as text, one per line: differences, faults, and functions that are missing or could
/// not be judged. There are at most a hundred lines of each kind. `len` gets the size of the whole text in bytes;
/// pass a `capacity` of 0 to get only this size. Returns `CFIPACK_STATUS_BUFFER_SIZE` if the text is longer than
/// `capacity`; then only its first part is written. The text has no final zero.
///
/// # Safety
/// `report` is null or a report; `text` is writable for `capacity` bytes, `len` is null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_report_text(
    report: *const cfipack_report,
    text: *mut c_char,
    capacity: usize,
    len: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let report = unsafe { handle::get(report) }?;
        // SAFETY: promised by the caller.
        unsafe { write_text(text, capacity, len, |out| lines(report, out)) }
    })
}

fn lines(report: &Report, out: &mut Text<'_>) -> core::fmt::Result {
    for difference in &report.differences {
        writeln!(out, "{difference}")?;
    }
    for fault in &report.faults {
        writeln!(out, "{}", fault.kind)?;
    }
    for unverified in &report.unverified {
        match unverified.function {
            Some(function) => writeln!(out, "{function}: {}", unverified.words)?,
            None => writeln!(out, "{}", unverified.words)?,
        }
    }
    Ok(())
}

/// Frees a report. Does nothing for null.
///
/// # Safety
/// `report` is null or a report.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_report_free(report: *mut cfipack_report) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(report) };
}
