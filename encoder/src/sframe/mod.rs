//! Rows in, `.sframe` out: version 3 and 2, layouts `small` and `gnu`.

mod block;
mod builder;
mod fre;
mod gnu;
mod hash_index;
mod memo;
mod merge;
mod options;
mod order;
mod section;
mod small;
mod stack_pointer;
mod stubs;

pub use builder::Builder;
pub use options::{Layout, Options};
pub use section::{Section, WriteError};
