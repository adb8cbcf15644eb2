//! Objects of a link: how many, how large, and how alike.

use cfipack_encoder::sframe::Finish;
use cfipack_format::pool::{Pool, Serial, Threads};
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options};

use super::tables::{function, rows, table};
use super::{Input, Shape};
use crate::many_functions::eh_frame;
use crate::random::Random;

/// Functions of a part.
const FUNCTIONS: usize = 16;

/// Shapes of links: `.sframe` and `.eh_frame` of each object, either of which may be empty.
pub const LINKS: &[Shape] = &[
    ("tiny sections", |n| objects((0..FUNCTIONS * n).map(|_| 1))),
    ("one huge section", |n| objects([FUNCTIONS * n])),
    ("one huge section among tiny ones", |n| {
        objects((0..n).map(|i| if i == n / 2 { FUNCTIONS * n } else { 1 }))
    }),
    ("tiny sections with call frame information alone", |n| {
        Input::Links((0..FUNCTIONS * n).map(|_| [Vec::new(), cfi(1)]).collect())
    }),
    ("one huge section with call frame information alone", |n| {
        Input::Links(vec![[Vec::new(), cfi(FUNCTIONS * n)]])
    }),
    ("objects without sections", |n| Input::Links(vec![[Vec::new(), Vec::new()]; FUNCTIONS * n])),
];

/// Objects with this many functions, of which each second one has a table alone.
fn objects(functions: impl IntoIterator<Item = usize>) -> Input {
    let object = |(number, count): (usize, usize)| {
        let entries = (0..count).map(|i| function(16 * i as i64, 16, 0));
        [table(entries, &[rows(3)]), if number % 2 == 0 { cfi(count) } else { Vec::new() }]
    };
    Input::Links(functions.into_iter().enumerate().map(object).collect())
}

fn cfi(functions: usize) -> Vec<u8> {
    eh_frame(&mut Random::new(1), functions, Address(0), Address(0x1000))
}

/// Merges the objects on one thread and on two, at once and in shards of one object each, ends the section in each
/// way, and asks for a frame of each object.
pub(super) fn link(objects: &[[Vec<u8>; 2]]) {
    let objects: Vec<_> =
        objects.iter().map(|[table, cfi]| Object::new().with_sframe(table).with_eh_frame(cfi)).collect();
    // The functions of a table and of CFI have other keys, but for the first of an object.
    let key = |number: usize, field| match field {
        Field::Sframe(at) => Key((number as u64) << 32 | (at.0 as u64 - 28)),
        Field::EhFrame(at) => Key((number as u64) << 32 | (at.0 as u64).saturating_sub(32)),
    };
    let live = |number| move |field| Some(Live::new(key(number, field)).with_extent(64));
    let two = Threads(2);
    for pool in [&Serial as &dyn Pool, &two] {
        for placed_keys in [false, true] {
            let mut merger = Merger::new(Arch::Amd64, Options::new()).expect("an architecture of the format");
            merger.push_objects(pool, &objects, live, |_, _| ());
            end(merger, pool, placed_keys);
        }
    }
    let mut merger = Merger::new(Arch::Amd64, Options::new()).expect("an architecture of the format");
    for (number, object) in objects.iter().enumerate() {
        let mut shard = merger.shard();
        shard.push_object(object, live(number), |_| ());
        merger.absorb(shard, &Serial).expect("room");
        merger.frame_at(Key((number as u64) << 32), 1);
    }
    end(merger, &Serial, true);
}

fn end(merger: Merger<'_>, pool: &dyn Pool, placed_keys: bool) {
    let section = merger.finish_with(Finish::on(pool).with_placed_keys(placed_keys));
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, Address(1 << 62), Key::address).expect("a section");
}
