//! `__unwind_info` in small, where layouts differ and neighbours are not one.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, ImageOffset};
use cfipack_tests::unwind_table::lay_out;
use macho_unwind_info::UnwindInfo;

const LAYOUTS: [Layout; 3] = [Layout::Small, Layout::Lld, Layout::LdPrime];

fn table(layout: Layout, entries: &[Entry]) -> Vec<u8> {
    lay_out(Arch::Amd64, Options { layout, ..Options::default() }, entries, None, ImageOffset)
}

/// `push %rbp; mov %rsp,%rbp`.
fn frame(function: u32) -> Entry {
    Entry::new(ImageOffset(function), 0x20, Encoding(0x0100_0000))
}

/// The flag and the LSDA are of one function: neither is its neighbour's.
#[test]
fn neighbours_of_a_function_with_an_lsda() {
    let with_lsda = Entry { lsda: NonZeroU32::new(0x8000), ..frame(0x1020) };
    for layout in LAYOUTS {
        let bytes = table(layout, &[frame(0x1000), with_lsda, frame(0x1040), frame(0x1060)]);
        let section = Section::parse(&bytes).unwrap();
        let entries = section
            .entries()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.start.0, entry.encoding.0, section.lsda(&entry).unwrap().map(|lsda| lsda.0)));
        let expected =
            [(0x1000, 0x0100_0000, None), (0x1020, 0x4100_0000, Some(0x8000)), (0x1040, 0x0100_0000, None)];
        assert_eq!(entries.collect::<Vec<_>>(), expected, "{layout:?}");
    }
}

/// A linker that has discarded an LSDA has it at 0: then there is neither a record nor the flag.
#[test]
fn an_lsda_that_is_gone() {
    let with_lsda = Entry { lsda: NonZeroU32::new(0x8000), ..frame(0x1020) };
    for layout in LAYOUTS {
        let mut builder = Builder::new(Arch::Amd64, Options { layout, ..Options::default() });
        [frame(0x1000), with_lsda].into_iter().for_each(|entry| builder.push(entry));
        let moved = |offset: ImageOffset| if offset.0 == 0x8000 { ImageOffset(0) } else { offset };
        let placed = builder.finish().place(None, moved).unwrap();
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |_| unreachable!("no personality")).unwrap();
        let section = Section::parse(&bytes).unwrap();
        assert_eq!(section.all_lsdas().unwrap().count(), 0, "{layout:?}");
        let entries: Vec<_> = section.entries().map(|entry| entry.unwrap()).collect();
        assert_eq!(entries.len(), 1, "{layout:?}: they are alike now");
        assert_eq!(entries[0].encoding.0, 0x0100_0000, "{layout:?}");
    }
}

/// In DWARF mode there is no flag to tell them apart, but an LSDA's record names its entry.
#[test]
fn neighbours_of_dwarf_mode_with_an_lsda() {
    let dwarf = |function| Entry { encoding: Encoding::dwarf(Arch::Amd64, 0x18), ..frame(function) };
    let with_lsda = Entry { lsda: NonZeroU32::new(0x8000), ..dwarf(0x1020) };
    for layout in LAYOUTS {
        let bytes = table(layout, &[dwarf(0x1000), with_lsda, dwarf(0x1040), dwarf(0x1060)]);
        let section = Section::parse(&bytes).unwrap();
        let starts: Vec<_> = section.entries().map(|entry| entry.unwrap().start.0).collect();
        // Apple's linker folds none.
        let count = if layout == Layout::LdPrime { 4 } else { 3 };
        assert_eq!(starts, [0x1000, 0x1020, 0x1040, 0x1060][..count], "{layout:?}");
        let lsdas = section.all_lsdas().unwrap().map(|lsda| (lsda.function.0, lsda.lsda.0));
        assert_eq!(lsdas.collect::<Vec<_>>(), [(0x1020, 0x8000)], "{layout:?}");
    }
}

/// ld64.lld takes a last function without information to be of no length.
#[test]
fn the_end_behind_a_function_without_information() {
    let none = Entry::new(ImageOffset(0x1020), 0x20, Encoding::NONE);
    for (layout, end) in LAYOUTS.into_iter().zip([0x1040, 0x1020, 0x1040]) {
        let bytes = table(layout, &[frame(0x1000), none]);
        let index = Section::parse(&bytes).unwrap().index().last().unwrap();
        assert_eq!(index.function.0, end, "{layout:?}");
    }
}

/// Apple's linker leaves room for an index of regular pages, of 511 entries each, for the sentinel, and for one
/// more.
#[test]
fn room_in_the_index_of_ld_prime() {
    for (count, slots) in [(1, 3), (511, 3), (512, 4)] {
        // No two alike, lest they fold.
        let encoding = |number: u32| Encoding(0x0200_0000 | (number & 1) << 16);
        let entry = |number| Entry { encoding: encoding(number), ..frame(0x1000 + 0x20 * number) };
        let bytes = table(Layout::LdPrime, &(0..count).map(entry).collect::<Vec<_>>());
        let section = Section::parse(&bytes).unwrap();
        let (index_off, first) = (section.header().index_off, section.index().next().unwrap());
        // Without LSDAs pages follow at once.
        assert_eq!(first.page_off, index_off + 12 * slots, "{count}");
    }
}

/// A table of one regular page, made by hand, for code up to 0x1030.
fn regular(entries: &[(u32, u32)]) -> Vec<u8> {
    // Header: version, palette, personalities and index, each with its offset and count.
    let mut words = vec![1, 28, 0, 28, 0, 28, 2];
    // Index: the page, the sentinel.
    words.extend([0x1000, 52, 52, 0x1030, 0, 52]);
    // Kind; the entries' offset and count, of 16 bits each.
    words.extend([2, 8 | (entries.len() as u32) << 16]);
    words.extend(entries.iter().flat_map(|&(function, encoding)| [function, encoding]));
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Of entries at one address readers find the last: macho-unwind-info, and a lookup.
#[test]
fn the_last_entry_of_an_address_is_found() {
    const FRAME: u32 = 0x0100_0000;
    for encodings in [&[0, FRAME][..], &[FRAME, 0], &[0, 0, FRAME], &[FRAME, 0, FRAME], &[FRAME, FRAME, 0]] {
        let mut entries = vec![(0x1000, 0x0201_0000)];
        entries.extend(encodings.iter().map(|&encoding| (0x1010, encoding)));
        entries.push((0x1020, 0x0202_0000));
        let bytes = regular(&entries);
        let (ours, theirs) = (Section::parse(&bytes).unwrap(), UnwindInfo::parse(&bytes).unwrap());
        for pc in [0x1010, 0x1018, 0x101f] {
            let last = encodings.last().copied();
            assert_eq!(theirs.lookup(pc).unwrap().map(|function| function.opcode), last, "{encodings:x?}");
            let entry = ours.lookup(ImageOffset(pc)).unwrap();
            assert_eq!(entry.map(|entry| entry.encoding.0), last, "{encodings:x?}");
        }
    }
}
