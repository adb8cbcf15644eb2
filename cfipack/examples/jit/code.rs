//! What a compiler would make: three functions, of which each calls the next, with their directives.
//!
//! No function keeps a frame pointer, and the outermost one has other business for rbp: only call frame information leads
//! from one to the next.

use std::error::Error;

use cfipack::assembler::region::Frame;
use cfipack::cfi::Instruction;
use cfipack::cfi::write::InstructionWriter;
use cfipack::format::{Arch, Register};
use iced_x86::{BlockEncoderOptions, IcedError};
use iced_x86::code_asm::{CodeAssembler, r12, rax, rbp, rbx, rdi, rsi, rsp};

/// The DWARF numbers of the registers that are saved.
const RBX: Register = Register(3);
const RBP: Register = Register(6);
const R12: Register = Register(12);

/// What generated code calls: `innermost(argument)`.
pub type Callback = extern "C-unwind" fn(*mut std::ffi::c_void);
/// The generated code: `outer(innermost, argument)`.
pub type Generated = unsafe extern "C-unwind" fn(Callback, *mut std::ffi::c_void);

/// A function.
pub struct Function {
    pub name: &'static str,
    /// Where it lies.
    pub address: u64,
    pub code: Vec<u8>,
    /// Its call frame instructions.
    pub cfi: Vec<u8>,
}

impl Function {
    pub fn frame(&self) -> Frame<'_> {
        Frame::new(Arch::Amd64, &self.cfi)
    }
}

/// Instructions, and directives between them.
struct Assembler {
    code: CodeAssembler,
    /// After how many instructions each directive stands.
    directives: Vec<(usize, Instruction<'static>)>,
}

impl Assembler {
    fn new() -> Result<Self, IcedError> {
        Ok(Self { code: CodeAssembler::new(64)?, directives: Vec::new() })
    }

    fn cfi(&mut self, instruction: Instruction<'static>) {
        self.directives.push((self.code.instructions().len(), instruction));
    }

    /// Assembles the function for its address.
    fn finish(mut self, name: &'static str, address: u64) -> Result<Function, Box<dyn Error>> {
        let offsets = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = self.code.assemble_options(address, offsets).map_err(|error| error.to_string())?;
        let mut cfi = InstructionWriter::new(Arch::Amd64, 1, -8);
        let mut location = 0;
        for (after, instruction) in self.directives {
            let at = result.inner.new_instruction_offsets[after];
            cfi.put(Instruction::Advance((at - location).into()))?;
            cfi.put(instruction)?;
            location = at;
        }
        Ok(Function { name, address, code: result.inner.code_buffer, cfi: cfi.as_bytes().to_vec() })
    }
}

/// Assembles the functions, the innermost one first, from `base` on. `room_of` tells from a function where the next one
/// may lie.
pub fn assemble(
    base: u64,
    room_of: impl Fn(&Function) -> Result<u64, Box<dyn Error>>,
) -> Result<Vec<Function>, Box<dyn Error>> {
    let after = |function: &Function| -> Result<u64, Box<dyn Error>> {
        Ok((function.address + room_of(function)?).next_multiple_of(16))
    };
    let refused = |error: IcedError| error.to_string();
    let inner = inner().map_err(refused)?.finish("inner", base)?;
    let middle = middle(inner.address).map_err(refused)?.finish("middle", after(&inner)?)?;
    let outer = outer(middle.address).map_err(refused)?.finish("outer", after(&middle)?)?;
    Ok(vec![inner, middle, outer])
}

/// Calls the callback.
fn inner() -> Result<Assembler, IcedError> {
    let mut a = Assembler::new()?;
    a.code.push(r12)?;
    a.cfi(Instruction::DefCfaOffset(16));
    a.cfi(Instruction::Offset(R12, -16));
    a.code.sub(rsp, 0x20)?;
    a.cfi(Instruction::DefCfaOffset(0x30));
    a.code.mov(rax, rdi)?;
    a.code.mov(rdi, rsi)?;
    a.code.mov(r12, rsi)?;
    a.code.call(rax)?;
    a.code.add(rsp, 0x20)?;
    a.cfi(Instruction::DefCfaOffset(16));
    a.code.pop(r12)?;
    a.cfi(Instruction::DefCfaOffset(8));
    a.cfi(Instruction::Restore(R12));
    a.code.ret()?;
    Ok(a)
}

/// Has a large frame, and saves nothing.
fn middle(callee: u64) -> Result<Assembler, IcedError> {
    let mut a = Assembler::new()?;
    a.code.sub(rsp, 0x408)?;
    a.cfi(Instruction::DefCfaOffset(0x410));
    a.code.call(callee)?;
    a.code.add(rsp, 0x408)?;
    a.cfi(Instruction::DefCfaOffset(8));
    a.code.ret()?;
    Ok(a)
}

/// Takes rbp for a number.
fn outer(callee: u64) -> Result<Assembler, IcedError> {
    let mut a = Assembler::new()?;
    a.code.push(rbp)?;
    a.cfi(Instruction::DefCfaOffset(16));
    a.cfi(Instruction::Offset(RBP, -16));
    a.code.push(rbx)?;
    a.cfi(Instruction::DefCfaOffset(24));
    a.cfi(Instruction::Offset(RBX, -24));
    a.code.sub(rsp, 0x28)?;
    a.cfi(Instruction::DefCfaOffset(0x40));
    a.code.mov(rbp, 0x1234_5678_9abc_u64)?;
    a.code.mov(rbx, rsp)?;
    a.code.call(callee)?;
    a.code.add(rsp, 0x28)?;
    a.cfi(Instruction::DefCfaOffset(24));
    a.code.pop(rbx)?;
    a.cfi(Instruction::DefCfaOffset(16));
    a.cfi(Instruction::Restore(RBX));
    a.code.pop(rbp)?;
    a.cfi(Instruction::DefCfaOffset(8));
    a.cfi(Instruction::Restore(RBP));
    a.code.ret()?;
    Ok(a)
}
