//! One instruction, as the decoder of an architecture returns it.

use cfipack_format::Address;

use super::effect::{Effect, Flow};

/// An instruction.
#[derive(Debug)]
pub struct Decoded {
    pub len: u8,
    pub text: Text,
    pub flow: Flow,
    pub effect: Effect,
    /// True if it fills the space between blocks, if no branch leads to it.
    pub is_padding: bool,
}

/// The text of an instruction.
#[derive(Debug)]
pub enum Text {
    /// All of it.
    Plain(String),
    /// The text before the target of a direct branch, and the target; none if a relocation decides where it leads.
    Branch(String, Option<Address>),
}
