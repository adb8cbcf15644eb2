//! Makes `.sframe` tables of version 2 for x86-64.

use cfipack_format::Endian;
use cfipack_format::sframe::{Fde, FdeInfo, Flags, Header, Version};

use super::{Input, Shape};

/// Shapes of pairs of `.sframe` sections.
pub const TABLES: &[Shape] = &[
    ("two tables, one with a function around all of the other", |n| {
        let inner = table((0..n).map(|i| function(16 * i as i64, 8, 0)), &[rows(1)]);
        let outer = Function { info: WIDE, ..function(0, 16 * n as u32, 0) };
        let around = table([outer], &[wide_rows(n)]);
        Input::Tables([[inner.clone(), around.clone()].concat(), [inner, around].concat()])
    }),
    ("tables with a function around those of the tables before", |n| {
        let around = |i: usize| table([function(8 * (n - i) as i64, 16 * i as u32 + 8, 0)], &[rows(4)]);
        twice((0..n).flat_map(around).collect())
    }),
    ("tables of one function", |n| {
        twice((0..n).flat_map(|i| table([function(16 * i as i64, 16, 0)], &[rows(2)])).collect())
    }),
    ("tables without functions", |n| twice((0..n).flat_map(|_| table([], &[])).collect())),
    ("zeros between tables", |n| {
        let one = |i| [table([function(16 * i as i64, 16, 0)], &[rows(2)]), vec![0; 100]].concat();
        twice((0..n).flat_map(one).collect())
    }),
    ("stubs of coprime periods", |n| {
        let stubs = |period: u8| {
            let one = |i: usize| Function {
                rep_size: period,
                info: STUB,
                ..function(0x1_0000 * i as i64, 0x1_0000, 0)
            };
            table((0..n).map(one), &[rows(2)])
        };
        Input::Tables([stubs(255), stubs(254)])
    }),
    ("stubs", |n| {
        let one = |i: usize| Function { rep_size: 16, info: STUB, ..function(0x100 * i as i64, 0x100, 0) };
        twice(table((0..n).map(one), &[rows(2)]))
    }),
    ("functions that share many rows", |n| {
        twice(table((0..n).map(|i| function(256 * i as i64, 256, 0)), &[rows(200)]))
    }),
    ("functions of one start", |n| twice(table((0..n).map(|_| function(0, 256, 0)), &[rows(3)]))),
    ("functions around each other", |n| {
        twice(table((0..n).map(|i| function(16 * i as i64, 32 * (n - i) as u32, 0)), &[rows(3)]))
    }),
    ("functions in descending order", |n| {
        twice(table((0..n).rev().map(|i| function(16 * i as i64, 16, 0)), &[rows(3)]))
    }),
    ("functions without code", |n| twice(table((0..n).map(|i| function(i as i64, 0, 0)), &[rows(3)]))),
    ("functions of 4 GiB", |n| twice(table((0..n).map(|i| function(i as i64, u32::MAX, 0)), &[rows(3)]))),
    ("functions whose rows lie elsewhere", |n| {
        twice(table(
            (0..n).map(|i| Function { fre_off: u32::MAX, ..function(16 * i as i64, 16, 0) }),
            &[rows(3)],
        ))
    }),
    ("one function of many rows", |n| {
        twice(table([Function { info: WIDE, ..function(0, 1 << 20, 0) }], &[wide_rows(4 * n)]))
    }),
    ("rows of one start", |n| {
        let row = [0, 3, 8];
        twice(table([function(0, 256, 0)], &[(8 * n as u32, row.repeat(8 * n))]))
    }),
    ("rows that mean nothing", |n| {
        let row = [0, 0xff, 8];
        twice(table((0..n).map(|i| function(16 * i as i64, 16, 0)), &[(2, row.repeat(2))]))
    }),
    ("tables that differ in each row", |n| {
        let with = |offset| {
            table(
                (0..n).map(|i| function(16 * i as i64, 16, 0)),
                &[(3, vec![0, 3, offset, 1, 3, offset + 8, 2, 3, offset])],
            )
        };
        Input::Tables([with(8), with(16)])
    }),
];

const WIDE: FdeInfo = FdeInfo::from_bits_retain(2);
const STUB: FdeInfo = FdeInfo::PC_MASK;

/// Makes a function. `fre_off` is the number of its block of rows.
fn function(start: i64, size: u32, block: u32) -> Function {
    Function { start, size, fre_off: block, info: FdeInfo::empty(), rep_size: 0 }
}

struct Function {
    start: i64,
    size: u32,
    fre_off: u32,
    info: FdeInfo,
    rep_size: u8,
}

/// Makes `count` rows, one for each byte, with alternating CFAs.
fn rows(count: u8) -> (u32, Vec<u8>) {
    (count.into(), (0..count).flat_map(|i| [i, 3, 8 + 8 * (i & 1)]).collect())
}

/// Makes rows with starts of 4 bytes, one row every 16 bytes.
fn wide_rows(count: usize) -> (u32, Vec<u8>) {
    let row = |i: usize| [&(16 * i as u32).to_le_bytes()[..], &[3, 8 + 8 * (i as u8 & 1)]].concat();
    (count as u32, (0..count).flat_map(row).collect())
}

/// Makes a table whose index claims to be sorted.
fn table(functions: impl IntoIterator<Item = Function>, blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let fres: Vec<u8> = blocks.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let (mut index, mut num_fdes, mut num_fres) = (Vec::new(), 0, 0_u32);
    for Function { start, size, fre_off, info, rep_size } in functions {
        let count = blocks.first().map_or(0, |block| block.0);
        let fde = Fde { start, size, fre_off, num_fres: count, info, rep_size };
        index.extend(&fde.write(Version::V2, Endian::Little)[..Version::V2.fde_size()]);
        num_fdes += 1;
        num_fres = num_fres.wrapping_add(count);
    }
    let header = Header {
        version: 2,
        flags: Flags::FDE_SORTED,
        abi: 3,
        fixed_fp_offset: 0,
        fixed_ra_offset: -8,
        auxhdr_len: 0,
        num_fdes,
        num_fres,
        fre_len: fres.len() as u32,
        fde_off: 0,
        fre_off: index.len() as u32,
    };
    [&header.write(Endian::Little)[..], &index, &fres].concat()
}

fn twice(bytes: Vec<u8>) -> Input {
    Input::Tables([bytes.clone(), bytes])
}
