//! The verifier, the other comparisons and the counts: on tables made by hand, and on tables that gas wrote.
#![allow(missing_docs)]

mod broken;
mod cies;
mod edges;
mod gas;
mod judged;
mod limits;
mod mach_o;
mod made;
mod missing;
mod overlaps;
mod page_table;
mod planted;
mod profile;
mod repeats;
mod undefined;
