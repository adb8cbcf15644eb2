//! Functions that overlap, in one table or in several tables: each PC gets the answer that a lookup gives.

use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, FunctionOffset, Row};
use cfipack_roundtrip::{Options, Report, Table, TableAnswer, diff, verify};
use cfipack_testkit::random::Random;

use crate::made::{self, Cfi, Made, SORTED, SP1, UNSORTED};

/// Makes some functions of up to 40 bytes from `base` on. Each row has a CFA that no other row has.
fn functions(random: &mut Random, base: u64, cfa: &mut u8) -> Vec<Made> {
    let count = 1 + random.below(6);
    let function = |_| {
        let start = base.wrapping_add(random.below(48));
        let mut function = Made::new(start, random.below(40) as u32, &[]);
        for at in 0..random.below(3) as u8 {
            *cfa += 1;
            let row = at * 5 + random.below(4) as u8;
            if u32::from(row) <= function.size {
                // A row without words is malformed.
                let row = if random.below(6) == 0 { (row, 1, vec![]) } else { (row, SP1, vec![*cfa]) };
                function.rows.push(row);
            }
        }
        if random.below(4) == 0 {
            (function.info, function.rep_size) = (0x10, 16);
        }
        function
    };
    (0..count).map(function).collect()
}

/// Returns the answer of the first table that has the PC, or an error if the answer cannot be read.
fn first(sections: &[Section<'_>], pc: Address) -> Result<Option<Row>, ()> {
    let function = sections.iter().find_map(|section| section.find(pc).unwrap());
    let Some(function) = function else { return Ok(None) };
    function.lookup(FunctionOffset(pc.distance_from(function.start()) as u32)).map_err(|_| ())
}

#[test]
fn every_pc_is_answered_for_as_lookups_do() {
    for seed in 1..=4000_u64 {
        let mut random = Random::new(seed);
        // The last functions continue after the last address.
        let base = if random.below(4) == 0 { u64::MAX - 40 } else { 0x1000 };
        let (mut tables, mut cfa) = (Vec::new(), 0);
        for number in 0..1 + random.below(3) {
            let mut functions = functions(&mut random, base, &mut cfa);
            let address = Address(made::TABLE_ADDRESS.0 + number * 0x1000);
            let sorted = if random.below(2) == 0 { SORTED } else { UNSORTED };
            if sorted == SORTED {
                functions.sort_by_key(|function| Address(function.start).distance_from(address));
            }
            tables.push((address, made::table_at(address, Arch::Amd64, sorted, &functions)));
        }
        let parsed = tables.iter().map(|(address, bytes)| Section::parse(bytes, *address).unwrap());
        let sections: Vec<_> = parsed.collect();
        let table = Table::new(&sections);
        let mut cursor = table.cursor();
        let around = if base == 0x1000 { 0x1000..0x1100 } else { 0..0x100 };
        for pc in around.chain(u64::MAX - 64..u64::MAX) {
            let expected = first(&sections, Address(pc));
            let found = match *cursor.seek(pc).at(pc) {
                TableAnswer::Row(row, _) => Ok(Some(row)),
                TableAnswer::Nothing => Ok(None),
                TableAnswer::Malformed(_) => Err(()),
            };
            assert_eq!(found, expected, "seed {seed}, pc {pc:#x}");
        }
    }
}

/// Returns a function of 16 bytes with CFA = rsp + 8, and before it a function of 4 bytes that lies inside it.
fn nested() -> [Made; 2] {
    [Made::new(0x1004, 4, &[(0, SP1, &[16])]), Made::new(0x1000, 0x10, &[(0, SP1, &[8])])]
}

/// A search finds the same function in a sorted index and in an unsorted index. If two FDEs have a PC, it finds the FDE
/// that starts later. After the end of this FDE, it finds no function.
#[test]
fn the_last_start_decides_in_any_index() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 0x10, &[]);
    let [inner, outer] = nested();
    for (sorted, functions) in
        [(UNSORTED, [&inner, &outer]), (UNSORTED, [&outer, &inner]), (SORTED, [&outer, &inner])]
    {
        let functions = functions.map(Made::clone);
        let bytes = made::table_at(made::TABLE_ADDRESS, Arch::Amd64, sorted, &functions);
        let sections = [Section::parse(&bytes, made::TABLE_ADDRESS).unwrap()];
        let report = verify(&[cfi.section()], &Table::new(&sections), &Options::default());
        assert_eq!((report.pcs_equal, report.pcs_different, report.pcs_missing), (4, 4, 8));
    }
}

