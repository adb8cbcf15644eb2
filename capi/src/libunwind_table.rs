//! Registers generated code with HP's libunwind.

use cfipack_assembler::region::{DynInfoLayout, LibunwindForm, LibunwindTable};
use cfipack_format::Address;

use crate::arguments::{array_mut, reference};
use crate::cfipack_status::{self, InvalidArgument};
use crate::handle;
use crate::region::{cfipack_buffer, cfipack_region, failure, fill, pointers};

/// Starts of functions count from the first PC (`UNW_INFO_FORMAT_IP_OFFSET`). The code may lie anywhere.
pub const CFIPACK_LIBUNWIND_IP_OFFSET: u32 = 0;
/// Starts of functions count from the `.eh_frame` (`UNW_INFO_FORMAT_REMOTE_TABLE`), which must lie within 2 GiB of
/// the code.
pub const CFIPACK_LIBUNWIND_REMOTE_TABLE: u32 = 1;

/// `unw_dyn_info_t` has the member `load_offset`: libunwind 1.6.0 to 1.8.3.
pub const CFIPACK_LIBUNWIND_LOAD_OFFSET: u32 = 0;
/// `unw_dyn_info_t` has no member `load_offset`: libunwind up to 1.5.
pub const CFIPACK_LIBUNWIND_NO_LOAD_OFFSET: u32 = 1;

/// How HP's libunwind will use a search table, and where it will lie.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_libunwind {
    /// The base of the starts of functions: `CFIPACK_LIBUNWIND_IP_OFFSET` or `..._REMOTE_TABLE`.
    pub form: u32,
    /// The layout of `unw_dyn_info_t`: `CFIPACK_LIBUNWIND_LOAD_OFFSET` or `..._NO_LOAD_OFFSET`.
    pub layout: u32,
    /// The pointers of the region's `.eh_frame`: `CFIPACK_POINTERS_...`.
    pub pointers: u32,
    /// The address of the `.eh_frame`.
    pub eh_frame_address: u64,
    /// The address that the table will have, a multiple of 4.
    pub table_address: u64,
}

/// Makes the search table for HP's libunwind, and the `unw_dyn_info_t` that you pass to `_U_dyn_register`.
///
/// # Safety
/// Each pointer is null or points to a value of its type; the buffer is writable for its capacity, `dyn_info` for 88
/// bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_libunwind_table(
    region: *mut cfipack_region,
    given: *const cfipack_libunwind,
    out: *mut cfipack_buffer,
    dyn_info: *mut u8,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let given = reference(given)?;
            let form = match given.form {
                CFIPACK_LIBUNWIND_IP_OFFSET => LibunwindForm::IpOffset,
                CFIPACK_LIBUNWIND_REMOTE_TABLE => LibunwindForm::RemoteTable,
                _ => return Err(InvalidArgument.into()),
            };
            let layout = match given.layout {
                CFIPACK_LIBUNWIND_LOAD_OFFSET => DynInfoLayout::WithLoadOffset,
                CFIPACK_LIBUNWIND_NO_LOAD_OFFSET => DynInfoLayout::WithoutLoadOffset,
                _ => return Err(InvalidArgument.into()),
            };
            let eh_frame = region.eh_frame(pointers(given.pointers)?).map_err(failure)?;
            let table = LibunwindTable::new(region, form, &eh_frame, Address(given.eh_frame_address));
            let table = table.map_err(failure)?;
            fill(table.bytes(), out)?;
            let dyn_info: &mut [u8] = array_mut(dyn_info, 88)?;
            dyn_info.copy_from_slice(&table.dyn_info(layout, Address(given.table_address)));
            Ok(())
        })
    }
}
