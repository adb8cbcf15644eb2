//! Merges a table that is large enough to be divided among threads.

use core::cell::Cell;

use super::*;

/// This is enough for several parts.
const FUNCTIONS: usize = 20_000;

/// Returns functions with many sizes and rows. Some have unusable rows or no rows, and some are signal frames.
fn functions(version: Version) -> Vec<Function> {
    let function = |number: usize| {
        let mut function = plain(16 + (number % 7) as u32);
        // There are 300 different rows, so only few functions repeat the rows just before them.
        function.fres[5] = (8 * (number % 30)) as u8;
        function.fres[3] = 1 + (number / 30 % 10) as u8;
        match number % 101 {
            // The first row has one offset more than x86-64 uses.
            3 => function.fres = vec![0, 7, 8, 8, 8, 1, 3, 16],
            5 => (function.num_fres, function.fres) = (0, Vec::new()),
            7 if version == Version::V3 => function.info = FdeInfo::SIGNAL.bits(),
            _ => {}
        }
        function
    };
    (0..FUNCTIONS).map(function).collect()
}

/// Discards or cuts some functions.
fn live(version: Version) -> impl FnMut(Field) -> Option<Live> {
    let mut all = all(version);
    move |field| {
        let live = all(field)?;
        match live.key.0 % 97 {
            2 => None,
            4 => Some(live.with_extent(1)),
            8 => Some(live.with_extent(5)),
            _ => Some(live),
        }
    }
}

type Pushed = (Vec<u8>, Vec<Note>, Contribution);

fn pushed(options: Options, object: Object<'_>, version: Version, threads: Option<usize>) -> Pushed {
    let mut merger = Merger::new(Arch::Amd64, options).unwrap();
    let mut notes = Vec::new();
    let sum = match threads {
        None => merger.push_object(&object, live(version), |note| notes.push(note)),
        Some(threads) => {
            let objects = [object];
            merger.push_objects(&Threads(threads), &objects, |_| live(version), |_, note| notes.push(note))
        }
    };
    let section = merger.finish();
    let mut bytes = vec![0; section.len()];
    section.write(&mut bytes, Address(0x10_0000), address).unwrap();
    (bytes, notes, sum)
}

#[test]
fn any_number_of_threads_makes_the_same_of_a_table() {
    for (from, to) in [(Version::V3, Version::V3), (Version::V2, Version::V2), (Version::V2, Version::V3)] {
        let functions = functions(from);
        let apart = table(from, &functions);
        // Every tenth function has rows, and the nine functions after it share these rows.
        let last = Cell::new(0);
        let shared = table_with(from, &vec![plain(16); FUNCTIONS], |number, end| {
            last.replace(if number % 10 == 0 { end } else { last.get() });
            last.get()
        });
        let frames = eh_frame();
        for (bytes, layout) in
            [&apart, &shared].into_iter().flat_map(|bytes| LAYOUTS.map(|layout| (bytes, layout)))
        {
            for prefer in [Prefer::TableOnly, Prefer::Table, Prefer::Cfi] {
                let object = Object::new().with_sframe(bytes).with_eh_frame(&frames);
                let options = options(to, layout, prefer);
                let expected = pushed(options, object, from, None);
                assert!(expected.2.functions() > FUNCTIONS as u64 / 10 * 9, "{:?}", expected.2);
                for threads in [1, 2, 4] {
                    let divided = pushed(options, object, from, Some(threads));
                    assert!(divided == expected, "{from:?} {to:?} {layout:?} {prefer:?}, {threads} threads");
                }
            }
        }
    }
}
