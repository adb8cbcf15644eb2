//! The linker's side: objects of real assemblers in, tables compared with those of real linkers.

mod damaged;
mod linked;
mod live_ld;
mod mixed;
