//! `.sframe` on disk, versions 1, 2 and 3.
//!
//! A section has four parts: a [header](Header); an optional auxiliary header; the function index, with an
//! [FDE](Fde) for each function, in a linked file sorted by address; and the frame row entries
//! ([FREs](FreInfo)) of all functions. In version 3, a 5-byte [attribute](Attribute) comes before a function's
//! first FRE. In versions 1 and 2, the FDE has these fields.
//!
//! - [`Version`] and [`Abi`] answer how a version or an ABI differs from the others.
//! - [`FreType`], [`FdeType`] and [`FdeInfo`] describe all FREs of a function.
//! - [`FreInfo`], [`WordSize`] and [`ControlWord`] describe a single FRE.
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
