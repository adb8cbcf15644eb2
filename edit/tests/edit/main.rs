//! Edited files, judged by a check that shares nothing with what edits them.

mod structure;
mod thin;
