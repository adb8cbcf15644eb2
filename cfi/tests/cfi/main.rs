//! Tests the reader with call frame information that is written out byte by byte, as DWARF 5 and the LSB
//! define it. Only the module `written` uses the writer.

mod instructions;
mod pointers;
mod records;
mod rows;
mod written;

/// Appends a record: its length, an id or CIE pointer, and a body.
fn record(section: &mut Vec<u8>, id: u32, body: &[u8]) {
    section.extend((body.len() as u32 + 4).to_le_bytes());
    section.extend(id.to_le_bytes());
    section.extend(body);
}

/// Returns an `.eh_frame` with a CIE and an FDE. The arguments are the bytes after their ids.
fn eh_frame(cie: &[u8], fde: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    record(&mut section, 0, cie);
    let pointer = section.len() as u32 + 4;
    record(&mut section, pointer, fde);
    section
}

/// A CIE's body: version 1, no augmentation, code in units of 4 bytes, data in units of -8, column 16.
const PLAIN_CIE: &[u8] = &[1, 0, 4, 0x78, 16];

/// The address of the function in [`plain`].
const START: u64 = 0x1000;
/// The size of this function in bytes.
const SIZE: u64 = 0x100;

/// Returns an `.eh_frame` with a function that has these instructions.
fn plain(cie_instructions: &[u8], instructions: &[u8]) -> Vec<u8> {
    let range = [START.to_le_bytes(), SIZE.to_le_bytes()].concat();
    eh_frame(&[PLAIN_CIE, cie_instructions].concat(), &[&range, instructions].concat())
}
