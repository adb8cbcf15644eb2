//! Registers code with the unwinder of the process: libgcc or LLVM's libunwind. Both have functions with the
//! same names and different arguments.

use std::ffi::{CStr, c_void};
use std::mem;

use cfipack::assembler::region::EhFrame;

type Register = unsafe extern "C" fn(*const c_void);

/// A section that is registered with the process's unwinder.
pub struct Registered {
    /// The section's bytes, which do not move until they are deregistered.
    eh_frame: Box<[u8]>,
    /// The registered offsets: the start of the section for libgcc, or each FDE for libunwind.
    parts: Vec<usize>,
    deregister: Register,
}

/// Looks up a function in the process or in a library.
pub fn symbol(library: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// Registers a section. `library` is a handle of `dlopen`, or `RTLD_DEFAULT` for the unwinder of the process.
///
/// Returns `None` if there is no such unwinder, or if the section has no functions.
pub fn register(library: *mut c_void, eh_frame: &EhFrame) -> Option<Registered> {
    let function = |name| {
        // SAFETY: the functions have this type in both libraries.
        symbol(library, name).map(|symbol| unsafe { mem::transmute::<*mut c_void, Register>(symbol) })
    };
    let (register, deregister) = (function(c"__register_frame")?, function(c"__deregister_frame")?);
    // Only LLVM's libunwind has this function.
    let is_llvm = symbol(library, c"__unw_add_dynamic_fde").is_some();
    let parts: Vec<_> = match eh_frame.fdes() {
        [] => return None,
        fdes if is_llvm => fdes.iter().map(|fde| fde.offset.0).collect(),
        _ => vec![0],
    };
    let registered = Registered { eh_frame: eh_frame.bytes().into(), parts, deregister };
    for &part in &registered.parts {
        // SAFETY: libgcc gets a section with its zero, LLVM's libunwind an FDE; both stay until they are deregistered.
        unsafe { register(registered.eh_frame[part..].as_ptr().cast()) };
    }
    Some(registered)
}

impl Drop for Registered {
    fn drop(&mut self) {
        for &part in &self.parts {
            // SAFETY: it was registered, once.
            unsafe { (self.deregister)(self.eh_frame[part..].as_ptr().cast()) };
        }
    }
}
