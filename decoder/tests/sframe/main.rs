//! Reads `.sframe` sections that other tools wrote, and damaged copies of them.

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
