//! Walks the stack with the process's unwinders.

use std::ffi::{c_int, c_void};
use std::mem;

use super::libgcc::symbol;

type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Backtrace = unsafe extern "C" fn(Visit, *mut c_void) -> c_int;
type GetIp = unsafe extern "C" fn(*mut c_void) -> u64;

/// `_Unwind_Backtrace` of a library.
#[derive(Clone, Copy)]
pub struct Unwinder {
    backtrace: Backtrace,
    get_ip: GetIp,
}

/// The PCs found so far. Nothing is allocated during the walk.
struct Walk {
    get_ip: GetIp,
    count: usize,
    pcs: [u64; 128],
}

impl Unwinder {
    /// Finds the unwinder of a library from `dlopen`, or of the process for `RTLD_DEFAULT`.
    pub fn in_library(library: *mut c_void) -> Option<Self> {
        let (backtrace, get_ip) =
            (symbol(library, c"_Unwind_Backtrace")?, symbol(library, c"_Unwind_GetIP")?);
        // SAFETY: the functions have these types (Itanium C++ ABI, "Exception Handling", level 1).
        unsafe {
            let backtrace = mem::transmute::<*mut c_void, Backtrace>(backtrace);
            Some(Self { backtrace, get_ip: mem::transmute::<*mut c_void, GetIp>(get_ip) })
        }
    }

    /// Returns the PCs of the frames above the caller, as far as the unwinder gets. They are return
    /// addresses, or instructions that a signal interrupted.
    pub fn walk(self) -> Vec<u64> {
        let mut walk = Walk { get_ip: self.get_ip, count: 0, pcs: [0; 128] };
        // SAFETY: the callback gets the `Walk` that it expects.
        unsafe { (self.backtrace)(visit, (&raw mut walk).cast()) };
        walk.pcs[..walk.count].to_vec()
    }
}

extern "C" fn visit(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `walk` above has passed this pointer, and waits until the walk ends.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    if let Some(slot) = walk.pcs.get_mut(walk.count) {
        // SAFETY: the context is the unwinder's own.
        *slot = unsafe { (walk.get_ip)(context) };
        walk.count += 1;
    }
    // _URC_NO_REASON: go on.
    0
}

/// Memory for libunwind's `unw_context_t` or `unw_cursor_t`. It is larger than either of them.
#[repr(C, align(16))]
struct Space([u64; 512]);

/// Returns the PCs of the frames above the caller, by `unw_step` of HP's libunwind.
pub fn libunwind(library: *mut c_void) -> Option<Vec<u64>> {
    type GetContext = unsafe extern "C" fn(*mut Space) -> c_int;
    type Init = unsafe extern "C" fn(*mut Space, *mut Space) -> c_int;
    type Step = unsafe extern "C" fn(*mut Space) -> c_int;
    type GetReg = unsafe extern "C" fn(*mut Space, c_int, *mut u64) -> c_int;
    // These are the real names of `unw_getcontext` and the other functions. UNW_REG_IP is 16 on x86-64.
    let get_context = symbol(library, c"_Ux86_64_getcontext")?;
    let init = symbol(library, c"_ULx86_64_init_local")?;
    let step = symbol(library, c"_ULx86_64_step")?;
    let get_reg = symbol(library, c"_ULx86_64_get_reg")?;
    let (mut context, mut cursor) = (Space([0; 512]), Space([0; 512]));
    let mut pcs = Vec::with_capacity(128);
    // SAFETY: the functions have these types, and the structures fit.
    unsafe {
        let get_context = mem::transmute::<*mut c_void, GetContext>(get_context);
        let init = mem::transmute::<*mut c_void, Init>(init);
        let step = mem::transmute::<*mut c_void, Step>(step);
        let get_reg = mem::transmute::<*mut c_void, GetReg>(get_reg);
        get_context(&mut context);
        init(&mut cursor, &mut context);
        while pcs.len() < 128 && step(&mut cursor) > 0 {
            let mut pc = 0;
            get_reg(&mut cursor, 16, &mut pc);
            pcs.push(pc);
        }
    }
    Some(pcs)
}
