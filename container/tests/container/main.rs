//! ELF, Mach-O, fat and `ar` files: what linkers and assemblers make of them.

mod elf_edges;
mod linked;
mod magic;
mod relocatable;
mod thin;
