//! `compact-unwind`: objects of real compilers are changed, linked, and compared with the link of the unchanged ones.

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
