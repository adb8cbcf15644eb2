//! Compares what `cfipack-assembler` makes of directives with what assemblers make of them.

mod call_frames;
mod compact_unwind;
mod sframe;
mod truth;
