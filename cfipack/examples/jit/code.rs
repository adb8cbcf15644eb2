//! What a compiler would make: three functions, of which each calls the next, with their directives.
//!
//! No function keeps a frame pointer, and the outermost one has other business for rbp: only call frame information leads
//! from one to the next.

use std::error::Error;

use cfipack::assembler::Directives;
use cfipack::format::{Arch, Register};
use iced_x86::code_asm::{CodeAssembler, r12, rax, rbp, rbx, rdi, rsi, rsp};
use iced_x86::{BlockEncoderOptions, IcedError};

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
    pub directives: Directives,
}

/// A directive that is to be given when its offset is known.
type Directive = Box<dyn FnOnce(&mut Directives)>;

/// Instructions, and directives between them.
struct Assembler {
    code: CodeAssembler,
    /// After how many instructions each directive stands.
    directives: Vec<(usize, Directive)>,
}

impl Assembler {
    fn new() -> Result<Self, IcedError> {
        Ok(Self { code: CodeAssembler::new(64)?, directives: Vec::new() })
    }

    fn cfi(&mut self, directive: impl FnOnce(&mut Directives) -> &mut Directives + 'static) {
        let directive: Directive = Box::new(move |directives| _ = directive(directives));
        self.directives.push((self.code.instructions().len(), directive));
    }

    /// Assembles the function for its address. Only now the offsets of its directives are known.
    fn finish(mut self, name: &'static str, address: u64) -> Result<Function, Box<dyn Error>> {
        let offsets = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = self.code.assemble_options(address, offsets).map_err(|error| error.to_string())?;
        let code = result.inner.code_buffer;
        let mut directives = Directives::new(Arch::Amd64, code.len() as u64);
        for (after, directive) in self.directives {
            directive(directives.at(result.inner.new_instruction_offsets[after].into()));
        }
        directives.check()?;
        Ok(Function { name, address, code, directives })
    }
}

/// Assembles the functions, the innermost one first, from `base` on. The one in the middle has a frame of `frame_size`
/// bytes, a multiple of 16. `room_of` finds from a function where the next one may lie.
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
    let mut a = Assembler::new()?;
    a.code.push(r12)?;
    a.cfi(|cfi| cfi.def_cfa_offset(16).offset(R12, -16));
    a.code.sub(rsp, 0x20)?;
    a.cfi(|cfi| cfi.def_cfa_offset(0x30));
    a.code.mov(rax, rdi)?;
    a.code.mov(rdi, rsi)?;
    a.code.mov(r12, rsi)?;
    a.code.call(rax)?;
    a.code.add(rsp, 0x20)?;
    a.cfi(|cfi| cfi.def_cfa_offset(16));
    a.code.pop(r12)?;
    a.cfi(|cfi| cfi.def_cfa_offset(8).restore(R12));
    a.code.ret()?;
    Ok(a)
}

/// Has a large frame, and saves nothing.
fn middle(callee: u64, frame_size: i32) -> Result<Assembler, IcedError> {
    let mut a = Assembler::new()?;
    // With the return address the frame is a multiple of 16.
    a.code.sub(rsp, frame_size - 8)?;
    a.cfi(move |cfi| cfi.def_cfa_offset(frame_size.into()));
    a.code.call(callee)?;
    a.code.add(rsp, frame_size - 8)?;
    a.cfi(|cfi| cfi.def_cfa_offset(8));
    a.code.ret()?;
    Ok(a)
}

/// Takes rbp for a number.
fn outer(callee: u64) -> Result<Assembler, IcedError> {
    let mut a = Assembler::new()?;
    a.code.push(rbp)?;
    a.cfi(|cfi| cfi.def_cfa_offset(16).offset(RBP, -16));
    a.code.push(rbx)?;
    a.cfi(|cfi| cfi.def_cfa_offset(24).offset(RBX, -24));
    a.code.sub(rsp, 0x28)?;
    a.cfi(|cfi| cfi.def_cfa_offset(0x40));
    a.code.mov(rbp, 0x1234_5678_9abc_u64)?;
    a.code.mov(rbx, rsp)?;
    a.code.call(callee)?;
    a.code.add(rsp, 0x28)?;
    a.cfi(|cfi| cfi.def_cfa_offset(24));
    a.code.pop(rbx)?;
    a.cfi(|cfi| cfi.def_cfa_offset(16).restore(RBX));
    a.code.pop(rbp)?;
    a.cfi(|cfi| cfi.def_cfa_offset(8).restore(RBP));
    a.code.ret()?;
    Ok(a)
}
