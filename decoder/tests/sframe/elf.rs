//! Relocates the `.sframe` section of an object file as readelf does. Every section has address 0, so a start
//! is a symbol's value plus the addend.

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget};

/// Returns the bytes of the section, or `None` if the file has no such section.
pub fn sframe(file: &[u8]) -> Option<Vec<u8>> {
    let file = object::File::parse(file).expect("an object file");
    let section = file.section_by_name(".sframe")?;
    let mut bytes = section.data().expect("the section's data").to_vec();
    let big = file.endianness() == object::Endianness::Big;
    let width = if bytes[2] == 3 { 8 } else { 4 };
    for (field, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            panic!("a relocation without a symbol")
        };
        let symbol = file.symbol_by_index(symbol).expect("the symbol of a relocation");
        let target = symbol.address().wrapping_add_signed(relocation.addend());
        let value = target.wrapping_sub(field);
        let slot = &mut bytes[field as usize..][..width];
        if big {
            slot.copy_from_slice(&value.to_be_bytes()[8 - width..]);
        } else {
            slot.copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
    Some(bytes)
}
