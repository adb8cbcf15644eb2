//! `ar` archives: their members read, and replaced by others.

mod entries;
mod members;
mod rewrite;
mod symbol_index;
mod thin;

pub use members::{Member, Members, members};
pub use rewrite::rewrite_members;
pub use thin::{ThinMember, resize_thin_members, thin_members};
