//! Messages about data that a file does not have, and where to find it instead.

use anyhow::anyhow;
use cfipack_container::{File, Kind};
use cfipack_lint::coverage::CodeBytes;

use crate::edit::Skip;
use crate::io::debug_file;
use crate::io::input::{CALL_FRAMES, Contents, Object, describe_functions};

/// The name of the contents of `.sframe` sections in messages.
pub const SFRAME_TABLE: &str = ".sframe table";

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

/// Counts the code of a file without rows. Code that cannot be read does not count.
pub fn code_of(file: &File<'_>) -> CodeBytes {
    CodeBytes::of_tables(file, &[]).unwrap_or_default()
}

/// Returns the reason why a member of an archive has no CFI, if a report about the other members has to name it.
/// `strict` also names a member that has code and no CFI.
pub fn missed_cfi(object: &Object<'_>, strict: bool) -> Option<Skip> {
    let Contents::File(file) = &object.contents else { return None };
    let skip = Skip::without_cfi(file);
    let has_cfi = || file.call_frame_sections().is_ok_and(|sections| describe_functions(&sections));
    let is_missed = skip.is_unusable() || strict && code_of(file).wanted() != 0;
    (is_missed && !has_cfi()).then_some(skip)
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
    match Skip::without_cfi(file) {
        Skip::NoCfi | Skip::Unplaced(_) if what == SFRAME_TABLE && file.as_elf().is_some() => {
            anyhow!("the file has no {what} (cfi2sframe FILE -o OUT adds one)")
        }
        skip @ Skip::Unplaced(_) if what == CALL_FRAMES => anyhow!(skip),
        Skip::NoCfi | Skip::Unplaced(_) => anyhow!("the file has no {what}{}", debug_file::hint(file, what)),
        skip => anyhow!(skip),
    }
}
