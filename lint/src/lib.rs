//! Compares the call frame information (CFI) of whole files with their code, and makes rows for code without CFI.
//!
//! - [`lint()`] follows every function of a file, and finds the instructions where the CFI has a different row than the
//!   code needs.
//! - [`records`] checks the records of the CFI, and their index in `.eh_frame_hdr`.
//! - [`source_lines`] finds the source lines of code.
//! - [`synthesized`] makes rows for functions that no CFI covers, from their code.
//! - [`annotate`] adds `.cfi_*` directives to the functions of an assembler source that have no directives.
//! - `returns` finds calls of functions that never return.
//! - [`coverage`] counts the code of a file that has rows, and finds the code without rows.
//!
//! gimli evaluates the CFI (`cfipack-roundtrip`), and `cfipack-code` follows the code. They share no code.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use cfipack_container::{File, Placement};
//!
//! # // A package does not have the object.
//! # if !std::path::Path::new("../corpora").exists() { return Ok(()) }
//! // A function of this object pushes rbx and then calls another function. Its CFI has no row for the push.
//! let bytes = std::fs::read("../corpora/container/explain.o")?;
//! let file = File::parse_with(&bytes, Placement::Apart)?;
//! let sections = file.call_frame_sections()?;
//! let lint = cfipack_lint::lint(&file, &sections, 1, &|_| true, &|_, _| {})?;
//!
//! let symbols = file.symbols()?;
//! let no_row = lint.functions.iter().find(|function| {
//!     symbols.lookup(function.start).is_some_and(|symbol| symbol.name == "no_row")
//! });
//! let found = &no_row.expect("a wrong function").findings[0];
//! assert_eq!(found.cfa, "rsp+8", "the row that the CFI has at the call");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod against_code;
pub mod annotate;
pub mod coverage;
mod error;
mod memory;
mod padding;
pub mod records;
mod returns;
mod sources;
pub mod synthesized;

pub use against_code::{Found, Lint, WrongFunction, lint, lint_function};
pub use error::Error;
pub use memory::FileMemory;
pub use sources::{SourceLine, source_lines};
