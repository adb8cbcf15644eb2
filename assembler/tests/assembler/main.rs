//! What `cfipack-assembler` makes of directives and text, against what gas made of the same, and against readers of others.

mod edges;
mod errors;
mod gas_object;
mod gdb_elf;
mod goldens;
mod misuse;
#[cfg(feature = "object")]
mod object;
