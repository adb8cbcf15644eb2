//! Relocations, independent of the format.

/// A relocation of a field, with its symbol looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the field in bytes from its section's start.
    pub offset: u64,
    /// The architecture's relocation type. For example, `R_X86_64_PC32` is 2.
    pub kind: u32,
    /// True if the field's own address is subtracted (`S + A - P`).
    pub relative: bool,
    /// The symbol's index in the symbol table, or `None` if the relocation has no symbol.
    pub symbol: Option<usize>,
    /// The section that defines the symbol. It is `None` for undefined and absolute symbols. A Mach-O relocation
    /// without a symbol can name a section directly.
    pub section: Option<usize>,
    /// The symbol's value: in ELF an offset in the section, in Mach-O an address. It is 0 for undefined symbols and
    /// without a symbol.
    pub value: u64,
    /// The addend. In a REL relocation it comes from the field itself.
    pub addend: i64,
}
