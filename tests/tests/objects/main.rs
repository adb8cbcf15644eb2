//! Embeds tables in relocatable objects and archives, and removes them.

mod archives;
mod edges;
mod goldens;
mod live_links;
mod numbers;
mod seen;
mod thin;
