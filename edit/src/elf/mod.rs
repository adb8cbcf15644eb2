//! Puts `.sframe` tables into linked ELF files and objects, replaces them and removes them.

pub(crate) mod embed;
mod headers;
pub(crate) mod object_file;
pub(crate) mod replace;
pub(crate) mod strip;
