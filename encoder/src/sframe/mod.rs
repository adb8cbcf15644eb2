//! Rows in, `.sframe` out: version 3 and 2, layouts `small` and `gnu`.

mod absorb;
mod all;
mod batch;
mod block;
mod builder;
mod cies;
mod common_cie;
mod direct;
mod entries;
mod fre;
mod fres;
mod gnu;
mod hash_index;
mod memo;
mod merge;
mod options;
mod order;
mod parallel;
mod pattern;
mod rules;
mod section;
mod small;
mod stack_pointer;
mod stubs;
#[cfg(feature = "std")]
mod threads;
mod track;
mod wide_attribute;
mod words;

pub use all::LeftOut;
pub use builder::Builder;
pub use options::{Layout, Options};
pub use section::{Section, WriteError};
