//! Encodes the rows of any function as FREs: the general path.
//!
//! The input is the rows that [`Interpreter`](crate::cfi::Interpreter) pushes into [`small::SmallRows`]. In
//! layout `gnu` it is the rows that [`gnu::GnuRows`] makes from the instructions. The output is the bytes of
//! the function's FREs in [`fres::Fres`] and the type of its FDE, or the reason why the format cannot represent
//! the function. Rows of both layouts have DWARF's meaning; layout `gnu` also ends rows and omits functions
//! where gas does.
//!
//! - [`small`], [`gnu`]: the two layouts; [`gas_instruction`], [`gas_marks`], [`gas_state`]: rules of gas for
//!   `gnu`.
//! - [`fre`], [`flex`]: the bytes of a row; [`fres`]: the rows of a function.
//! - [`stubs`]: PLTs, as ld writes them.

pub(crate) mod flex;
pub(crate) mod fre;
pub(crate) mod fres;
pub(crate) mod gas_instruction;
pub(crate) mod gas_marks;
pub(crate) mod gas_state;
pub(crate) mod gnu;
mod narrow;
pub(crate) mod small;
pub(crate) mod stubs;
