//! The dialect of the bytes that are written.

/// The assembler to imitate, byte for byte. All outputs of an [`Assembly`](crate::Assembly) have the same
/// meaning, which depends on the dialect. For example, `.cfi_restore` in `Gas` goes back to the rules of the
/// directives before the first instruction, if these directives were put into the CIE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Dialect {
    /// GNU as 2.47. Directives before the first instruction go into the CIE, and functions share a CIE if they
    /// begin with its instructions.
    #[default]
    Gas,
    /// LLVM 23's integrated assembler, as in `llvm-mc` and clang. A CIE has the architecture's rules alone, and
    /// in `.eh_frame` functions are sorted by their CIEs.
    Llvm,
    /// `__eh_frame` of Mach-O, as llvm-mc writes it. Starts, sizes and LSDAs have the size of an address, and
    /// FDEs end at a multiple of this size.
    LlvmMachO,
}

impl Dialect {
    /// Returns whether this is a dialect of LLVM, in any file format.
    pub(crate) fn is_llvm(self) -> bool {
        match self {
            Self::Llvm | Self::LlvmMachO => true,
            Self::Gas => false,
        }
    }
}
