//! Tests Cranelift end to end. Its unwind information goes through a region and is registered with the process's
//! unwinder. From every call it must lead back to the caller, and so it must from every instruction except in
//! epilogues, for which Cranelift has no rows.
//!
//! ```sh
//! cargo run --manifest-path tests/cranelift/Cargo.toml
//! ```

mod compile;
mod stepped;

#[path = "../../../cfipack/examples/jit/libgcc.rs"]
mod libgcc;
#[path = "../../../cfipack/examples/jit/sframe.rs"]
mod sframe;
#[expect(dead_code, reason = "the example uses it all")]
#[path = "../../../cfipack/examples/jit/walk.rs"]
mod walk;

use std::error::Error;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cfipack::assembler::region::{Pointers, Region};
use cfipack::assembler::registry::{Reader, Registry};
use cfipack::cfi;
use cfipack::decoder::sframe::Section;
use cfipack::encoder::sframe::Options;
use cfipack::format::{Address, Arch};
use cfipack::roundtrip::{self, Table, verify};

use compile::{Compiled, FUNCTIONS};
use walk::Unwinder;

type Callback = extern "C-unwind" fn(*mut c_void, u64);
type Generated = unsafe extern "C-unwind" fn(Callback, *mut c_void) -> u64;

/// What the callback uses and records.
#[repr(C)]
struct Check<'a> {
    /// The stack pointer at the callback's entry.
    sp: u64,
    fp: u64,
    compiled: &'a Compiled,
    unwinder: Unwinder,
    reader: Option<Reader>,
    calls: usize,
    failures: usize,
    action: Action,
}

/// The callback's next action.
#[derive(PartialEq)]
enum Action {
    Walk,
    Throw,
    /// Returns, while each of its own instructions traps.
    Return,
}

fn main() -> Result<(), Box<dyn Error>> {
    let compiled = compile::compile()?;
    let (base, length) = compiled.extent();
    let mut region = Region::new(Arch::Amd64, Address(base), length)?;
    let section = cfi::Section::new(cfi::SectionKind::EhFrame, &compiled.eh_frame, Address(0), Arch::Amd64);
    for function in cfi::Functions::new(&section) {
        let function = function?;
        let start = function.start.ok_or("a start")?.0;
        let (name, ..) = compiled.functions.iter().find(|(_, at, _)| *at == start).ok_or("a name")?;
        region.push_cfi(name, &function)?;
    }
    assert_eq!(region.len(), FUNCTIONS);

    // Before registration, the walk ends at the first generated frame.
    let unwinder = Unwinder::in_library(libc::RTLD_DEFAULT).ok_or("an unwinder")?;
    let mut check = Check {
        sp: 0,
        fp: 0,
        compiled: &compiled,
        unwinder,
        reader: None,
        calls: 0,
        failures: 0,
        action: Action::Walk,
    };
    call(&compiled, &mut check);
    assert!(check.calls == 2 * FUNCTIONS && check.failures == check.calls, "nothing is registered");

    // After registration, each call leads back to the caller.
    let eh_frame = region.eh_frame(Pointers::Absolute)?;
    let _registered = libgcc::register(libc::RTLD_DEFAULT, &eh_frame).ok_or("a registration")?;
    let table = region.sframe(Options::default())?;
    let mut bytes = vec![0; table.len()];
    let at = Address(bytes.as_ptr() as u64);
    table.write(&mut bytes, at)?;
    let mut registry = Registry::new(Arch::Amd64);
    assert_eq!(registry.add(&region, ())?, []);
    check.reader = Some(registry.reader());
    (check.calls, check.failures) = (0, 0);
    call(&compiled, &mut check);
    println!("{} functions, {} calls: {} walks failed", FUNCTIONS, check.calls, check.failures);
    assert!(check.calls == 2 * FUNCTIONS && check.failures == 0);

    // A panic finds its way too.
    check.action = Action::Throw;
    let result = catch_unwind(AssertUnwindSafe(|| call(&compiled, &mut check)));
    assert!(result.is_err(), "the panic passes all frames");

    // The `.sframe` and Apple's table give the rows of the CFI.
    assert_eq!(table.omitted(), []);
    let sections = [eh_frame.section(Address(0x1000))];
    let tables = [Section::parse(&bytes, at)?];
    let report = verify(&sections, &Table::new(&tables), &roundtrip::Options::default());
    assert!(report.is_complete() && report.equal as usize == FUNCTIONS, "{:?}", report.differences);
    let apple = region.unwind_info(None)?;
    println!(
        ".eh_frame {} bytes, .sframe {}, __unwind_info {} with {} functions in DWARF mode",
        eh_frame.bytes().len(),
        bytes.len(),
        apple.unwind_info().len(),
        apple.in_dwarf_mode().len()
    );

    // Walks fail only in epilogues, for which Cranelift has no rows.
    check.action = Action::Return;
    let steps = stepped::run(&compiled, unwinder, || call(&compiled, &mut check));
    println!("{} instructions, {} walks failed, all of them at a `ret`", steps.count, steps.failures.len());
    for (name, offset, instruction) in &steps.failures {
        assert_eq!(*instruction, 0xc3, "{name}+{offset:#x}");
    }
    // Each function returns once. For the outermost one, the walk may find a frame above its caller.
    assert_eq!(steps.failures.len(), FUNCTIONS - 1);
    Ok(())
}

#[inline(never)]
fn call(compiled: &Compiled, check: &mut Check<'_>) {
    let (_, outermost, _) = compiled.functions[FUNCTIONS - 1];
    // SAFETY: the code has this type.
    unsafe {
        let generated = std::mem::transmute::<*const c_void, Generated>(outermost as *const c_void);
        generated(entered, (&raw mut *check).cast());
    }
}

/// Generated code calls this function, which stores the registers of the calling frame.
#[unsafe(naked)]
extern "C-unwind" fn entered(check: *mut c_void, number: u64) {
    std::arch::naked_asm!("mov [rdi], rsp", "mov [rdi + 8], rbp", "jmp {}", sym checked)
}

/// The functions, from the calling one to the outermost, have called each other, and `main` called the outermost.
extern "C-unwind" fn checked(check: *mut c_void, number: u64) {
    // SAFETY: `main` passes it.
    let check = unsafe { &mut *check.cast::<Check<'_>>() };
    match check.action {
        Action::Walk => {}
        Action::Throw if number == 0 => panic!("through all frames"),
        Action::Throw | Action::Return => return,
    }
    check.calls += 1;
    let expected = number as usize..FUNCTIONS;
    let is_whole = |pcs: &[u64], above: usize| {
        let numbers: Vec<_> = pcs.iter().map(|&pc| check.compiled.number(pc.wrapping_sub(1))).collect();
        let first = numbers.iter().position(Option::is_some).unwrap_or(numbers.len());
        let found = numbers[first..].iter().map_while(|&number| number);
        found.eq(expected.clone()) && numbers.len() >= first + expected.len() + above
    };
    let mut is_right = is_whole(&check.unwinder.walk(), 3);
    if let Some(reader) = &check.reader {
        // SAFETY: `entered` was entered with its return address at the stack pointer.
        let pc = unsafe { *(check.sp as *const u64) };
        let frame = sframe::Frame { pc, sp: check.sp + 8, fp: check.fp };
        // SAFETY: the functions are registered, and the frame is on this stack.
        is_right &= is_whole(&unsafe { sframe::backtrace(Arch::Amd64, |pc| reader.lookup(pc), frame) }, 1);
    }
    check.failures += usize::from(!is_right);
}
