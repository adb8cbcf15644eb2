//! Registers code with gdb, which sets a breakpoint on a known function and reads a list there.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use cfipack::assembler::region::{Error, Region};

/// `struct jit_code_entry` of gdb's manual.
#[repr(C)]
struct Entry {
    next: *mut Entry,
    prev: *mut Entry,
    file: *const u8,
    size: u64,
}

/// `struct jit_descriptor`.
#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut Entry,
    first: *mut Entry,
}

// SAFETY: the symbol belongs to gdb's interface. Another JIT in the process may define it too, and shares it.
#[unsafe(no_mangle)]
#[used]
static mut __jit_debug_descriptor: Descriptor =
    Descriptor { version: 1, action: 0, relevant: ptr::null_mut(), first: ptr::null_mut() };

/// gdb sets a breakpoint here. It finds the function by its symbol, which a stripped process does not have.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn __jit_debug_register_code() {
    // SAFETY: the assembly is empty. It keeps the call, and keeps the function from being merged.
    unsafe { std::arch::asm!("") };
}

/// Only one thread at a time changes the list.
static LOCK: Mutex<()> = Mutex::new(());

/// A region that gdb knows.
pub struct Registered {
    entry: *mut Entry,
    _file: Box<[u8]>,
}

/// Registers a region. Without gdb this takes hardly any time.
pub fn register(region: &Region) -> Result<Registered, Error> {
    let file: Box<[u8]> = region.gdb_elf()?.into();
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: under the lock, and entries of the list are there until they are taken out.
    unsafe {
        let descriptor = &raw mut __jit_debug_descriptor;
        let next = (*descriptor).first;
        let (prev, size) = (ptr::null_mut(), file.len() as u64);
        let entry = Box::into_raw(Box::new(Entry { next, prev, file: file.as_ptr(), size }));
        if !next.is_null() {
            (*next).prev = entry;
        }
        (*descriptor).first = entry;
        report(entry, 1);
        Ok(Registered { entry, _file: file })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: under the lock; the entry is in the list, and after this no reader has it.
        unsafe {
            let descriptor = &raw mut __jit_debug_descriptor;
            let Entry { next, prev, .. } = *self.entry;
            if prev.is_null() {
                (*descriptor).first = next;
            } else {
                (*prev).next = next;
            }
            if !next.is_null() {
                (*next).prev = prev;
            }
            report(self.entry, 2);
            drop(Box::from_raw(self.entry));
        }
    }
}

/// Notifies gdb of an entry. `action` is 1 after registering and 2 after removing.
///
/// # Safety
/// The lock is held.
unsafe fn report(entry: *mut Entry, action: u32) {
    // SAFETY: the lock is held.
    unsafe {
        let descriptor = &raw mut __jit_debug_descriptor;
        ptr::write_volatile(&raw mut (*descriptor).relevant, entry);
        ptr::write_volatile(&raw mut (*descriptor).action, action);
    }
    __jit_debug_register_code();
}
