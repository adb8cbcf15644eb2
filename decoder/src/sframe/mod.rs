//! Reads `.sframe`, versions 1, 2 and 3, either byte order, in place.

mod dump;
mod error;
mod fde;
mod fre;
mod index;
mod lookup;
mod section;
mod step;

pub use dump::dump;
pub use error::Error;
pub use fde::Function;
pub use fre::{Fre, Fres, Rows};
pub use index::Index;
pub use section::Section;
pub use step::{Caller, Registers, StepError, step};
