//! Stands for a code generator: a function's code, and its call frame information as directives.

use cfipack::assembler::Directives;
use cfipack::format::{Arch, Register};

/// A function with a frame pointer.
pub fn frame() -> (Vec<u8>, Directives) {
    let rbp = Register::named(Arch::Amd64, "%rbp").expect("a register of x86-64");
    let code = [0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3]; // push; mov; nop; pop; ret
    let mut directives = Directives::new(Arch::Amd64, code.len() as u64);
    directives.at(1).def_cfa_offset(16).offset(rbp, -16);
    directives.at(4).def_cfa_register(rbp);
    directives.at(6).restore(rbp).def_cfa(Arch::Amd64.stack_pointer(), 8);
    (code.to_vec(), directives)
}
