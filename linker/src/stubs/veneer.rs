//! Veneers that avoid errata of AArch64 processors.

use crate::format::{Address, Arch};

/// Returns the address in a function from which a linker has moved an instruction into the veneer at `address`. The
/// moved instruction is a load or store (erratum 843419), or a multiplication that adds (erratum 835769). The veneer
/// has 8 bytes: the moved instruction and a branch back. Both have the function's row at the returned address,
/// because the veneer runs in the function's frame.
///
/// Returns `None` for other code and for other architectures.
///
/// ```
/// use cfipack_format::{Address, Arch};
/// use cfipack_linker::stubs::moved_by_veneer;
///
/// // ldr x0, [x0, #24]; b 0x212004
/// let veneer = [0x00, 0x0c, 0x40, 0xf9, 0xf8, 0xff, 0xff, 0x17];
/// assert_eq!(moved_by_veneer(Arch::Aarch64, Address(0x21_2020), veneer), Some(Address(0x21_2000)));
/// ```
pub fn moved_by_veneer(arch: Arch, address: Address, code: [u8; 8]) -> Option<Address> {
    match arch {
        // Instructions are little-endian even if data is big-endian.
        Arch::Aarch64 | Arch::Aarch64Be => {}
        Arch::Amd64 | Arch::S390x | Arch::I386 | Arch::Arm64_32 | Arch::Riscv64 => return None,
    }
    let [a, b, c, d, e, f, g, h] = code;
    let (moved, branch) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    // The moved instruction: a load or store with an unsigned offset, or a 64-bit operation with three sources. Then
    // an unconditional branch.
    let is_moved = moved & 0x3b00_0000 == 0x3900_0000 || moved & 0xff00_0000 == 0x9b00_0000;
    let is_branch = branch & 0xfc00_0000 == 0x1400_0000;
    // A signed distance of 26 bits, in instructions. The shift to the left drops the opcode.
    let distance = i64::from((branch << 6) as i32 >> 4);
    // The branch is at 4 and leads to the instruction after the moved instruction, so the two offsets cancel.
    (is_moved && is_branch).then(|| Address(address.0.wrapping_add_signed(distance)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Veneers that ld 2.47 and lld 23 wrote, as objdump disassembles them, and code that is not a veneer.
    #[test]
    fn veneers_lead_to_the_moved_instruction() {
        let at = |address, moved: u32, branch: u32| {
            let mut code = [0; 8];
            code[..4].copy_from_slice(&moved.to_le_bytes());
            code[4..].copy_from_slice(&branch.to_le_bytes());
            moved_by_veneer(Arch::Aarch64, Address(address), code)
        };
        // ldr x0, [x0, #24]; b 402004
        assert_eq!(at(0x40_2028, 0xf940_0c00, 0x17ff_fff6), Some(Address(0x40_2000)));
        // madd x2, x3, x4, x6; b 402010
        assert_eq!(at(0x40_2028, 0x9b04_1862, 0x17ff_fff9), Some(Address(0x40_200c)));
        // Forward: b +0x400
        assert_eq!(at(0x1000, 0xf940_0c00, 0x1400_0100), Some(Address(0x1400)));
        // bti c; b +8
        assert_eq!(at(0x1000, 0xd503_245f, 0x1400_0002), None);
        // ldr x16, 8; br x16
        assert_eq!(at(0x1000, 0x5800_0050, 0xd61f_0200), None);
        // ldr x0, [x0, #24]; bl
        assert_eq!(at(0x1000, 0xf940_0c00, 0x97ff_fff6), None);
        assert_eq!(moved_by_veneer(Arch::S390x, Address(0), [0, 0x0c, 0x40, 0xf9, 0, 0, 0, 0x14]), None);
    }
}
