//! Relocations as the rest of cfipack wants them.

/// A relocation of a field, and what it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The field, in bytes from its section's start.
    pub offset: u64,
    /// The architecture's relocation type (`R_X86_64_PC32` is 2).
    pub kind: u32,
    /// True if the field's own address is subtracted (`S + A - P`).
    pub relative: bool,
    /// Index of the symbol in the symbol table, if it names one.
    pub symbol: Option<usize>,
    /// The section that the symbol is defined in; none for undefined and absolute symbols. A relocation of
    /// Mach-O may name a section itself.
    pub section: Option<usize>,
    /// The symbol's value: in ELF an offset in that section, in Mach-O an address. 0 for undefined
    /// symbols, and where none is named.
    pub value: u64,
    /// The number that is added; with REL, what the field holds.
    pub addend: i64,
}
