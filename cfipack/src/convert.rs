//! For tools that make a table for a finished file: the names that a conversion needs, in one place.
//!
//! A [`File`] finds the call frame information (CFI). A [`Builder`] takes the functions and becomes a [`Section`].
//! [`verify`] compares each row of the table with the row that gimli evaluates from the CFI.
//!
//! ```
//! use cfipack::convert::{Address, Builder, CallFrameSection, File, Functions, Options, Table, View};
//! use cfipack::convert::{VerifyOptions, verify};
//!
//! // This program itself, if it is an ELF file.
//! let bytes = std::fs::read(std::env::current_exe()?)?;
//! if !bytes.starts_with(b"\x7fELF") {
//!     return Ok(());
//! }
//! let file = File::parse(&bytes)?;
//! let sections = file.call_frame_sections()?;
//! let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
//!
//! let mut builder = Builder::new(file.arch(), Options::default())?;
//! for section in &cfi {
//!     builder.push_all(Functions::new(section), |omitted| eprintln!("omitted: {omitted:?}"));
//! }
//! let section = builder.finish();
//!
//! // The functions of a linked file have their addresses. You choose the address of the table.
//! let mut table = vec![0; section.len()];
//! let address = Address(0x1000_0000);
//! section.write(&mut table, address, |key| Address(key.0))?;
//!
//! let views = [View::parse(&table, address)?];
//! let report = verify(&cfi, &Table::new(&views), &VerifyOptions::default());
//! assert!(report.equal > 0 && report.is_true());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use cfipack_cfi::Functions;
pub use cfipack_container::{CallFrameSection, File};
pub use cfipack_decoder::sframe::Section as View;
pub use cfipack_encoder::sframe::{Builder, Layout, OmittedFunction, Options, Section};
pub use cfipack_format::{Address, Arch, Key, Unsupported};
pub use cfipack_roundtrip::{Options as VerifyOptions, Report, Table, verify};
