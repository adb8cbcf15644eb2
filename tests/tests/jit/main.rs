//! Runtimes judge regions of generated code. The functions of the example `jit` are on the stack, and rbp does not help
//! to guess their frames. Each unwinder must find the C function that called them. With wrong CFI, or none, it must not
//! find it.
//!
//! Unwinders remember what they have found, so each case has its own process ([`child`]).

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
