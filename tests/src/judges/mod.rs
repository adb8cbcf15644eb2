//! Reads the rows that other tools print for call frame information, and compares a table's rows with them.
//!
//! `readelf -wF` (binutils) and `llvm-dwarfdump --eh-frame` share no code with gimli, by which `roundtrip`
//! verifies, nor with each other. The modules list what each tool cannot print or prints wrongly:
//! [`readelf`], [`dwarfdump`], [`compare`].

pub mod compare;
pub mod dwarfdump;
pub mod expression;
pub mod image;
pub mod readelf;
pub mod registers;

use std::collections::BTreeMap;

use cfipack_format::{Cfa, Rule};

/// FDEs by their offsets in a section.
pub type Fdes = BTreeMap<u64, Fde>;

/// An FDE as a tool prints it.
#[derive(Clone, Debug, Default)]
pub struct Fde {
    /// First address, as printed: of a relocatable object it may be anything.
    pub start: u64,
    /// The rows, in order; of several at one place the last one is valid.
    pub rows: Vec<Printed>,
}

/// A row as a tool prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Printed {
    /// The offset from the FDE's start.
    pub at: u64,
    /// The CFA.
    pub cfa: Column<Cfa>,
    /// The return address.
    pub return_address: Column<Rule>,
    /// The frame pointer.
    pub frame_pointer: Column<Rule>,
    /// `true` if the return address is signed, from a tool that prints it.
    pub signed: Option<bool>,
    /// True if the CFA's offset is cut to 32 bits.
    pub narrow: bool,
}

/// The text that a tool prints of a CFA or a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column<T> {
    /// The value itself.
    Is(T),
    /// The value at the place that an expression gives, or for a CFA that place: the expression's text.
    Expression(String),
    /// A value that an expression gives: the expression's text.
    Value(String),
    /// The bare fact of an expression.
    Hidden,
    /// The register is undefined or not mentioned, which the tool does not distinguish. There is no CFA.
    Unset,
}

impl Fde {
    /// The row at an offset from the start.
    pub fn row(&self, at: u64) -> Option<&Printed> {
        self.rows.iter().rev().find(|row| row.at <= at)
    }
}

/// A number as the tools print it, with a sign or without.
fn signed(text: &str) -> Option<i64> {
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}
