//! The reasons why a file is left as it is.

use cfipack_container::{Error, File};
use cfipack_edit::EmbedError;

use crate::report::excluded::Unplaced;

/// The reason why a file is left as it is.
#[derive(Debug)]
pub enum Problem {
    /// There is nothing to do for the file.
    Skip(Skip),
    /// The file is no input for the verb.
    WrongInput(Error),
    /// The file cannot be changed safely, or a check found a fault in the changed file.
    Refused(String),
    /// The file is damaged, or cannot be read or written.
    Failed(anyhow::Error),
}

/// The reason why there is nothing to do for a file.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Skip {
    /// Neither an ELF file nor an archive.
    #[error("neither an ELF file nor an archive")]
    NotElf,
    /// An archive without a member that is an ELF file.
    #[error("an archive without ELF files")]
    NoObjects,
    /// A Mach-O file, or an ELF file of a machine or kind that has no `.sframe`.
    #[error("a Mach-O file, or ELF of a machine or kind without .sframe")]
    OtherKind,
    /// A Mach-O file. The message names the commands for Mach-O files.
    #[error("a Mach-O file: compact-unwind and unwind-info are the commands for it")]
    MachO,
    /// A file without CFI for any function.
    #[error("no call frame information")]
    NoCfi,
    /// A file with CFI of unknown functions only.
    #[error("no call frame information that can be used: {0}")]
    Unplaced(Unplaced),
    /// The code lies in another file.
    #[error(
        "a debug file: its code or its .eh_frame is empty (NOBITS), and lies in the file that it was split from, or in memory"
    )]
    DebugFile,
    /// The code is made at the link.
    #[error(
        "an object of GCC's link-time optimization (-flto), which has no code yet: convert the linked program, or compile with -ffat-lto-objects"
    )]
    GccLto,
    /// LLVM bitcode. The code is made at the link.
    #[error("LLVM bitcode (-flto), which has no code yet: convert the linked program")]
    Bitcode,
    /// An object or an archive, where only linked files are wanted.
    #[error("an object or archive")]
    NotLinked,
    /// A file that has a table already.
    #[error("has a table already")]
    HasTable,
    /// A file that has no table to remove.
    #[error("no table")]
    NoTable,
    /// A symbolic link in a directory.
    #[error("symbolic link")]
    SymbolicLink,
    /// A FIFO, a socket or a device in a directory.
    #[error("not a regular file")]
    Special,
    /// A temporary file that a killed run has left.
    #[error("temporary file of a killed run")]
    LeftOver,
    /// A thin archive in a directory has this member, but it is not a file in the searched directories.
    #[error("member of a thin archive outside of its directory tree, or behind a symbolic link")]
    Outside,
    /// A thin archive in a directory has this member, but it does not exist or is no regular file.
    #[error("member of a thin archive that is not there, or not a regular file")]
    Missing,
}

impl Skip {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotElf => "not-elf",
            Self::NoObjects => "no-objects",
            Self::OtherKind => "other-kind",
            Self::MachO => "mach-o",
            Self::NoCfi => "no-cfi",
            Self::Unplaced(_) => "unknown-functions",
            Self::DebugFile => "debug-file",
            Self::GccLto => "gcc-lto",
            Self::Bitcode => "llvm-bitcode",
            Self::NotLinked => "not-linked",
            Self::HasTable => "has-table",
            Self::NoTable => "no-table",
            Self::SymbolicLink => "symbolic-link",
            Self::Special => "special-file",
            Self::LeftOver => "temporary-file",
            Self::Outside => "outside",
            Self::Missing => "missing",
        }
    }

    /// Returns whether a report names the file even if it does not name other skipped files.
    pub fn is_unexpected(self) -> bool {
        matches!(self, Self::Special | Self::Outside | Self::Missing)
    }

    /// Returns whether this is an error for a file that the command line names, not for a file in a directory.
    pub fn is_wrong_input(self) -> bool {
        matches!(self, Self::NotElf | Self::NoObjects | Self::OtherKind | Self::MachO | Self::Bitcode)
    }

    /// Returns whether `--strict` reports this for a file that the command line names.
    pub fn is_missed(self) -> bool {
        let is_without_cfi = matches!(self, Self::NoCfi | Self::Unplaced(_) | Self::DebugFile | Self::GccLto);
        self.is_wrong_input() || is_without_cfi
    }

    /// Returns whether the file is a Mach-O file, or ELF of a machine or kind without `.sframe`.
    pub fn is_of_other_kind(self) -> bool {
        matches!(self, Self::OtherKind | Self::MachO)
    }

    /// Returns whether the file has CFI or code that cannot be used, and not just none.
    pub fn is_unusable(self) -> bool {
        matches!(self, Self::Unplaced(_) | Self::DebugFile | Self::GccLto | Self::Bitcode)
    }

    /// Returns the same reason without figures, to count files.
    pub fn without_figures(self) -> Self {
        if let Self::Unplaced(unplaced) = self { Self::Unplaced(unplaced.of_any_number()) } else { self }
    }

    /// Returns the reason why a file has no CFI, or none that can be used.
    pub fn without_cfi(file: &File<'_>) -> Self {
        match file.as_elf() {
            Some(elf) if elf.is_debug_file() => return Self::DebugFile,
            Some(elf) if elf.is_gcc_lto() => return Self::GccLto,
            _ => {}
        }
        let sections = file.call_frame_sections().unwrap_or_default();
        Unplaced::of(file, &sections).first().map_or(Self::NoCfi, |unplaced| Self::Unplaced(*unplaced))
    }
}

impl Problem {
    /// Returns the reason why there is nothing to do for the file, or `None` for a refusal or a failure.
    pub fn skip(&self) -> Option<Skip> {
        match self {
            Self::Skip(skip) => Some(*skip),
            Self::WrongInput(error @ Error::NotObject { .. }) => {
                Some(if error.is_bitcode() { Skip::Bitcode } else { Skip::NotElf })
            }
            Self::WrongInput(_) => Some(Skip::OtherKind),
            Self::Refused(_) | Self::Failed(_) => None,
        }
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::NotObject { .. } | Error::Unsupported { .. } => Self::WrongInput(error),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<EmbedError> for Problem {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::File(error) => error.into(),
            EmbedError::NotElf => Self::Skip(Skip::OtherKind),
            EmbedError::NoContents { .. } => Self::Skip(Skip::DebugFile),
            error => Self::Refused(error.to_string()),
        }
    }
}
