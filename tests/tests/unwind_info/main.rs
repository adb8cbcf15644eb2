//! Tests `__unwind_info` and its Mach-O files: tables of lld and of Apple's linkers, other readers, random tables.

mod apple;
mod bounds;
mod damaged;
mod edges;
mod framehop;
mod layouts;
mod libunwind;
mod linked_objects;
mod links;
mod mach_o;
mod readers;
mod real_libraries;
mod smallest;
#[cfg(feature = "symbolic")]
mod symbolic;
