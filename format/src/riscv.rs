//! The names of RISC-V's registers, from the RISC-V ABIs Specification, "Register Convention".

use crate::register_named::position;

/// The ABI names of x0 to x31. Their DWARF numbers are 0 to 31.
pub(crate) const INTEGER: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// The ABI names of f0 to f31. Their DWARF numbers are 32 to 63.
const FLOAT: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4",
    "fa5", "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8",
    "ft9", "ft10", "ft11",
];

/// Returns the DWARF number of a register with this lower-case name.
pub(crate) fn number(name: &str) -> Option<u16> {
    if name == "fp" {
        return Some(8);
    }
    let integer = || position(&INTEGER, name).or_else(|| numbered(name, "x"));
    let float = || Some(position(&FLOAT, name).or_else(|| numbered(name, "f"))? + 32);
    integer().or_else(float).or_else(|| Some(numbered(name, "v")? + 96))
}

/// Returns the number of a name such as `x31`: the prefix and a decimal number below 32.
fn numbered(name: &str, prefix: &str) -> Option<u16> {
    let digits = name.strip_prefix(prefix)?;
    let number = digits.parse().ok()?;
    // `x01` and `x+1` are not names.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.len() == 1 || number >= 10);
    if is_plain && number < 32 { Some(number) } else { None }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn names_as_binutils_and_llvm_number_them() {
        for (name, expected) in [
            ("ra", 1),
            ("x1", 1),
            ("sp", 2),
            ("s0", 8),
            ("fp", 8),
            ("s2", 18),
            ("t6", 31),
            ("x31", 31),
            ("ft0", 32),
            ("f31", 63),
            ("fs0", 40),
            ("ft11", 63),
            ("v0", 96),
            ("v31", 127),
        ] {
            assert_eq!(number(name), Some(expected), "{name}");
        }
        for name in ["x32", "x01", "f", "v+1", "r1", ""] {
            assert_eq!(number(name), None, "{name}");
        }
    }
}
