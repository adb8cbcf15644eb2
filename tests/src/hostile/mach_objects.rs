//! Makes Mach-O objects for a link.

use cfipack_format::Arch;
use cfipack_format::compact_unwind::{Encoding, Entry as Row};

use super::{Input, Shape};

/// Shapes of objects' unwind information. Shapes of 200 encodings have many times as many functions in each size,
/// because the work per function grows until no page has room for all encodings.
pub const MACH_OBJECTS: &[Shape] = &[
    ("objects of one function", |n| objects(8 * n, |i| vec![row(0, i)])),
    ("functions of one object in descending order", |n| {
        objects(1, |_| (0..8 * n).rev().map(|i| row(0x10 * i, i)).collect())
    }),
    ("rows of one function", |n| objects(1, |_| (0..n).map(|i| row(0, i)).collect())),
    ("a personality and an LSDA for each function", |n| {
        let with = |i| Row { personality: 1 + i as u64, lsda: 1 + i as u64, ..row(0x10 * i, i) };
        objects(1, |_| (0..n).map(with).collect())
    }),
    ("objects of one function in DWARF mode", |n| {
        let row = |i| Row { encoding: Encoding::dwarf(Arch::Amd64, 0), ..row(0, i) };
        objects(n, |i| vec![row(i)])
    }),
];

fn row(function: usize, number: usize) -> Row {
    let encoding = Encoding::frameless(2 + (number % 200) as u8, 0, 0);
    Row { function: function as u64, length: 0x10, encoding, ..Row::default() }
}

/// Makes objects with these rows, and an FDE for the function at 0.
fn objects(count: usize, rows: impl Fn(usize) -> Vec<Row>) -> Input {
    let eh_frame = [
        &[20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x10, 0x0c, 7, 8, 0x90, 1, 0, 0][..],
        &[28, 0, 0, 0, 28, 0, 0, 0],
        &(-32_i64).to_le_bytes(),
        &16_u64.to_le_bytes(),
        &[0; 8],
    ]
    .concat();
    let object = |number| [rows(number).iter().flat_map(|row| row.write(8)).collect(), eh_frame.clone()];
    Input::MachObjects((0..count).map(object).collect())
}
