//! Checks edited files. The check shares no code with the crate that edits them.

mod structure;
mod thin;
