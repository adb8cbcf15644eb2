//! `.sframe` on disk, versions 1, 2 and 3.
//!
//! A section is a [header](Header), an optional auxiliary header, the function index (one
//! [FDE](Fde) a function, sorted by address in a linked file), and the frame row entries
//! ([FREs](FreInfo)) of all functions. Version 3 puts a 5-byte [attribute](Attribute) before
//! a function's first FRE; versions 1 and 2 keep those fields in the FDE.
//!
//! Source of the layouts: the SFrame specification of binutils 2.47, sections "SFrame Section",
//! "SFrame FDE" and "SFrame FRE". Integers have the target's byte order; nothing is aligned.

mod abi;
mod attribute;
mod fde;
mod fre;
mod header;
mod version;

pub use abi::Abi;
pub use attribute::{Attribute, FdeInfo, FdeType, FreType};
pub use fde::{Fde, MAX_FRES_PER_BYTE, MAX_SHARED_FRES};
pub use fre::{CONTROL_CFA_SLOT, ControlWord, FreInfo, WordSize};
pub use header::{Flags, Header, MAGIC};
pub use version::Version;
