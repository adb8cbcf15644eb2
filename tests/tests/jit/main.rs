//! What a region of generated code gives, judged by the runtimes themselves: with the functions of the example `jit` on
//! the stack, whose frames cannot be guessed from rbp, each unwinder has to find the C function that called them. With
//! wrong call frame information, or none, it must not.
//!
//! Each case is a process of its own ([`child`]): unwinders remember what they found.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "generated code is called, and interfaces of C")]

mod child;
mod debuggers;
mod program;
mod runtimes;
mod stepped;
mod stress;
mod tables;

#[path = "../../../cfipack/examples/jit/code.rs"]
#[expect(dead_code, reason = "the type of what the example calls")]
mod code;
#[path = "../../../cfipack/examples/jit/gdb.rs"]
mod gdb;
#[path = "../../../cfipack/examples/jit/libgcc.rs"]
mod libgcc;
#[path = "../../../cfipack/examples/jit/libunwind.rs"]
mod libunwind;
#[path = "../../../cfipack/examples/jit/memory.rs"]
mod memory;
#[path = "../../../cfipack/examples/jit/perf.rs"]
mod perf;
#[path = "../../../cfipack/examples/jit/sframe.rs"]
mod sframe;
#[path = "../../../cfipack/examples/jit/walk.rs"]
mod walk;
