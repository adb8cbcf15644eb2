//! ELF, Mach-O, fat and `ar` files: what linkers, assemblers and damage make of them.

mod damaged;
mod elf_edges;
mod linked;
mod magic;
mod relocatable;
mod thin;