/// A function counts once, however many pieces it has.
#[test]
fn functions_in_pieces_are_counted_once() {
    let tables = nested().map(|function| made::table(Arch::Amd64, &[function]));
    let sections = [&tables[0], &tables[1]].map(|bytes| Section::parse(bytes, made::TABLE_ADDRESS).unwrap());
    let table = Table::new(&sections);
    let report = verify(&[Cfi::amd64().0.section()], &table, &Options::default());
    assert_eq!((report.extra, report.pcs_extra), (2, 16));
    let whole = diff(&table, &table, &Options::default());
    assert_eq!((whole.equal, whole.pcs_equal), (2, 16));
    // The outer function differs in its last piece only.
    let rows: &[(u8, u8, &[u8])] = &[(0, SP1, &[8]), (4, SP1, &[16]), (8, SP1, &[24])];
    let other = made::table(Arch::Amd64, &[Made::new(0x1000, 0x10, rows)]);
    let other = [Section::parse(&other, made::TABLE_ADDRESS).unwrap()];
    let other = Table::new(&other);
    let found = diff(&table, &other, &Options::default());
    assert_eq!((found.equal, found.different, found.pcs_different), (1, 1, 8));
    let none = Table::new(&[]);
    assert_eq!((diff(&table, &none, &Options::default()).only_a), 2);
    assert_eq!((diff(&none, &table, &Options::default()).only_b), 2);
}

/// Makes a table for each function, given by start and size. An earlier table goes first.
fn in_tables(functions: &[(u64, u32)]) -> Vec<Vec<u8>> {
    let made = functions.iter().map(|&(start, size)| Made::new(start, size, &[(0, SP1, &[8])]));
    made.map(|function| made::table(Arch::Amd64, &[function])).collect()
}

/// Verifies tables against functions with these starts and sizes. Each has the row of its CIE, CFA = rsp + 8.
fn held_against(functions: &[(u64, u64)], tables: &[Vec<u8>], padding: u64) -> Report {
    let (mut cfi, cie) = Cfi::amd64();
    functions.iter().for_each(|&(start, size)| cfi.fde(cie, start, size, &[]));
    let sections: Vec<_> =
        tables.iter().map(|bytes| Section::parse(bytes, made::TABLE_ADDRESS).unwrap()).collect();
    verify(&[cfi.section()], &Table::new(&sections), &Options::new().with_padding(padding))
}

/// A function in three pieces counts as one extra function, whichever of its pieces are missing in the CFI.
#[test]
fn pieces_that_no_cfi_has() {
    let tables = in_tables(&[(0x1004, 4), (0x100c, 4), (0x1000, 0x14)]);
    let all = [(0x1000, 4), (0x1004, 4), (0x1008, 4), (0x100c, 4), (0x1010, 4)];
    let extra = |missing: &[usize]| {
        let present = all.iter().enumerate().filter(|(place, _)| !missing.contains(place));
        let present: Vec<_> = present.map(|(_, function)| *function).collect();
        let report = held_against(&present, &tables, 0);
        (report.extra, report.pcs_extra)
    };
    assert_eq!(extra(&[]), (0, 0));
    for piece in [0, 2, 4] {
        assert_eq!(extra(&[piece]), (1, 4), "{piece}");
    }
    assert_eq!([extra(&[0, 2]), extra(&[2, 4]), extra(&[0, 2, 4])], [(1, 8), (1, 8), (1, 12)]);
    assert_eq!([extra(&[0, 1, 2]), extra(&[0, 1, 2, 3, 4])], [(2, 12), (3, 20)]);
}

/// Padding lies within one piece of a function, because the PCs after a piece belong to another function.
#[test]
fn padding_in_a_piece() {
    let tables = in_tables(&[(0x1004, 4), (0x1000, 0x20)]);
    let apart = [(0x1000, 4), (0x1004, 4), (0x1008, 4), (0x1010, 0x10)];
    let report = held_against(&apart, &tables, 4);
    assert_eq!((report.pcs_padding, report.pcs_extra, report.pcs_equal), (4, 0, 0x1c));
    let report = held_against(&[apart[0], apart[1], apart[3]], &tables, 8);
    assert_eq!((report.pcs_padding, report.pcs_extra, report.pcs_equal), (0, 8, 0x18));
}

/// A lookup asks the tables in order.
#[test]
fn the_first_of_several_tables_decides() {
    let (mut cfi, cie) = Cfi::amd64();
    cfi.fde(cie, 0x1000, 0x10, &[]);
    let [inner, outer] = nested().map(|function| made::table(Arch::Amd64, &[function]));
    let [inner, outer] = [&inner, &outer].map(|bytes| Section::parse(bytes, made::TABLE_ADDRESS).unwrap());
    for (sections, equal) in [([inner, outer], 12), ([outer, inner], 16)] {
        let report = verify(&[cfi.section()], &Table::new(&sections), &Options::default());
        assert_eq!((report.pcs_equal, report.pcs_different), (equal, 16 - equal));
    }
}

/// A function that continues after the last address counts once, and its rows go on at address 0. The last address is
/// not compared.
#[test]
fn a_function_behind_the_last_address() {
    let function = Made::new(u64::MAX - 7, 16, &[(0, SP1, &[8]), (12, SP1, &[16])]);
    let bytes = made::table(Arch::Amd64, &[function]);
    let sections = [Section::parse(&bytes, made::TABLE_ADDRESS).unwrap()];
    let table = Table::new(&sections);
    let found = diff(&table, &table, &Options::default());
    assert_eq!((found.equal, found.pcs_equal), (1, 15));
}
