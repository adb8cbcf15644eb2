//! Edited files, judged by a check that shares nothing with what edits them.

#[path = "../../../container/tests/container/damage.rs"]
mod damage;
mod damaged;
#[path = "../../../tests/src/not_tested.rs"]
mod not_tested;
#[path = "../../../tests/src/random/mod.rs"]
mod random;
mod structure;
mod thin;
