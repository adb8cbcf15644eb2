//! Finds DWARF numbers of registers by the names that binutils and LLVM print, from the architectures' psABIs. Other
//! registers are in no table.

use cfipack_format::{Arch, Register};

/// x86-64's first seventeen registers.
const AMD64: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip",
];

/// s390x's floating point registers, in the order of their DWARF numbers from 16 on.
const S390X_FLOAT: [u16; 16] = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15];

/// Returns the number of a register by readelf's or LLVM's name.
pub fn number(arch: Arch, name: &str) -> Option<Register> {
    let name = name.to_ascii_lowercase();
    let number = match arch {
        Arch::Amd64 => amd64(&name),
        Arch::Aarch64 | Arch::Aarch64Be => aarch64(&name),
        Arch::S390x => s390x(&name),
        _ => None,
    };
    number.or_else(|| after(&name, "reg")).map(Register)
}

fn amd64(name: &str) -> Option<u16> {
    let common = AMD64.iter().position(|known| *known == name).map(|at| at as u16);
    // APX: r16 is 130.
    let extended =
        || after(name, "r").map(|number| if (16..32).contains(&number) { number + 114 } else { number });
    let vector = || after(name, "xmm").map(|number| if number < 16 { number + 17 } else { number + 51 });
    common.or_else(extended).or_else(vector)
}

fn aarch64(name: &str) -> Option<u16> {
    let stack = (name == "sp" || name == "wsp").then_some(31);
    let general = || after(name, "x").or_else(|| after(name, "w"));
    let vector = || after(name, "v").or_else(|| after(name, "b")).map(|number| number + 64);
    let other = || ["vg"].iter().position(|known| *known == name).map(|at| at as u16 + 46);
    stack.or_else(general).or_else(vector).or_else(other)
}

fn s390x(name: &str) -> Option<u16> {
    // LLVM also prints names of parts of a register: R11D, F0D.
    let name = name.strip_suffix('d').unwrap_or(name);
    let float = || after(name, "f").and_then(|float| S390X_FLOAT.iter().position(|&known| known == float));
    after(name, "r").or_else(|| float().map(|at| at as u16 + 16))
}

fn after(name: &str, prefix: &str) -> Option<u16> {
    name.strip_prefix(prefix)?.parse().ok()
}
