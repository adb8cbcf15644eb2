//! Absences: what a file does not have, and where it is.

use anyhow::anyhow;
use cfipack_container::File;

use crate::io::input::{Contents, Object};

/// The name in messages of what `.sframe` sections contain.
pub const SFRAME_TABLE: &str = ".sframe table";

/// The error of an object that has nothing of a kind.
pub fn from_object(object: &Object<'_>, what: &str) -> anyhow::Error {
    match &object.contents {
        Contents::File(file) => from_file(file, what),
        Contents::Table(_) | Contents::UnwindInfo(_) => anyhow!("the file has no {what}"),
    }
}

/// The error of a file that has nothing of a kind.
pub fn from_file(file: &File<'_>, what: &str) -> anyhow::Error {
    if file.as_elf().is_some_and(|elf| elf.is_debug_file()) {
        return anyhow!(
            "a debug file: its code and its .eh_frame are empty (NOBITS), and in the file that it was split from"
        );
    }
    if what == SFRAME_TABLE && file.as_elf().is_some() {
        return anyhow!("the file has no {what} (cfi2sframe FILE -o OUT adds one)");
    }
    anyhow!("the file has no {what}")
}
