//! The verifier, the other comparisons and the counts: on tables made by hand, and on tables that gas wrote.
#![allow(missing_docs)]

mod broken;
mod damaged;
mod edges;
mod gas;
#[path = "../../../tests/src/gas_errors.rs"]
mod gas_errors;
mod judged;
mod limits;
mod mach_o;
mod made;
mod missing;
mod overlaps;
mod page_table;
mod planted;
mod profile;
#[path = "../../../tests/src/random/generator.rs"]
mod random;
mod repeats;
mod undefined;
