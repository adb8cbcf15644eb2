//! The call frame information of a linked file to a `.sframe` table.

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

/// A `.sframe` table that was made of call frame information.
#[derive(Debug)]
pub struct cfipack_conversion(());

/// The state.
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

/// Makes a `.sframe` table for `address` of the call frame information of a linked file, whose functions have addresses, on
/// the threads of `pool`, which may be null. A function that the table cannot represent is omitted:
/// `cfipack_conversion_get_omitted` has the reason. `given` may be null: the defaults. `message`, which may be null, gets what
/// is wrong. The bytes of the sections need not stay. `cfipack_conversion_free` frees it.
///
/// `CFIPACK_STATUS_MALFORMED` if a record reaches beyond its section, since functions after it cannot be found: the table that
/// `out` gets has all others. `message` and `cfipack_conversion_get_omitted` have the record's offset. A section in memory
/// whose length is not known is a frequent cause: see `cfipack_eh_frame_len`. `out` gets null for every other status than
/// this one and `CFIPACK_STATUS_OK`.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
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

/// Converts all functions that can be found; with an error if there may be others.
fn convert<'a>(
    mut builder: Builder<'a>,
    sections: &[cfi::Section<'a>],
    address: Address,
    pool: &Workers,
) -> (Converted, Result<(), Failure>) {
    let (mut functions, mut omitted, mut found_all) = (0, Vec::new(), Ok(()));
    let note = |unsupported: &Unsupported| (unsupported.function.0, unsupported.to_string());
    for section in sections {
        functions += builder.push_all(Parallel::new(section, pool), |reason| match reason {
            OmittedFunction::Unsupported(unsupported) => omitted.push(note(&unsupported)),
            OmittedFunction::Malformed(error) => {
                // What follows a record whose end is unknown is hidden.
                if matches!(error, cfi::Error::Length { .. }) && found_all.is_ok() {
                    found_all = Err(Failure::new(cfipack_status::Malformed, &error));
                }
                omitted.push((0, error.to_string()));
            }
        });
    }
    let mut section = builder.finish_with(Finish::on(pool)).into_owned();
    section.omit_distant(address, Key::address);
    omitted.extend(section.omitted().iter().map(note));
    (Converted { section, address, functions: functions.to_usize(), omitted }, found_all)
}

/// Bytes of the table.
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

/// Gets the number of functions that the call frame information has, and of those that the table omits. Both may be null.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
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

/// A function that the table omits, by its number from 0: its start, and the reason in words. The start is 0 if its record
/// cannot be read. `CFIPACK_STATUS_NOT_FOUND` after the last one.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
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

/// Writes the table into `out`, of exactly `cfipack_conversion_len` bytes.
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

/// The message of the conversion's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `conversion` is null or a conversion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_message(conversion: *const cfipack_conversion) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(conversion) }
}

/// Frees a conversion; null is nothing.
///
/// # Safety
/// `conversion` is null or a conversion.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_conversion_free(conversion: *mut cfipack_conversion) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(conversion) };
}
