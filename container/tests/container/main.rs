//! Reads ELF, Mach-O, fat and `ar` files that linkers and assemblers wrote.

mod elf_edges;
mod linked;
mod magic;
mod relocatable;
mod thin;
