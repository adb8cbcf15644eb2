//! Messages about data that a file does not have, and where to find it instead.

use anyhow::anyhow;
use cfipack_container::{File, Kind};

use crate::io::input::{Contents, Object};

/// The name of the contents of `.sframe` sections in messages.
pub const SFRAME_TABLE: &str = ".sframe table";

/// The message about an object of GCC that has no code yet.
pub const GCC_LTO: &str = "an object of GCC's link-time optimization (-flto), which has no code yet: convert the \
                           linked program, or compile with -ffat-lto-objects";

/// Returns the message about a Mach-O file where an ELF file is needed.
pub fn mach_o(file: &File<'_>) -> &'static str {
    match file.kind() {
        Kind::Relocatable => {
            "a Mach-O object, and .sframe is for ELF: cfi2sframe compact-unwind FILE -o OUT gives it more compact encodings"
        }
        Kind::Linked => {
            "a Mach-O image, and .sframe is for ELF: cfi2sframe unwind-info FILE makes its __unwind_info"
        }
    }
}

/// Returns the error for an object that lacks `what`, for example [`SFRAME_TABLE`].
pub fn from_object(object: &Object<'_>, what: &str) -> anyhow::Error {
    match &object.contents {
        Contents::File(file) => from_file(file, what),
        Contents::Table(_) | Contents::UnwindInfo(_) => anyhow!("the file has no {what}"),
    }
}

/// Returns the error for a file that lacks `what`, for example [`SFRAME_TABLE`].
pub fn from_file(file: &File<'_>, what: &str) -> anyhow::Error {
    if file.as_elf().is_some_and(|elf| elf.is_debug_file()) {
        return anyhow!(
            "a debug file: its code and its .eh_frame are empty (NOBITS), and in the file that it was split from"
        );
    }
    if file.as_elf().is_some_and(|elf| elf.is_gcc_lto()) {
        return anyhow!(GCC_LTO);
    }
    if what == SFRAME_TABLE && file.as_elf().is_some() {
        return anyhow!("the file has no {what} (cfi2sframe FILE -o OUT adds one)");
    }
    anyhow!("the file has no {what}")
}
