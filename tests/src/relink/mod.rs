//! Makes the `.sframe` that GNU `ld` should make for a link, and compares it with the one in ld's output.
//!
//! It takes executables, shared libraries and relocatable output (`ld -r`, with its relocations) of `ld` 2.46 or later
//! for x86-64, AArch64 and s390x. The command line of the link is not needed, because the map says what is where. Of
//! the files in the map, you give some; archives stand for their members. Others (C libraries, `crt1.o`) are read from
//! the map's paths. Shared libraries are not read.
//!
//! The map leaves one thing open. An object may have several sections of the same name and size, and garbage collection
//! removed some of them. Global symbols distinguish them; without symbols, the first sections count as kept. Several
//! `.sframe` in an object are not covered.
//!
//! Link-time optimisation makes temporary objects. `gcc -save-temps` keeps them as `out.ltrans0.ltrans.o` and so on,
//! and you give them like other objects. If a script or `--discard-sframe` discards tables, that is
//! reported and no table is expected. Relocations of `--emit-relocs` that lead to the wrong function are reported too.

pub mod files;
pub mod link;
pub mod map;
pub mod object;
pub mod output;
pub mod table;
