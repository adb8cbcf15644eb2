//! Edited files, judged by a check that shares nothing with what edits them.

mod damaged;
mod structure;
mod thin;
