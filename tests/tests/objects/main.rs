//! Tables put into relocatable objects and archives, and removed from them.

mod archives;
mod edges;
mod goldens;
mod live_links;
mod numbers;
mod seen;
mod thin;
