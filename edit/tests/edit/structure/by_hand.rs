//! Objects that the test edits byte by byte. It adds a table after the last section, and the symbol of a section.

use cfipack_roundtrip::structure::{StructureError, check_structure};

use super::{Header, corpus, header, headers, table};

fn put(bytes: &mut [u8], at: usize, value: u64, len: usize) {
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

fn get(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut value = [0; 8];
    value[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(value)
}

/// Replaces the contents of a section. The new bytes are at the end of the object.
fn with_contents(object: &mut Vec<u8>, header: &Header, contents: &[u8]) {
    object.resize(object.len().next_multiple_of(8), 0);
    let at = object.len();
    object[header.offset..header.offset + header.size].fill(0);
    object.extend(contents);
    put(object, header.at + 24, at as u64, 8);
    put(object, header.at + 32, contents.len() as u64, 8);
}

/// Appends contents to an object, and returns a section header for them. `kind` is the name and the type, `refers` the
/// link and the info, and `entry` the size of an entry.
fn new_header(
    object: &mut Vec<u8>,
    kind: [u32; 2],
    flags: u64,
    refers: [u32; 2],
    entry: u64,
    contents: &[u8],
) -> Vec<u8> {
    object.resize(object.len().next_multiple_of(8), 0);
    let at = object.len() as u64;
    object.extend(contents);
    let mut header = kind.map(u32::to_le_bytes).concat();
    header.extend([flags, 0, at, contents.len() as u64].map(u64::to_le_bytes).concat());
    header.extend(refers.map(u32::to_le_bytes).concat());
    header.extend([8, entry].map(u64::to_le_bytes).concat());
    header
}

/// Adds a table of 64 bytes to an object of gas. Its field at offset 28 has a relocation against the symbol `symbol`.
fn with_table(old: &[u8], symbol: u64) -> Vec<u8> {
    let mut new = old.to_vec();
    let names = header(old, ".shstrtab");
    let mut strings = old[names.offset..names.offset + names.size].to_vec();
    let name = strings.len() as u32;
    strings.extend(b".rela.sframe\0");
    with_contents(&mut new, &names, &strings);
    let all = headers(&new);
    let count = all.len();
    let symbols = all.iter().position(|header| header.kind == 2).unwrap();
    let sframe = new_header(&mut new, [name + 5, 0x6fff_fff4], 2, [0, 0], 0, &table(64));
    let relocation = [28, symbol << 32 | 2, 0].map(u64::to_le_bytes).concat();
    let refers = [symbols as u32, count as u32];
    let rela = new_header(&mut new, [name, 4], 0x40, refers, 24, &relocation);
    // The section headers move to the end of the object.
    new.resize(new.len().next_multiple_of(8), 0);
    let (first, at) = (all[0].at, new.len());
    let headers = new[first..first + 64 * count].to_vec();
    new[first..first + 64 * count].fill(0);
    new.extend([headers, sframe, rela].concat());
    put(&mut new, 40, at as u64, 8);
    put(&mut new, 60, count as u64 + 2, 2);
    new
}

/// Adds a symbol for the section `section` before the first symbol that is not local.
fn with_symbol(old: &[u8], section: u16) -> Vec<u8> {
    let mut new = old.to_vec();
    let symbols = header(old, ".symtab");
    let first_global = get(old, symbols.at + 44, 4) as usize;
    let mut contents = old[symbols.offset..symbols.offset + symbols.size].to_vec();
    let mut symbol = [0; 24];
    symbol[4] = 3;
    symbol[6..8].copy_from_slice(&section.to_le_bytes());
    contents.splice(24 * first_global..24 * first_global, symbol);
    with_contents(&mut new, &symbols, &contents);
    put(&mut new, symbols.at + 44, first_global as u64 + 1, 4);
    for section in headers(old).iter().filter(|header| header.kind == 4) {
        for at in (section.offset..section.offset + section.size).step_by(24) {
            let symbol = get(old, at + 12, 4);
            put(&mut new, at + 12, symbol + u64::from(symbol >= first_global as u64), 4);
        }
    }
    // The symbol that a group is known by.
    for group in headers(old).iter().filter(|header| header.kind == 17) {
        let symbol = get(old, group.at + 44, 4);
        put(&mut new, group.at + 44, symbol + u64::from(symbol >= first_global as u64), 4);
    }
    new
}

#[test]
fn a_table_is_added() {
    let old = corpus("debug_frame.none.o");
    let new = with_table(&old, 1);
    let structure = check_structure(&old, &new).unwrap();
    assert_eq!((structure.tables, structure.sections), (1, headers(&old).len()));
    // The table is removed again.
    assert_eq!(check_structure(&new, &old).unwrap().tables, 0);
}

#[test]
fn a_symbol_is_added_for_it() {
    let old = corpus("debug_frame.none.o");
    let new = with_table(&with_symbol(&old, 1), 1);
    check_structure(&old, &new).unwrap();
    // A relocation keeps the old number of its symbol.
    let mut caught = 0;
    for section in headers(&new).iter().filter(|header| header.kind == 4 && header.name != ".rela.sframe") {
        for at in (section.offset..section.offset + section.size).step_by(24) {
            let mut wrong = new.clone();
            put(&mut wrong, at + 12, get(&new, at + 12, 4) - 1, 4);
            let error = check_structure(&old, &wrong).unwrap_err();
            assert!(matches!(error, StructureError::Item { field: "r_info", .. }), "{error}");
            caught += 1;
        }
    }
    assert_ne!(caught, 0);
}

#[test]
fn relocations_of_the_table_are_in_it() {
    let old = corpus("debug_frame.none.o");
    let new = with_table(&old, 1);
    let relocations = header(&new, ".rela.sframe");
    for (field, value) in [(0, 64), (12, 10_000)] {
        let mut wrong = new.clone();
        put(&mut wrong, relocations.offset + field, value, 4);
        let error = check_structure(&old, &wrong).unwrap_err();
        assert!(matches!(error, StructureError::Table { .. }), "{error}");
    }
}
