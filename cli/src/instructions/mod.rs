//! A function's instructions beside the rows that describe them: [`listing`] is what `explain` prints.

mod aarch64;
mod check;
mod decoded;
mod disassembly;
mod effect;
mod frame;
pub mod listing;
mod rows;
#[cfg(test)]
mod tests;
mod x86;
