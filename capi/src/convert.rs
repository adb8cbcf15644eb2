//! Converts the call frame information of a linked file to a `.sframe` table.

use core::ffi::c_char;

use cfipack_cfi as cfi;
use cfipack_encoder::sframe::{Builder, Finish, OmittedFunction, Parallel, Section};
use cfipack_format::Unsupported;
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Key};

use crate::arguments::{array_mut, write, write_optional};
use crate::cfi_section::{cfi_sections, cfipack_cfi_sections};
use crate::cfipack_message;
use crate::cfipack_status::{self, BufferSize, NotFound};
use crate::handle::{self, Failure, Opaque};
use crate::options::cfipack_sframe_options;
use crate::pool::{Workers, cfipack_pool};
use crate::sized_options::options;
use crate::status::call;

/// A `.sframe` table that was converted from call frame information.
#[derive(Debug)]
pub struct cfipack_conversion(());

/// The value of a conversion.
#[derive(Debug)]
pub(crate) struct Converted {
    section: Section<'static>,
    address: Address,
    functions: usize,
    omitted: Vec<(u64, String)>,
}

impl Opaque for cfipack_conversion {
    type State = Converted;
}

/// Converts the call frame information of a linked file to a `.sframe` table that will lie at `address`. `pool` may
/// be null, or has the threads to use. `given` may be null for the default options. `message` may be null; otherwise
/// it gets a description of the error. Functions that the table cannot represent are omitted, and
/// `cfipack_conversion_get_omitted` returns the reasons. The bytes of the sections need not stay in memory. Free the
/// conversion with `cfipack_conversion_free`.
///
/// Returns `CFIPACK_STATUS_MALFORMED` if a record reaches beyond its section, because functions after it cannot be
/// found. Then `out` still gets a table, with all other functions. `message` and `cfipack_conversion_get_omitted`
/// give the record's offset. A frequent cause is a section in memory with an unknown length: see
/// `cfipack_eh_frame_len`. For every other status except `CFIPACK_STATUS_OK`, `out` gets null.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_new(
    out: *mut *mut cfipack_conversion,
    cfi: *const cfipack_cfi_sections,
    given: *const cfipack_sframe_options,
    address: u64,
    pool: *const cfipack_pool,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create_in_part(out, message, || {
            let (arch, sections) = cfi_sections(cfi)?;
            let builder = Builder::new(arch, options(given)?.table()?);
            let builder = builder.map_err(|error| Failure::new(cfipack_status::Unsupported, &error))?;
            Ok(convert(builder, &sections, Address(address), &Workers::get(pool)?))
        })
    }
}

/// Converts all functions that can be found, and returns an error if there may be others.
fn convert<'a>(
    mut builder: Builder<'a>,
    sections: &[cfi::Section<'a>],
    address: Address,
    pool: &Workers,
) -> (Converted, Result<(), Failure>) {
    let (mut functions, mut omitted, mut found_all) = (0, Vec::new(), Ok(()));
    for section in sections {
        functions += builder.push_all(Parallel::new(section, pool), |reason| match reason {
            OmittedFunction::Unsupported(unsupported) => omitted.push(omitted_function(&unsupported)),
            OmittedFunction::Malformed(error) => {
                // Functions after a record with an unknown end cannot be found.
                if matches!(error, cfi::Error::Length { .. }) && found_all.is_ok() {
                    found_all = Err(Failure::new(cfipack_status::Malformed, &error));
                }
                omitted.push((0, error.to_string()));
            }
        });
    }
    let mut section = builder.finish_with(Finish::on(pool)).into_owned();
    section.omit_distant(address, Key::address);
    omitted.extend(section.omitted().iter().map(omitted_function));
    (Converted { section, address, functions: functions.to_usize(), omitted }, found_all)
}

/// Returns a function's start and the reason why the table omits it.
fn omitted_function(unsupported: &Unsupported) -> (u64, String) {
    (unsupported.function.0, unsupported.to_string())
}

/// Gets the size of the table in bytes.
///
/// # Safety
/// `conversion` is null or a conversion, `len` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_len(
    conversion: *const cfipack_conversion,
    len: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(len, handle::get(conversion)?.section.len()) })
}

/// Gets the number of functions in the call frame information, and the number of functions that the table omits. Both
/// pointers may be null.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_num_functions(
    conversion: *const cfipack_conversion,
    functions: *mut usize,
    omitted: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe {
            let converted = handle::get(conversion)?;
            write_optional(functions, converted.functions)?;
            write_optional(omitted, converted.omitted.len())
        }
    })
}

/// Gets the start of an omitted function, and the reason, by its number from 0. The start is 0 if the function's
/// record cannot be read. Returns `CFIPACK_STATUS_NOT_FOUND` after the last omitted function.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_get_omitted(
    conversion: *const cfipack_conversion,
    number: usize,
    start: *mut u64,
    reason: *mut cfipack_message,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe {
            let (function, text) = handle::get(conversion)?.omitted.get(number).ok_or(NotFound)?;
            write_optional(start, *function)?;
            write_optional(reason, cfipack_message::new(text))
        }
    })
}

/// Writes the table into `out`, which must have exactly `cfipack_conversion_len` bytes.
///
/// # Safety
/// `conversion` is null or a conversion; `out` is writable for `len` bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_write(
    conversion: *mut cfipack_conversion,
    out: *mut u8,
    len: usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(conversion, |converted| {
            let out: &mut [u8] = array_mut(out, len)?;
            if out.len() != converted.section.len() {
                return Err(BufferSize.into());
            }
            let written = converted.section.write(out, converted.address, Key::address);
            written.map(|_| ()).map_err(|error| Failure::new(cfipack_status::Write, &error))
        })
    }
}

/// Returns the message of the conversion's last call, or an empty string if that call succeeded. The string stays
/// valid until the next call.
///
/// # Safety
/// `conversion` is null or a conversion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_message(conversion: *const cfipack_conversion) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(conversion) }
}

/// Frees a conversion. Does nothing for null.
///
/// # Safety
/// `conversion` is null or a conversion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_free(conversion: *mut cfipack_conversion) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(conversion) };
}
