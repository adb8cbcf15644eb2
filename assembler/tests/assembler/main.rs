//! Tests of `cfipack-assembler` against committed output of gas, and against readers of others.

mod edges;
mod gdb_elf;
mod goldens;
mod misuse;
