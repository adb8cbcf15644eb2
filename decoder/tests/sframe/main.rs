//! `.sframe` sections that other tools wrote, and the same damaged.

mod corruption;
mod elf;
mod index;
mod lookup;
mod masks;
mod odd_rows;
mod readelf;
mod relocated;
mod rows;
mod step;
mod table;
mod walk;
