//! Tests `compact-unwind`: changes objects of real compilers, and compares links of changed and unchanged objects.

mod apple;
mod archives;
mod edited;
mod image;
mod link;
mod llvm_mc;
mod personalities;
mod programs;
mod real_libraries;
mod refused;
mod structure;
mod verified;
