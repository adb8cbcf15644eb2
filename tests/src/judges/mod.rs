//! Reads the rows that other tools print for CFI, and compares a table's rows with them.
//!
//! `readelf -wF` (binutils) and `llvm-dwarfdump --eh-frame` share no code with each other or with gimli, which `roundtrip`
//! uses. The modules list what each tool cannot print or prints wrongly: [`readelf`], [`dwarfdump`], [`compare`].

pub mod compare;
pub mod dwarfdump;
pub mod expression;
pub mod image;
pub mod readelf;
pub mod registers;

use std::collections::BTreeMap;

use cfipack_format::{Cfa, Rule};

/// FDEs by offset in their section.
pub type Fdes = BTreeMap<u64, Fde>;

/// An FDE as a tool prints it.
#[derive(Clone, Debug, Default)]
pub struct Fde {
    /// The first address as printed. In a relocatable object it means nothing.
    pub start: u64,
    /// The rows in order. If several are at one place, the last one counts.
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
    /// Whether the return address is signed, if the tool prints that.
    pub signed: Option<bool>,
    /// True if the tool keeps only 32 bits of the CFA's offset.
    pub narrow: bool,
}

/// A CFA or a register as a tool prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Column<T> {
    /// The value itself.
    Is(T),
    /// The text of an expression. It gives the place of the value, or for a CFA the CFA itself.
    Expression(String),
    /// The text of an expression that gives the value.
    Value(String),
    /// An expression, whose text the tool does not print.
    Hidden,
    /// For a register: undefined or not mentioned, which the tool does not distinguish. For a CFA: there is none.
    Unset,
}

impl Fde {
    /// Returns the row at an offset from the FDE's start.
    pub fn row(&self, at: u64) -> Option<&Printed> {
        self.rows.iter().rev().find(|row| row.at <= at)
    }
}

/// Parses a number as the tools print it, with or without a sign.
fn signed(text: &str) -> Option<i64> {
    text.strip_prefix('+').unwrap_or(text).parse().ok()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}
