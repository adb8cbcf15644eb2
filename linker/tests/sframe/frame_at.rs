//! Finds the frame of a function before the section is finished.

use cfipack_decoder::sframe as decoder;
use cfipack_format::pool::Serial;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Live, Merger, Object, Prefer};
use cfipack_linker::stubs::{StubKind, Stubs};

use crate::{LAYOUTS, OUTPUTS, address, all, eh_frame, options, plain, row, table, written};

/// At every PC, the frame is the frame that a lookup in the written table finds.
#[test]
fn a_frame_is_that_of_the_written_table() {
    for (version, layout) in OUTPUTS.into_iter().flat_map(|version| LAYOUTS.map(|layout| (version, layout))) {
        let (bytes, cfi) = (table(version, &[plain(16), plain(32)]), eh_frame());
        let mut merger = Merger::new(Arch::Amd64, options(version, layout, Prefer::Table)).unwrap();
        merger.push_object(&Object::new().with_sframe(&bytes), all(version), |note| panic!("{note}"));
        let mut keys = [Key(3), Key(2)].into_iter();
        let live = |_| keys.next().map(Live::new);
        merger.push_object(&Object::new().with_eh_frame(&cfi), live, |note| panic!("{note}"));
        // These stubs become several entries with one key: the header, and the repeated entries.
        merger.push_stubs(&Stubs::keyed(Key(4), StubKind::Amd64LazyPlt).with_entries(3)).unwrap();
        let sizes = [16, 32, 32, 16, 64];
        let frames: Vec<_> = (0..)
            .zip(sizes)
            .flat_map(|(key, size)| (0..size + 2).map(move |offset| (key, offset)))
            .map(|(key, offset)| (key, offset, merger.frame_at(Key(key), offset)))
            .collect();
        assert_eq!(merger.frame_at(Key(5), 0), None);
        let bytes = written(&merger.finish());
        let section = decoder::Section::parse(&bytes, Address(0x10_0000)).unwrap();
        let mut with_rows = 0;
        for (key, offset, found) in frames {
            let pc = Address(address(Key(key)).0 + u64::from(offset));
            let expected = section.lookup_frame(pc).unwrap();
            with_rows += usize::from(expected.is_some());
            match (found, expected) {
                (Some(found), Some(mut expected)) => {
                    // `frame_at` counts the start from the function, and the table counts it from the entry.
                    let entry = section.find(pc).unwrap().unwrap().start().0 - address(Key(key)).0;
                    expected.row.start.0 += entry as u32;
                    assert_eq!(found.row, expected.row, "{version:?} {layout:?} {key} {offset}");
                    assert_eq!(found.is_signal_frame, expected.is_signal_frame);
                }
                (found, expected) => assert_eq!(found, expected, "{version:?} {layout:?} {key} {offset}"),
            }
        }
        assert_eq!(with_rows as u32, sizes.iter().sum::<u32>());
    }
}

/// Functions with one key and different rows are omitted. With the same rows they are one function.
#[test]
fn an_ambiguous_function_has_no_frame() {
    let mut merger = Merger::new(Arch::Amd64, options(Version::V3, LAYOUTS[0], Prefer::Table)).unwrap();
    let bytes = table(Version::V3, &[plain(16)]);
    for _ in 0..2 {
        merger.push_object(&Object::new().with_sframe(&bytes), |_| Some(Live::new(Key(9))), |_| ());
    }
    assert_eq!(merger.frame_at(Key(9), 1).map(|frame| frame.row), Some(row(1, 16)));
    let cfi = eh_frame();
    merger.push_object(&Object::new().with_eh_frame(&cfi), |_| Some(Live::new(Key(9))), |_| ());
    assert_eq!(merger.frame_at(Key(9), 1), None);
}

/// Asks for frames between pushed functions: keys in any order, in a shard, and after absorbing the shard.
#[test]
fn functions_may_come_between_questions() {
    let options = options(Version::V3, LAYOUTS[0], Prefer::Table);
    let mut merger = Merger::new(Arch::Amd64, options).unwrap();
    let key = |number: u64| Key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bytes = table(Version::V3, &[plain(16)]);
    for number in 0..1000 {
        let mut shard = merger.shard();
        let to = if number % 3 == 0 { &mut shard } else { &mut merger };
        to.push_object(&Object::new().with_sframe(&bytes), |_| Some(Live::new(key(number))), |_| ());
        assert!(to.frame_at(key(number), 15).is_some() && to.frame_at(key(number), 16).is_none());
        merger.absorb(shard, &Serial).unwrap();
        for earlier in [number, number / 2, number / 3] {
            assert_eq!(merger.frame_at(key(earlier), 0).map(|frame| frame.row), Some(row(0, 8)), "{earlier}");
        }
        assert_eq!(merger.frame_at(key(number + 1), 0), None);
    }
}
