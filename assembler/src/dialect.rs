//! The dialect of the bytes that are written.

/// The assembler whose CFI is written, byte for byte. All outputs of an [`Assembly`](crate::Assembly) have the same meaning,
/// that of its dialect: they differ in what `.cfi_restore` goes back to, which for `Gas` is what the directives before
/// the first instruction describe, where these were put into the CIE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// GNU as 2.47: directives before the first instruction go into the CIE, and a CIE is shared by the functions that
    /// begin with its instructions.
    #[default]
    Gas,
    /// LLVM 23's integrated assembler, as `llvm-mc` and clang have it: a CIE has the architecture's rules and no others,
    /// and in `.eh_frame` functions are sorted by their CIEs.
    Llvm,
    /// `__eh_frame` of Mach-O, as llvm-mc writes it: starts, sizes and LSDAs have the size of an address, and FDEs end at a
    /// multiple of it.
    LlvmMachO,
}

impl Dialect {
    /// Returns whether it is LLVM's, in whatever file format.
    pub(crate) fn is_llvm(self) -> bool {
        match self {
            Self::Llvm | Self::LlvmMachO => true,
            Self::Gas => false,
        }
    }
}
