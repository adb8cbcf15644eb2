//! A function's rows into FREs, by the general way.
//!
//! In: the rows that [`Interpreter`](crate::cfi::Interpreter) pushes into [`small::SmallRows`], or those that layout
//! `gnu`'s own machine, [`gnu::GnuRows`], makes of the instructions. Out: the bytes of the function's FREs in
//! [`fres::Fres`], and the type of its FDE, or the reason why it has none. The rows of both ways have DWARF's meaning;
//! layout `gnu` also ends rows and omits functions where gas does.

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
