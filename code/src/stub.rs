//! Finds the pointer that a stub, such as an entry of a PLT, jumps through.

use cfipack_format::Address;

use crate::instruction::{Flow, Op};
use crate::instructions::{Code, Instructions};
use crate::x86;

/// A stub jumps within this number of instructions.
const MOST: usize = 5;

/// Returns the address of the pointer that a stub jumps through, or `None` if the code is not a stub. For an entry of
/// a PLT, this is the address of its slot in the GOT.
///
/// ```
/// use cfipack_code::{Code, Instructions, jump_slot};
/// use cfipack_format::{Address, Arch};
///
/// // endbr64; jmp [rip+0x100]
/// let bytes = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0, 1, 0, 0];
/// let code = Code { arch: Arch::Amd64, start: Address(0x1000), bytes: &bytes, relocated: &[] };
/// assert_eq!(jump_slot(&code, &Instructions::new(&code)), Some(Address(0x110a)));
/// ```
pub fn jump_slot(code: &Code<'_>, instructions: &Instructions) -> Option<Address> {
    // A register with its constant, and a register with the address that it was loaded from.
    let (mut constant, mut loaded) = (None, None);
    for instruction in instructions.iter().take(MOST) {
        match instruction.flow {
            Flow::Next => {}
            // Only x86 has these jumps.
            Flow::JumpMemory => {
                let (offset, bytes) = (instruction.offset, code.bytes.get(instruction.offset as usize..)?);
                return x86::near_memory(code.arch, bytes, code.start.offset(offset.into()));
            }
            Flow::JumpRegister(register) => {
                return loaded.filter(|(to, _)| *to == register).map(|(_, slot)| slot);
            }
            _ => return None,
        }
        for op in &*instructions.ops(&instruction) {
            match *op {
                Op::Constant { to, value } => constant = Some((to, value)),
                Op::Load { to, base, offset } => {
                    let address = constant.filter(|(from, _)| *from == base);
                    loaded = address.map(|(_, value)| (to, Address(value).offset(offset.into())));
                }
                _ => {}
            }
        }
    }
    None
}
