//! `cfi2sframe`: packs DWARF call frame information into `.sframe`, reads it back and proves it.

fn main() {}
