//! What HP's libunwind registers for generated code.

use cfipack_assembler::region::{DynInfoLayout, LibunwindForm, LibunwindTable};
use cfipack_format::Address;

use crate::arguments::array_mut;
use crate::cfipack_status::{self, InvalidArgument};
use crate::handle;
use crate::region::{cfipack_region, copy, failure, pointers};

/// Starts count from the first PC (`UNW_INFO_FORMAT_IP_OFFSET`): the code may lie anywhere.
pub const CFIPACK_LIBUNWIND_IP_OFFSET: u32 = 0;
/// Starts count from the `.eh_frame` (`UNW_INFO_FORMAT_REMOTE_TABLE`), which lies within 2 GiB of the code.
pub const CFIPACK_LIBUNWIND_REMOTE_TABLE: u32 = 1;

/// `unw_dyn_info_t` has a member `load_offset`: libunwind 1.6.0 to 1.8.3.
pub const CFIPACK_LIBUNWIND_LOAD_OFFSET: u32 = 0;
/// It has none: libunwind up to 1.5.
pub const CFIPACK_LIBUNWIND_NO_LOAD_OFFSET: u32 = 1;

/// The search table that HP's libunwind takes, which will lie at `table_address`, a multiple of 4, and the
/// `unw_dyn_info_t` that `_U_dyn_register` takes. The region's `.eh_frame` lies at `eh_frame_address`, with pointers of
/// that form. `len` gets the bytes of the table, which may be asked for with a `capacity` of 0.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `out` is writable for `capacity` bytes, `dyn_info` for 88.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_libunwind_table(
    region: *mut cfipack_region,
    form: u32,
    layout: u32,
    pointer_form: u32,
    eh_frame_address: u64,
    table_address: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    dyn_info: *mut u8,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let form = match form {
                CFIPACK_LIBUNWIND_IP_OFFSET => LibunwindForm::IpOffset,
                CFIPACK_LIBUNWIND_REMOTE_TABLE => LibunwindForm::RemoteTable,
                _ => return Err(InvalidArgument.into()),
            };
            let layout = match layout {
                CFIPACK_LIBUNWIND_LOAD_OFFSET => DynInfoLayout::WithLoadOffset,
                CFIPACK_LIBUNWIND_NO_LOAD_OFFSET => DynInfoLayout::WithoutLoadOffset,
                _ => return Err(InvalidArgument.into()),
            };
            let eh_frame = region.eh_frame(pointers(pointer_form)?).map_err(failure)?;
            let table = LibunwindTable::new(region, form, &eh_frame, Address(eh_frame_address));
            let table = table.map_err(failure)?;
            copy(table.bytes(), out, capacity, len)?;
            let dyn_info: &mut [u8] = array_mut(dyn_info, 88)?;
            dyn_info.copy_from_slice(&table.dyn_info(layout, Address(table_address)));
            Ok(())
        })
    }
}
