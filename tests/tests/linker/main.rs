//! Tests the linker's side: merges objects of real assemblers, and compares tables with those of real linkers.

mod compiled;
mod damaged;
mod damaged_links;
mod linked;
mod live_compiled;
mod live_relink;
mod mixed;
mod programs;
mod relinked;
