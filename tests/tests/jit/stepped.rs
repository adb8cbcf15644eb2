//! The processor traps after every instruction. The handler walks the stack from the interrupted place.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::child::Walker;
use super::program::Program;

/// The trap flag of EFLAGS.
const TRAP: i64 = 0x100;

struct Steps<'a> {
    program: &'a Program,
    walker: Walker,
    /// Skips PCs at which a function or a row starts, because LLVM's libunwind uses the row before them.
    passes_over_starts: bool,
    is_stepping: bool,
    steps: usize,
    failures: Vec<String>,
}

static STEPS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Steps through the program. Prints from how many instructions the walk reached the caller.
pub fn run(program: &Program, walker: Walker, passes_over_starts: bool) {
    // Loads now whatever a walk loads once.
    walker.walk();
    let (steps, failures) = (0, Vec::with_capacity(1000));
    let mut state = Steps { program, walker, passes_over_starts, is_stepping: true, steps, failures };
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
    program.call(nothing, ptr::null_mut());
    // SAFETY: the handler reads it in this thread.
    unsafe { (&raw mut state.is_stepping).write_volatile(false) };
    println!("jit: {} steps, {} failures", state.steps, state.failures.len());
    state.failures.iter().for_each(|failure| println!("jit: {failure}"));
}

extern "C-unwind" fn nothing(_: *mut c_void) {}

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
    let mut functions = state.program.functions.iter();
    let is_within = |start: u64, size: usize| pc.wrapping_sub(start) < size as u64;
    let Some(function) = functions.find(|function| is_within(function.address, function.code.len())) else {
        return;
    };
    let offset = pc - function.address;
    let is_start = offset == 0 || function.directives.placed().iter().any(|placed| placed.offset == offset);
    if state.passes_over_starts && is_start {
        return;
    }
    state.steps += 1;
    let pcs = state.walker.walk();
    let callers = pcs.iter().position(|&other| other == pc).map_or(&[][..], |at| &pcs[at + 1..]);
    let names: Vec<_> = callers.iter().map(|&pc| state.program.name(pc.wrapping_sub(1))).collect();
    let expected: &[&str] = match function.name {
        "inner" => &["middle", "outer", "caller", "host"],
        "middle" => &["outer", "caller", "host"],
        _ => &["caller", "host"],
    };
    if !names.starts_with(expected) {
        state.failures.push(format!("{}+{offset:#x}: {names:?}", function.name));
    }
}
