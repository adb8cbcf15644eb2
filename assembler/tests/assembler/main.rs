//! Tests of `cfipack-assembler` against committed output of gas, and with other readers.

mod edges;
mod gdb_elf;
mod goldens;
mod misuse;
