//! Finds the frame in which the process started.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use crate::space::{Contents, Snapshot};
use crate::{ARCH, loader};

/// How many words of the first thread's stack are searched for its first return address, below and above the place where
/// the kernel started the stack. If the dynamic loader runs as a command, the program starts above this place.
const WORDS_BELOW: usize = 64;
const WORDS_ABOVE: usize = 32;

/// The bits of an AArch64 address that are no signature, as a walk takes them by default.
const ADDRESS_BITS: u32 = 48;

/// Returns the first return address on the first thread's stack, or `None` if it does not lead into the program's own file.
/// The address leads to the code where the thread started: a caller of this code would have put another return address
/// before it. If a table has a row for the address, the result is 0, because then the row ends the stack.
pub(crate) fn first_return_address(snapshot: &Snapshot) -> Option<u64> {
    // SAFETY: no conditions.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let (_, program) = snapshot.find(entry)?;
    // A process that changed its user cannot open its memory. A seccomp filter may forbid the system call instead.
    let memory = File::open("/proc/self/mem").ok();
    let read = |from, out: &mut [u8]| match &memory {
        Some(memory) => memory.read_exact_at(out, from).is_ok(),
        None => loader::read(from, out),
    };
    let mut words = [[0; size_of::<u64>()]; WORDS_BELOW + WORDS_ABOVE];
    let from = stack_start().saturating_sub((WORDS_BELOW * size_of::<u64>()).to_u64());
    if !read(from, words.as_flattened_mut()) {
        return None;
    }
    let mask = if ARCH.is_aarch64() { (1 << ADDRESS_BITS) - 1 } else { u64::MAX };
    let mut addresses = words.iter().rev().map(|word| u64::from_ne_bytes(*word) & mask);
    let (pc, file) = addresses.find_map(|pc| {
        let (_, file) = snapshot.find(pc.checked_sub(1)?)?;
        // The kernel's array above the place has the address of the entry, which no call returns to.
        (pc != entry && snapshot.follows_call(pc, read) != Some(false)).then_some((pc, file))
    })?;
    // The loader's frames are there before the program's, and may call constructors of the program.
    if !Arc::ptr_eq(file, program) {
        return None;
    }
    let has_row = match &program.contents {
        Contents::Made(table, _) => !matches!(table.lookup(Address(pc - 1)), Ok(None)),
        _ => false,
    };
    Some(if has_row { 0 } else { pc })
}

/// Returns where the kernel started the first thread's stack, or 0 if the kernel does not say. proc(5) describes the field.
fn stack_start() -> u64 {
    const START_STACK: usize = 28;
    let text = fs::read("/proc/self/stat").unwrap_or_default();
    // The second field is the name of the program in parentheses. The name may contain anything.
    let fields = text.rsplit(|&byte| byte == b')').next().and_then(|fields| str::from_utf8(fields).ok());
    let start = fields.and_then(|fields| fields.split_ascii_whitespace().nth(START_STACK - 3));
    start.and_then(|start| start.parse().ok()).unwrap_or(0)
}
