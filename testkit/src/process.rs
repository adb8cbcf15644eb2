//! Programs that are stopped while a test looks at them.

use crate::by_cfi::Registers;

/// A program that is stopped.
pub trait Process {
    /// Returns the mappings, as the kernel prints them in `/proc/PID/maps`.
    fn maps(&self) -> String;

    /// Reads memory at an address into `buffer`. Returns how many bytes were readable.
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize;
}

/// A stopped program's registers.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The address of the next instruction.
    pub pc: u64,
    /// All registers that have DWARF numbers.
    pub registers: Registers,
}
