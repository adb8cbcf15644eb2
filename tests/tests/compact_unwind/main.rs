//! Compact unwind encodings, and `__compact_unwind` in objects: llvm-mc's cases, and encodings of real and random
//! functions against their CFI.

mod decode;
mod edits;
mod encodings;
mod live_llvm_mc;
mod llvm_mc;
mod prologues;
mod rows;
