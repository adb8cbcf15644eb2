//! Makes three functions with their directives, as a compiler would. Each function calls the next.
//!
//! No function keeps a frame pointer, and the outermost function uses rbp for a number. So only call frame
//! information leads from a function to its caller.

use std::error::Error;

use cfipack::assembler::Directives;
use cfipack::format::{Arch, Register};
use iced_x86::Code::{
    Add_rm64_imm32, Call_rel32_64, Call_rm64, Mov_r64_imm64, Mov_rm64_r64, Pop_r64, Push_r64, Retnq,
    Sub_rm64_imm32,
};
use iced_x86::Register::{
    R12 as r12, RAX as rax, RBP as rbp, RBX as rbx, RDI as rdi, RSI as rsi, RSP as rsp,
};
use iced_x86::{BlockEncoder, BlockEncoderOptions, IcedError, Instruction, InstructionBlock};

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
    /// The address of the function.
    pub address: u64,
    pub code: Vec<u8>,
    pub directives: Directives,
}

/// A directive. It is called when its offset is known.
type Directive = Box<dyn FnOnce(&mut Directives)>;

/// Instructions, and directives between them.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    /// The directives, each after this number of instructions.
    directives: Vec<(usize, Directive)>,
}

impl Assembler {
    fn cfi(&mut self, directive: impl FnOnce(&mut Directives) -> &mut Directives + 'static) {
        let directive: Directive = Box::new(move |directives| _ = directive(directives));
        self.directives.push((self.code.len(), directive));
    }

    /// Assembles the function for its address. Only then are the offsets of its directives known.
    fn finish(self, name: &'static str, address: u64) -> Result<Function, Box<dyn Error>> {
        let offsets = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let block = InstructionBlock::new(&self.code, address);
        let result = BlockEncoder::encode(64, block, offsets).map_err(|error| error.to_string())?;
        let code = result.code_buffer;
        let mut directives = Directives::new(Arch::Amd64, code.len() as u64);
        for (after, directive) in self.directives {
            directive(directives.at(result.new_instruction_offsets[after].into()));
        }
        directives.check()?;
        Ok(Function { name, address, code, directives })
    }
}

/// Assembles the functions from `base` on, innermost first. The middle function's frame has `frame_size`
/// bytes, a multiple of 16. `room_of` returns the size of a function with the room after it.
pub fn assemble(
    base: u64,
    frame_size: i32,
    room_of: impl Fn(&Function) -> Result<u64, Box<dyn Error>>,
) -> Result<Vec<Function>, Box<dyn Error>> {
    let after = |function: &Function| -> Result<u64, Box<dyn Error>> {
        Ok((function.address + room_of(function)?).next_multiple_of(16))
    };
    let refused = |error: IcedError| error.to_string();
    let inner = inner().map_err(refused)?.finish("inner", base)?;
    let middle = middle(inner.address, frame_size).map_err(refused)?.finish("middle", after(&inner)?)?;
    let outer = outer(middle.address).map_err(refused)?.finish("outer", after(&middle)?)?;
    Ok(vec![inner, middle, outer])
}

/// Calls the callback.
fn inner() -> Result<Assembler, IcedError> {
    let mut a = Assembler::default();
    a.code.push(Instruction::with1(Push_r64, r12)?);
    a.cfi(|cfi| cfi.def_cfa_offset(16).offset(R12, -16));
    a.code.push(Instruction::with2(Sub_rm64_imm32, rsp, 0x20)?);
    a.cfi(|cfi| cfi.def_cfa_offset(0x30));
    a.code.push(Instruction::with2(Mov_rm64_r64, rax, rdi)?);
    a.code.push(Instruction::with2(Mov_rm64_r64, rdi, rsi)?);
    a.code.push(Instruction::with2(Mov_rm64_r64, r12, rsi)?);
    a.code.push(Instruction::with1(Call_rm64, rax)?);
    a.code.push(Instruction::with2(Add_rm64_imm32, rsp, 0x20)?);
    a.cfi(|cfi| cfi.def_cfa_offset(16));
    a.code.push(Instruction::with1(Pop_r64, r12)?);
    a.cfi(|cfi| cfi.def_cfa_offset(8).restore(R12));
    a.code.push(Instruction::with(Retnq));
    Ok(a)
}

/// This function has a large frame, and saves nothing.
fn middle(callee: u64, frame_size: i32) -> Result<Assembler, IcedError> {
    let mut a = Assembler::default();
    // Together with the return address, the frame is a multiple of 16.
    a.code.push(Instruction::with2(Sub_rm64_imm32, rsp, frame_size - 8)?);
    a.cfi(move |cfi| cfi.def_cfa_offset(frame_size.into()));
    a.code.push(Instruction::with_branch(Call_rel32_64, callee)?);
    a.code.push(Instruction::with2(Add_rm64_imm32, rsp, frame_size - 8)?);
    a.cfi(|cfi| cfi.def_cfa_offset(8));
    a.code.push(Instruction::with(Retnq));
    Ok(a)
}

/// This function uses rbp for a number.
fn outer(callee: u64) -> Result<Assembler, IcedError> {
    let mut a = Assembler::default();
    a.code.push(Instruction::with1(Push_r64, rbp)?);
    a.cfi(|cfi| cfi.def_cfa_offset(16).offset(RBP, -16));
    a.code.push(Instruction::with1(Push_r64, rbx)?);
    a.cfi(|cfi| cfi.def_cfa_offset(24).offset(RBX, -24));
    a.code.push(Instruction::with2(Sub_rm64_imm32, rsp, 0x28)?);
    a.cfi(|cfi| cfi.def_cfa_offset(0x40));
    a.code.push(Instruction::with2(Mov_r64_imm64, rbp, 0x1234_5678_9abc_u64)?);
    a.code.push(Instruction::with2(Mov_rm64_r64, rbx, rsp)?);
    a.code.push(Instruction::with_branch(Call_rel32_64, callee)?);
    a.code.push(Instruction::with2(Add_rm64_imm32, rsp, 0x28)?);
    a.cfi(|cfi| cfi.def_cfa_offset(24));
    a.code.push(Instruction::with1(Pop_r64, rbx)?);
    a.cfi(|cfi| cfi.def_cfa_offset(16).restore(RBX));
    a.code.push(Instruction::with1(Pop_r64, rbp)?);
    a.cfi(|cfi| cfi.def_cfa_offset(8).restore(RBP));
    a.code.push(Instruction::with(Retnq));
    Ok(a)
}
