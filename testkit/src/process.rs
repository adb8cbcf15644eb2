//! Programs that are stopped while a test looks at them.

use crate::by_cfi::Registers;

/// A program that is stopped.
pub trait Process {
    /// The mappings, as the kernel writes them.
    fn maps(&self) -> String;

    /// Reads a part of its memory, as much of it as there is, and returns how many bytes.
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize;
}

/// A stopped program's registers.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The next instruction.
    pub pc: u64,
    /// All registers that have DWARF numbers.
    pub registers: Registers,
}
