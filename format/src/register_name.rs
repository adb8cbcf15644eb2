//! Names of registers.

use core::fmt;

use crate::{Arch, Register, riscv};

/// The names of DWARF's registers 0 to 15 on x86-64.
pub(crate) const AMD64: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];
/// The names of registers 0 to 7 on i386, in Mach-O's numbering.
pub(crate) const I386: [&str; 8] = ["eax", "ecx", "edx", "ebx", "ebp", "esp", "esi", "edi"];
/// The floating-point registers of s390x in the order in which the psABI numbers them, from 16 on.
pub(crate) const S390X_F: [u16; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];

/// Prints a register's assembler name. Registers without a name in the psABI's DWARF numbering, and registers
/// that unwinding never uses, are printed by number.
#[derive(Clone, Copy, Debug)]
pub struct RegisterName(pub Arch, pub Register);

impl fmt::Display for RegisterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.1.0;
        let listed = |names: &[&'static str]| names.get(usize::from(number)).copied();
        let name = match self.0 {
            Arch::I386 => listed(&I386),
            Arch::Amd64 if number == 16 => Some("ra"),
            Arch::Amd64 => listed(&AMD64),
            Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => match number {
                0..31 => return write!(f, "x{number}"),
                31 => Some("sp"),
                64..96 => return write!(f, "d{}", number - 64),
                _ => None,
            },
            Arch::S390x => match number {
                0..16 => return write!(f, "r{number}"),
                16..32 => return write!(f, "f{}", S390X_F[usize::from(number - 16)]),
                _ => None,
            },
            Arch::Riscv64 => listed(&riscv::INTEGER),
        };
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "register {number}"),
        }
    }
}
