//! The life of generated code: made, registered, called, and removed in the opposite order.

use std::error::Error;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use cfipack::assembler::region::{DynInfoLayout, LibunwindForm, Pointers, Region, jitdump};
use cfipack::assembler::registry::{Reader, Registry};
use cfipack::format::{Address, Arch};

use super::code::{self, Function, Generated};
use super::memory::Mapping;
use super::{gdb, libgcc, libunwind, perf, sframe, walk};

/// The state when the innermost function is reached, and the readers that print the stack.
#[repr(C)]
struct Arrival<'a> {
    /// Set by [`innermost`].
    sp: u64,
    fp: u64,
    region: &'a Region,
    reader: Reader,
    libunwind: *mut c_void,
}

/// The registrations of a region outside the registry. Dropping them removes the last registration first.
struct Registrations {
    _gdb: gdb::Registered,
    _libunwind: Option<libunwind::Registered>,
    _unwinder: libgcc::Registered,
}

impl Registrations {
    fn new(region: &Region, library: *mut c_void) -> Result<Self, Box<dyn Error>> {
        let eh_frame = region.eh_frame(Pointers::Absolute)?;
        let layout = DynInfoLayout::WithLoadOffset;
        Ok(Self {
            _unwinder: libgcc::register(libc::RTLD_DEFAULT, &eh_frame).ok_or("no unwinder")?,
            _libunwind: libunwind::register(library, region, LibunwindForm::IpOffset, layout)?,
            _gdb: gdb::register(region)?,
        })
    }
}

/// Compiles, registers, runs and removes three functions.
pub fn run(directory: Option<&Path>) -> Result<(), Box<dyn Error>> {
    // Code and call frame information, with the room after each function that perf needs.
    let mut memory = Mapping::new(1 << 16)?;
    let room = |function: &Function| Ok(jitdump::room(&function.directives, jitdump::Options::new())?);
    let functions = code::assemble(memory.address(), 0x410, room)?;
    let mut region = Region::new(Arch::Amd64, Address(memory.address()), memory.size() as u64)?;
    let mut code = vec![0xcc; memory.size()];
    for function in &functions {
        let offset = function.address - memory.address();
        region.push(function.name, offset, &function.directives)?;
        code[offset as usize..][..function.code.len()].copy_from_slice(&function.code);
    }
    memory.write(0, &code);
    memory.make_executable()?;

    // The registry owns all generated code. It is declared after the code, so it is dropped first.
    let mut registry = Registry::new(Arch::Amd64);
    // Register the code everywhere before another thread gets an address of the code.
    let library = open(c"libunwind.so.8");
    for omitted in registry.add(&region, Registrations::new(&region, library)?)? {
        eprintln!("no rows: {omitted}");
    }
    if let Some(directory) = directory {
        perf::Dump::create(directory)?.write(&region, &code)?;
    }

    // Call the code.
    let outer = functions.last().ok_or("no functions")?.address;
    // SAFETY: there is a function of this type.
    let outer = unsafe { std::mem::transmute::<*const c_void, Generated>(outer as *const c_void) };
    let reader = registry.reader();
    let mut arrival = Arrival { sp: 0, fp: 0, region: &region, reader, libunwind: library };
    // SAFETY: the generated code takes a callback and its argument.
    unsafe { outer(innermost, (&raw mut arrival).cast()) };
    if directory.is_some() {
        // Gives perf something to sample.
        (0..20_000).for_each(|_| unsafe { outer(busy, std::ptr::null_mut()) });
    }

    // After this, no reader finds the region, and its registrations end.
    drop(registry.remove(region.base())?);
    Ok(())
}

/// Opens a library. If it is missing, returns `RTLD_DEFAULT`, where its functions are not found either.
fn open(name: &CStr) -> *mut c_void {
    // SAFETY: the library's initialisation asks nothing of the process.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() { libc::RTLD_DEFAULT } else { library }
}

/// The generated code calls this function with an [`Arrival`]. It stores the registers of the calling frame.
#[unsafe(naked)]
extern "C-unwind" fn innermost(arrival: *mut c_void) {
    std::arch::naked_asm!("mov [rdi], rsp", "mov [rdi + 8], rbp", "jmp {}", sym arrived)
}

/// Prints the stack as several readers see it.
extern "C-unwind" fn arrived(arrival: *mut c_void) {
    // SAFETY: `run` passes it, and waits.
    let arrival = unsafe { &*arrival.cast::<Arrival<'_>>() };
    let names = |pcs: Vec<u64>| {
        let names: Vec<_> = pcs.iter().filter_map(|&pc| name(arrival.region, pc)).collect();
        names.join(" < ")
    };
    let unwinder = walk::Unwinder::in_library(libc::RTLD_DEFAULT).map(walk::Unwinder::walk);
    println!("the process's unwinder: {}", unwinder.map_or("none".into(), names));
    println!("libunwind: {}", walk::libunwind(arrival.libunwind).map_or("none".into(), names));
    // SAFETY: `innermost` was entered with the return address at the stack pointer.
    let pc = unsafe { *(arrival.sp as *const u64) };
    let frame = sframe::Frame { pc, sp: arrival.sp + 8, fp: arrival.fp };
    // SAFETY: the frame is on this stack, and the region's code is registered.
    let pcs = unsafe { sframe::backtrace(Arch::Amd64, |pc| arrival.reader.lookup(pc), frame) };
    println!("the registry: {}", names(pcs));
}

/// Takes some time, for perf.
extern "C-unwind" fn busy(_: *mut c_void) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    (0..10_000).for_each(|_| _ = COUNT.fetch_add(1, Ordering::Relaxed));
}

/// Returns the name of the function that a return address belongs to.
fn name(region: &Region, pc: u64) -> Option<&str> {
    let at = pc.wrapping_sub(1);
    let mut functions = region.functions();
    functions.find(|(_, start, size)| at.wrapping_sub(start.0) < *size).map(|(name, ..)| name)
}
