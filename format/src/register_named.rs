//! Finds registers by the names that assemblers use.

use crate::register_name::{AMD64, I386, S390X_F};
use crate::{Arch, Register, riscv};

impl Register {
    /// Returns the register that `.cfi_*` directives call `name`, as GNU `as` and LLVM's assembler understand
    /// it.
    ///
    /// `name` may start with `%`, and its case does not matter. A part of a register names the whole register:
    /// `w29` is `x29`. A decimal number is the DWARF number, if the architecture [has](Arch::has_register) this
    /// register.
    ///
    /// The numbers come from the architecture's psABI, and on i386 from Mach-O's `__eh_frame`.
    pub fn named(arch: Arch, name: &str) -> Option<Self> {
        let mut lower = [0; 16];
        let name = name.strip_prefix('%').unwrap_or(name);
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name.as_bytes());
        lower.make_ascii_lowercase();
        let name = core::str::from_utf8(lower).ok()?;
        let register = match name.as_bytes().first()? {
            b'0'..=b'9' => Self(name.parse().ok()?),
            _ => Self(match arch {
                Arch::Amd64 => amd64(name)?,
                Arch::I386 => i386(name)?,
                Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => aarch64(name)?,
                Arch::S390x => s390x(name)?,
                Arch::Riscv64 => riscv::number(name)?,
            }),
        };
        arch.has_register(register).then_some(register)
    }
}

fn amd64(name: &str) -> Option<u16> {
    const OTHERS: [(&str, u16); 17] = [
        ("rip", 16),
        ("rflags", 49),
        ("es", 50),
        ("cs", 51),
        ("ss", 52),
        ("ds", 53),
        ("fs", 54),
        ("gs", 55),
        ("fs.base", 58),
        ("gs.base", 59),
        ("tr", 62),
        ("ldtr", 63),
        ("mxcsr", 64),
        ("fcw", 65),
        ("fsw", 66),
        ("st", 33),
        ("eflags", 49),
    ];
    position(&AMD64, name).or_else(|| by_name(&OTHERS, name)).or_else(|| match split(name)? {
        ("r", number @ 16..32) => Some(130 + number - 16),
        ("xmm" | "ymm" | "zmm", number @ 0..16) => Some(17 + number),
        ("xmm" | "ymm" | "zmm", number @ 16..32) => Some(67 + number - 16),
        ("st", number @ 0..8) => Some(33 + number),
        ("mm", number @ 0..8) => Some(41 + number),
        ("k", number @ 0..8) => Some(118 + number),
        ("bnd", number @ 0..4) => Some(126 + number),
        _ => None,
    })
}

fn i386(name: &str) -> Option<u16> {
    if name == "eip" {
        return Some(8);
    }
    position(&I386, name).or_else(|| match split(name)? {
        ("xmm", number @ 0..8) => Some(21 + number),
        ("mm", number @ 0..8) => Some(29 + number),
        _ => None,
    })
}

fn aarch64(name: &str) -> Option<u16> {
    const NAMED: [(&str, u16); 8] =
        [("sp", 31), ("wsp", 31), ("fp", 29), ("lr", 30), ("ip0", 16), ("ip1", 17), ("vg", 46), ("ffr", 47)];
    by_name(&NAMED, name).or_else(|| match split(name)? {
        ("x" | "w", number @ 0..31) => Some(number),
        ("p", number @ 0..16) => Some(48 + number),
        ("b" | "h" | "s" | "d" | "q" | "v", number @ 0..32) => Some(64 + number),
        ("z", number @ 0..32) => Some(96 + number),
        _ => None,
    })
}

fn s390x(name: &str) -> Option<u16> {
    let interleaved = |number| (0..).zip(S390X_F).find(|&(_, other)| other == number).map(|(at, _)| at);
    match split(name)? {
        ("r", number @ 0..16) => Some(number),
        ("f" | "v", number @ 0..16) => Some(16 + interleaved(number)?),
        ("v", number @ 16..32) => Some(68 + interleaved(number - 16)?),
        ("c", number @ 0..16) => Some(32 + number),
        ("a", number @ 0..16) => Some(48 + number),
        _ => None,
    }
}

fn by_name(named: &[(&str, u16)], name: &str) -> Option<u16> {
    named.iter().find(|&&(known, _)| known == name).map(|&(_, number)| number)
}

/// Returns the index of a name in a list of names.
pub(crate) fn position(names: &[&str], name: &str) -> Option<u16> {
    (0..).zip(names).find(|(_, other)| **other == name).map(|(number, _)| number)
}

/// A name's letters and its number: `xmm3`, `st(3)`.
fn split(name: &str) -> Option<(&str, u16)> {
    let digits = name.find(|c: char| c.is_ascii_digit() || c == '(')?;
    let (letters, number) = name.split_at(digits);
    let number = match number.strip_prefix('(') {
        Some(inner) => inner.strip_suffix(')')?,
        None => number,
    };
    // `x01` is not a name.
    let is_plain = number == "0" || !number.starts_with('0');
    if !is_plain || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((letters, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The psABI's interleaving of s390x's floating-point registers, listed.
    #[test]
    fn s390x_floating_point_registers_are_in_the_psabi_s_order() {
        let order = [
            "f0", "f2", "f4", "f6", "f1", "f3", "f5", "f7", "f8", "f10", "f12", "f14", "f9", "f11", "f13",
            "f15",
        ];
        for (number, name) in (16..).zip(order) {
            assert_eq!(Register::named(Arch::S390x, name), Some(Register(number)), "{name}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        let long = "a very long name of nothing";
        for name in ["", "%", "r32", "rbpp", "x1", "xmm32", "r08", "-1", "200", "st(", "r", "ra", long] {
            assert_eq!(Register::named(Arch::Amd64, name), None, "{name}");
        }
        assert_eq!(Register::named(Arch::Amd64, "%RBP"), Some(Register(6)));
        assert_eq!(Register::named(Arch::Amd64, "%st(3)"), Some(Register(36)));
    }
}
