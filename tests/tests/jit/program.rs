//! The example's generated code in a region, and a function that calls it.

use std::arch::{global_asm, naked_asm};
use std::ffi::c_void;

use cfipack::assembler::region::{Region, jitdump};
use cfipack::assembler::{Directive, Directives};
use cfipack::format::{Address, Arch};

use super::code::{self, Callback, Function};
use super::memory::Mapping;

/// The CFI that is registered for the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cfi {
    Right,
    /// The CFI of `middle` states a frame that is 16 bytes too small.
    Wrong,
    Nothing,
}

/// A mapping with the three generated functions.
pub struct Program {
    /// The last field, because the mapping must outlive the others.
    pub region: Region,
    pub code: Vec<u8>,
    pub functions: Vec<Function>,
    pub memory: Mapping,
}

/// The frame of `middle`, in bytes.
pub const FRAME: i32 = 0x410;

impl Program {
    pub fn new(cfi: Cfi, frame_size: i32) -> Self {
        let mut memory = Mapping::new(1 << 14).unwrap();
        let room = |function: &Function| Ok(jitdump::room(&function.directives, jitdump::Options::new())?);
        let functions = code::assemble(memory.address(), frame_size, room).unwrap();
        let (base, size) = (memory.address(), memory.size());
        let mut region = Region::new(Arch::Amd64, Address(base), size as u64).unwrap();
        let mut code = vec![0xcc; size];
        for function in &functions {
            let offset = function.address - base;
            code[offset as usize..][..function.code.len()].copy_from_slice(&function.code);
            let wrong = wrong(&function.directives);
            let is_wrong = cfi == Cfi::Wrong && function.name == "middle";
            let directives = if is_wrong { &wrong } else { &function.directives };
            if cfi != Cfi::Nothing {
                region.push(function.name, offset, directives).unwrap();
            }
        }
        memory.write(0, &code);
        memory.make_executable().unwrap();
        Self { region, code, functions, memory }
    }

    /// Calls `outer` from [`jit_caller`]. In the end the code calls `innermost`.
    pub fn call(&self, innermost: Callback, argument: *mut c_void) {
        let outer = self.functions.last().unwrap().address;
        // SAFETY: the code is what it was made for.
        unsafe { jit_caller(outer as *const c_void, innermost, argument) };
    }

    /// Returns the name of the function that contains an instruction.
    pub fn name(&self, at: u64) -> &'static str {
        let within = |start: u64, size: u64| at.wrapping_sub(start) < size;
        let (start, end) = caller_range();
        let mut functions = self.functions.iter();
        match functions.find(|function| within(function.address, function.code.len() as u64)) {
            Some(function) => function.name,
            None if within(start, end - start) => "caller",
            None => "host",
        }
    }
}

/// Returns the same directives, for a wrong size of frame.
fn wrong(directives: &Directives) -> Directives {
    let mut wrong = Directives::new(directives.arch(), directives.code_len());
    for placed in directives.placed() {
        if let Directive::DefCfaOffset(offset) = placed.directive {
            wrong.at(placed.offset).def_cfa_offset(offset + if offset > 8 { 16 } else { 0 });
        }
    }
    wrong
}

// A function like a compiler's, whose extent is known.
global_asm!(
    ".text",
    ".globl jit_caller",
    ".type jit_caller, @function",
    "jit_caller:",
    ".cfi_startproc",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov r8, rdi",
    // The stack is zeroed here, so that wrong rows find zeros, which no unwinder takes for code.
    "lea rdi, [rsp - 0x2000]",
    "mov ecx, 0x400",
    "xor eax, eax",
    "rep stosq",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "call r8",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "ret",
    ".cfi_endproc",
    ".globl jit_caller_end",
    "jit_caller_end:",
    ".size jit_caller, . - jit_caller",
);

unsafe extern "C-unwind" {
    fn jit_caller(code: *const c_void, innermost: Callback, argument: *mut c_void);
    static jit_caller_end: u8;
}

fn caller_range() -> (u64, u64) {
    (jit_caller as *const c_void as u64, &raw const jit_caller_end as u64)
}

/// The registers at the entry of a function that generated code has called.
#[repr(C)]
#[derive(Default)]
pub struct Entry {
    pub sp: u64,
    pub fp: u64,
    /// The words from the return address upwards.
    pub stack: Vec<u64>,
}

/// An innermost function that fills an [`Entry`].
#[unsafe(naked)]
pub extern "C-unwind" fn entry(entry: *mut c_void) {
    naked_asm!("mov [rdi], rsp", "mov [rdi + 8], rbp", "jmp {}", sym copy_stack)
}

extern "C-unwind" fn copy_stack(entry: *mut c_void) {
    // SAFETY: the caller's.
    let entry = unsafe { &mut *entry.cast::<Entry>() };
    // SAFETY: the frames of `Program::call` and its callers are larger.
    let stack = unsafe { std::slice::from_raw_parts(entry.sp as *const u64, 0x1000 / 8) };
    entry.stack = stack.to_vec();
}
