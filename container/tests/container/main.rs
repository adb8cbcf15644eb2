//! ELF, Mach-O, fat and `ar` files: what linkers, assemblers and damage make of them.

mod damage;
mod damaged;
mod elf_edges;
mod linked;
mod magic;
#[path = "../../../tests/src/random/mod.rs"]
mod random;
mod relocatable;
mod thin;
