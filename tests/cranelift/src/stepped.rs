//! Traps after every instruction of the generated code. The handler walks the stack.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::compile::{Compiled, FUNCTIONS};
use super::walk::Unwinder;

/// The trap flag of EFLAGS.
const TRAP: i64 = 0x100;

/// The results of the walks.
pub struct Steps<'a> {
    compiled: &'a Compiled,
    unwinder: Unwinder,
    is_stepping: bool,
    pub count: usize,
    /// Walks that did not find the callers: function, offset, and the instruction's first byte.
    pub failures: Vec<(&'a str, u64, u8)>,
}

static STEPS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Steps through the generated code that `call` calls.
pub fn run(compiled: &Compiled, unwinder: Unwinder, call: impl FnOnce()) -> Steps<'_> {
    // Loads now whatever a walk loads once.
    unwinder.walk();
    let (count, failures) = (0, Vec::with_capacity(1000));
    let mut state = Steps { compiled, unwinder, is_stepping: true, count, failures };
    STEPS.store((&raw mut state).cast(), Ordering::Release);
    // SAFETY: the handler has this type, and the mask is empty.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_trap;
        action.sa_sigaction = handler as *const c_void as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()), 0);
        libc::raise(libc::SIGTRAP);
    }
    call();
    // SAFETY: the handler reads it in this thread.
    unsafe { (&raw mut state.is_stepping).write_volatile(false) };
    state
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system's context, and the state of `run`, whose thread this is.
    let (context, state) = unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        (context, &mut *STEPS.load(Ordering::Acquire).cast::<Steps<'_>>())
    };
    let registers = &mut context.uc_mcontext.gregs;
    if !state.is_stepping {
        registers[libc::REG_EFL as usize] &= !TRAP;
        return;
    }
    registers[libc::REG_EFL as usize] |= TRAP;
    let pc = registers[libc::REG_RIP as usize] as u64;
    let Some(number) = state.compiled.number(pc) else { return };
    state.count += 1;
    let pcs = state.unwinder.walk();
    let callers = pcs.iter().position(|&other| other == pc).map_or(&[][..], |at| &pcs[at + 1..]);
    let found = callers.iter().map_while(|&pc| state.compiled.number(pc.wrapping_sub(1)));
    let is_whole = found.eq(number + 1..FUNCTIONS) && callers.len() > FUNCTIONS - number;
    if !is_whole {
        let (name, start, _) = &state.compiled.functions[number];
        // SAFETY: the code is there.
        state.failures.push((name, pc - start, unsafe { *(pc as *const u8) }));
    }
}
