//! Tests of `cfipack-assembler` against committed output of gas, and against readers of others.

mod edges;
mod errors;
mod gas_object;
mod gdb_elf;
mod goldens;
mod misuse;
#[cfg(feature = "object")]
mod object;
