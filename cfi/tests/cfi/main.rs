//! Call frame information written out byte by byte, as DWARF 5 and the LSB have it: it judges the reader, so nothing but
//! `written` uses the writer.

mod instructions;
mod pointers;
mod records;
mod rows;
mod written;

/// A record: its length, an id or CIE pointer, a body.
fn record(section: &mut Vec<u8>, id: u32, body: &[u8]) {
    section.extend((body.len() as u32 + 4).to_le_bytes());
    section.extend(id.to_le_bytes());
    section.extend(body);
}

/// An `.eh_frame` of one CIE and one FDE, from what follows their ids.
fn eh_frame(cie: &[u8], fde: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    record(&mut section, 0, cie);
    let pointer = section.len() as u32 + 4;
    record(&mut section, pointer, fde);
    section
}

/// Version 1, no augmentation, code in units of 4 bytes, data in units of -8, column 16.
const PLAIN_CIE: &[u8] = &[1, 0, 4, 0x78, 16];

/// Where the function of [`plain`] lies.
const START: u64 = 0x1000;
/// Its size.
const SIZE: u64 = 0x100;

/// A function with these instructions.
fn plain(cie_instructions: &[u8], instructions: &[u8]) -> Vec<u8> {
    let range = [START.to_le_bytes(), SIZE.to_le_bytes()].concat();
    eh_frame(&[PLAIN_CIE, cie_instructions].concat(), &[&range, instructions].concat())
}
