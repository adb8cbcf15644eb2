//! Options of writing a section.

use core::fmt;

use cfipack_format::Address;

use cfipack_format::pool::{Pool, Serial};

/// The place at which a [`Section`](crate::sframe::Section) is written, and the threads that write it.
#[derive(Clone, Copy)]
pub struct At<'p> {
    pub(crate) address: Address,
    pub(crate) pool: &'p dyn Pool,
}

impl<'p> At<'p> {
    /// Writes the section at an address, on the threads of a pool.
    pub const fn on(address: Address, pool: &'p dyn Pool) -> Self {
        Self { address, pool }
    }
}

impl From<Address> for At<'_> {
    /// Writes the section at an address, on the caller's thread.
    fn from(address: Address) -> Self {
        Self::on(address, &Serial)
    }
}

impl fmt::Debug for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, pool } = self;
        f.debug_struct("At").field("address", address).field("threads", &pool.threads()).finish()
    }
}
