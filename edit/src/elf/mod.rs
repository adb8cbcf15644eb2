//! `.sframe` tables in ELF files: put into linked files and objects, replaced, removed.

pub(crate) mod embed;
mod headers;
pub(crate) mod object_file;
pub(crate) mod replace;
pub(crate) mod strip;
