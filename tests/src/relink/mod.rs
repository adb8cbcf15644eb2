//! Makes the `.sframe` that GNU `ld` should have made of a link's objects, and compares it with the one that it made.
//!
//! Takes executables, shared libraries and relocatable output (`ld -r`, with its relocations) of `ld` 2.46 or later for
//! x86-64, AArch64 and s390x. Needs no command line of the link: the map says what is where. Of the files that it names,
//! those that are given are read, archives for their members too, and others (C libraries, `crt1.o`) from the path that
//! the map has; shared libraries are not read.
//!
//! What the map leaves open: several sections of one object with one name and size, of which garbage collection removed
//! some, are told apart by their global symbols; without any, the first ones are taken as kept. Not covered: several
//! `.sframe` in an object.
//!
//! The objects that link-time optimisation makes are temporary files: `gcc -save-temps` keeps them, as
//! `out.ltrans0.ltrans.o` and so on, which are given like other objects. Tables that a script discards or that
//! `--discard-sframe` empties are named, and none is expected; so are relocations of `--emit-relocs` that lead to other
//! functions than their fields.

pub mod files;
pub mod link;
pub mod map;
pub mod object;
pub mod output;
pub mod table;
