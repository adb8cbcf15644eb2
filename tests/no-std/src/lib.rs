//! Uses cfipack's library crates without std. `Cargo.toml` has the explanation.

#![no_std]

extern crate alloc;

use alloc::vec;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use cfipack_assembler::{Assembly, Directives};
use cfipack_decoder::sframe::Section;
use cfipack_cfi::{self as cfi, SectionKind};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Merger, Object, Options as LinkOptions};

/// Converts an `.eh_frame` and looks up a PC in the table. Returns the length of the table, or 0.
pub fn convert(eh_frame: &[u8], address: u64, pc: u64) -> usize {
    let cfi = cfi::Section::new(SectionKind::EhFrame, eh_frame, Address(address), Arch::Amd64);
    let Ok(mut builder) = Builder::new(Arch::Amd64, Options::default()) else { return 0 };
    for function in cfipack_cfi::Functions::new(&cfi).flatten() {
        let _ = builder.push(&function);
    }
    let section = builder.finish();
    let mut table = vec![0; section.len()];
    if section.write(&mut table, Address(address), Key::address).is_err() {
        return 0;
    }
    let table = Section::parse(&table, Address(address));
    let found = table.is_ok_and(|table| table.lookup(Address(pc)).is_ok_and(|row| row.is_some()));
    if found { section.len() } else { 0 }
}

/// The same as [`convert`], for C. `eh_frame` points to `length` bytes.
///
/// # Safety
/// The bytes must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_convert(eh_frame: *const u8, length: usize, address: u64, pc: u64) -> usize {
    // SAFETY: promised by the caller.
    convert(unsafe { core::slice::from_raw_parts(eh_frame, length) }, address, pc)
}

/// Merges the `.sframe` of an object with itself, for C. Returns the length of the table. `sframe` points to `length`
/// bytes.
///
/// # Safety
/// The bytes must be readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_merge(sframe: *const u8, length: usize) -> usize {
    // SAFETY: promised by the caller.
    let object = Object::new().with_sframe(unsafe { core::slice::from_raw_parts(sframe, length) });
    let Ok(mut merger) = Merger::new(Arch::Amd64, LinkOptions::new()) else { return 0 };
    for number in [0, 1] {
        let live = |field| match field {
            Field::Sframe(at) => Some(Key(number << 32 | at.0 as u64).into()),
            _ => None,
        };
        merger.push_object(&object, live, |_| ());
    }
    merger.finish().len()
}

/// Makes the `.eh_frame` of a function that pushes 8 bytes, for C. Returns its length, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_assemble() -> usize {
    let mut directives = Directives::new(Arch::Amd64, 16);
    directives.at(1).def_cfa_offset(16);
    let mut assembly = Assembly::new(Arch::Amd64);
    if assembly.push(Key(1), &directives).is_err() {
        return 0;
    }
    assembly.eh_frame().map_or(0, |eh_frame| eh_frame.len())
}

struct NoMemory;

// SAFETY: an allocator may always fail.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}
