//! Edited files, judged by a check that shares nothing with what edits them.

#[path = "../../../container/tests/container/damage.rs"]
mod damage;
mod damaged;
#[path = "../../../tests/src/needs.rs"]
#[expect(dead_code, reason = "no directory is needed here")]
mod needs;
#[path = "../../../tests/src/random/mod.rs"]
mod random;
#[path = "../../../tests/src/rustc.rs"]
#[expect(dead_code, reason = "nothing is assembled here")]
mod rustc;
mod structure;
mod thin;
