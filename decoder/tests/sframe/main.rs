//! `.sframe` sections that other tools wrote, and the same damaged.

mod elf;
mod readelf;
