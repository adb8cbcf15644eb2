//! Writes records and instructions, as an assembler does.
//!
//! - [`Writer`] takes CIEs and FDEs, and returns a section.
//! - [`Cie`] is the description of a CIE, and [`WrittenCie`] refers to it from FDEs.
//! - [`InstructionWriter`] encodes [instructions](crate::Instruction) in the fewest bytes.
//! - [`leb128`] writes LEB128 numbers.
//!
//! [`Functions`](crate::Functions) and [`Instructions`](crate::Instructions) read the output.
//!
//! ```
//! use cfipack_cfi::write::{Cie, InstructionWriter, Writer};
//! use cfipack_cfi::{Instruction, SectionKind};
//! use cfipack_format::{Address, Arch, Register};
//!
//! let mut section = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0x4000));
//! let mut at_entry = InstructionWriter::new(Arch::Amd64, 1, -8);
//! at_entry.put(Instruction::DefCfa(Register(7), 8))?;
//! at_entry.put(Instruction::Offset(Register(16), -8))?;
//! let cie = section.cie(&Cie::new(Arch::Amd64, at_entry.as_bytes()))?;
//! let mut body = InstructionWriter::for_cie(&cie);
//! body.put(Instruction::Advance(1))?;
//! body.put(Instruction::DefCfaOffset(16))?;
//! section.fde(&cie, Address(0x1000), 8, None, body.as_bytes())?;
//! assert_eq!(section.as_bytes().len(), 24 + 20);
//! # Ok::<(), cfipack_cfi::write::Error>(())
//! ```

mod cie;
mod error;
mod function;
mod instruction;
pub mod leb128;
mod pointer;
mod section;

pub use cie::{Cie, WrittenCie};
pub use error::Error;
pub use instruction::InstructionWriter;
pub use section::Writer;
