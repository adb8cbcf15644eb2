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
    if let Some(at) = AMD64.iter().position(|known| *known == name) {
        return Some(at as u16);
    }
    if let Some(number) = after(name, "r") {
        // APX: r16 is 130.
        return Some(if (16..32).contains(&number) { number + 114 } else { number });
    }
    let number = after(name, "xmm")?;
    Some(if number < 16 { number + 17 } else { number + 51 })
}

fn aarch64(name: &str) -> Option<u16> {
    match name {
        "sp" | "wsp" => return Some(31),
        "vg" => return Some(46),
        _ => {}
    }
    if let Some(general) = after(name, "x").or_else(|| after(name, "w")) {
        return Some(general);
    }
    let vector = after(name, "v").or_else(|| after(name, "b"))?;
    Some(vector + 64)
}

fn s390x(name: &str) -> Option<u16> {
    // LLVM also prints names of parts of a register: R11D, F0D.
    let name = name.strip_suffix('d').unwrap_or(name);
    if let Some(general) = after(name, "r") {
        return Some(general);
    }
    let float = after(name, "f")?;
    let at = S390X_FLOAT.iter().position(|&known| known == float)?;
    Some(at as u16 + 16)
}

fn after(name: &str, prefix: &str) -> Option<u16> {
    name.strip_prefix(prefix)?.parse().ok()
}
