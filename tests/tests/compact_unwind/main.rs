//! Tests compact unwind encodings and `__compact_unwind`: llvm-mc's cases, and real and random functions with their CFI.

mod decode;
mod edits;
mod encodings;
mod live_llvm_mc;
mod llvm_mc;
mod prologues;
mod rows;
