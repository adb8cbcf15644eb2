//! Registers code with HP's libunwind, which many tools use beside the process's own unwinder.

use std::ffi::c_void;
use std::mem;

use cfipack::assembler::region::{DynInfoLayout, Error, LibunwindForm, LibunwindTable, Pointers, Region};
use cfipack::format::Address;

use super::libgcc::symbol;

type DynRegister = unsafe extern "C" fn(*mut [u64; 11]);
type Flush = unsafe extern "C" fn(*mut c_void, u64, u64);

/// A region that is registered with libunwind.
pub struct Registered {
    library: *mut c_void,
    /// The `unw_dyn_info_t`, which libunwind puts into its list.
    info: *mut [u64; 11],
    /// The sections that the structure points to.
    _eh_frame: Box<[u8]>,
    _table: Box<[u64]>,
}

/// Registers a region with a library from `dlopen`. Returns `None` if the library has no such function, or if
/// the region has no functions. `layout` must agree with the library's header `libunwind-dynamic.h`.
pub fn register(
    library: *mut c_void,
    region: &Region,
    form: LibunwindForm,
    layout: DynInfoLayout,
) -> Result<Option<Registered>, Error> {
    let Some(function) = symbol(library, c"_U_dyn_register") else { return Ok(None) };
    if region.is_empty() {
        return Ok(None);
    }
    let eh_frame = region.eh_frame(Pointers::Absolute)?;
    let bytes: Box<[u8]> = eh_frame.bytes().into();
    let table = LibunwindTable::new(region, form, &eh_frame, Address(bytes.as_ptr() as u64))?;
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
    };
    let entries: Box<[u64]> = words(table.bytes()).into();
    let info = words(&table.dyn_info(layout, Address(entries.as_ptr() as u64)));
    let info = Box::into_raw(Box::new(info.try_into().expect("88 bytes")));
    // SAFETY: the function has this type, and its argument stays until it is cancelled.
    unsafe { mem::transmute::<*mut c_void, DynRegister>(function)(info) };
    Ok(Some(Registered { library, info, _eh_frame: bytes, _table: entries }))
}

impl Drop for Registered {
    /// Drop this only while no thread unwinds with libunwind, which walks its list without a lock.
    fn drop(&mut self) {
        let function = |name| symbol(self.library, name).expect("libunwind has it");
        // SAFETY: the functions have these types, the structure is registered, and no one else uses it afterwards.
        unsafe {
            mem::transmute::<*mut c_void, DynRegister>(function(c"_U_dyn_cancel"))(self.info);
            // These are the real names of `unw_local_addr_space` and `unw_flush_cache`. The flush is needed
            // because libunwind would use cached results for other code at the same addresses.
            let local = *function(c"_ULx86_64_local_addr_space").cast::<*mut c_void>();
            mem::transmute::<*mut c_void, Flush>(function(c"_Ux86_64_flush_cache"))(local, 0, 0);
            drop(Box::from_raw(self.info));
        }
    }
}
