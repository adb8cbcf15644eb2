//! Tests small `__unwind_info` tables where layouts differ, or neighbours must stay apart.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::UnsupportedFormat;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
use cfipack_tests::unwind_table::{Table, lay_out};
use macho_unwind_info::UnwindInfo;

fn table(layout: Layout, entries: &[Entry]) -> Vec<u8> {
    let options = Options::new().with_layout(layout).with_keep_dwarf_lsda(true);
    lay_out(Arch::Amd64, options, entries, None, ImageOffset)
}

/// `push %rbp; mov %rsp,%rbp`.
fn frame(function: u32) -> Entry {
    Entry::new(ImageOffset(function), 0x20, Encoding(0x0100_0000))
}

/// The LSDA and its flag belong to one function. Its neighbours have neither.
#[test]
fn neighbours_of_a_function_with_an_lsda() {
    let with_lsda = Entry { lsda: LsdaKey::at(ImageOffset(0x8000)), ..frame(0x1020) };
    for layout in Layout::ALL {
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

/// A linker that has discarded an LSDA gives it address 0. Then there is neither record nor flag.
#[test]
fn a_missing_lsda() {
    let with_lsda = Entry { lsda: LsdaKey::at(ImageOffset(0x8000)), ..frame(0x1020) };
    for layout in Layout::ALL {
        let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap();
        [frame(0x1000), with_lsda].into_iter().for_each(|entry| builder.push(entry));
        let moved = |offset: ImageOffset| if offset.0 == 0x8000 { ImageOffset(0) } else { offset };
        let placed =
            builder.finish().place(None, Key::image_offset, |lsda| moved(lsda.image_offset())).unwrap();
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |_| unreachable!("no personality")).unwrap();
        let section = Section::parse(&bytes).unwrap();
        assert_eq!(section.all_lsdas().unwrap().count(), 0, "{layout:?}");
        let entries: Vec<_> = section.entries().map(|entry| entry.unwrap()).collect();
        assert_eq!(entries.len(), 1, "{layout:?}: they are equal now");
        assert_eq!(entries[0].encoding.0, 0x0100_0000, "{layout:?}");
    }
}

/// In DWARF mode no flag distinguishes neighbours, but the record of an LSDA names its entry.
#[test]
fn neighbours_of_dwarf_mode_with_an_lsda() {
    let dwarf = |function| Entry { encoding: Encoding::dwarf(Arch::Amd64, 0x18), ..frame(function) };
    let with_lsda = Entry { lsda: LsdaKey::at(ImageOffset(0x8000)), ..dwarf(0x1020) };
    for layout in Layout::ALL {
        let bytes = table(layout, &[dwarf(0x1000), with_lsda, dwarf(0x1040), dwarf(0x1060)]);
        let section = Section::parse(&bytes).unwrap();
        let starts: Vec<_> = section.entries().map(|entry| entry.unwrap().start.0).collect();
        // Apple's linkers merge no entries in DWARF mode.
        let count = if matches!(layout, Layout::Small | Layout::Lld) { 3 } else { 4 };
        assert_eq!(starts, [0x1000, 0x1020, 0x1040, 0x1060][..count], "{layout:?}");
        let lsdas = section.all_lsdas().unwrap().map(|lsda| (lsda.function.0, lsda.lsda.0));
        assert_eq!(lsdas.collect::<Vec<_>>(), [(0x1020, 0x8000)], "{layout:?}");
    }
}

/// ld64.lld treats a last function without information as empty. ld64 ends one byte after the code.
#[test]
fn the_end_after_a_function_without_information() {
    let none = Entry::new(ImageOffset(0x1020), 0x20, Encoding::NONE);
    for (layout, end) in Layout::ALL.into_iter().zip([0x1040, 0x1020, 0x1040, 0x1041]) {
        let bytes = table(layout, &[frame(0x1000), none]);
        let index = Section::parse(&bytes).unwrap().index().last().unwrap();
        assert_eq!(index.function.0, end, "{layout:?}");
    }
}

/// Apple's linker leaves room in the index for regular pages of 511 entries, for the sentinel, and for one more.
#[test]
fn room_in_the_index_of_ld_prime() {
    for (count, slots) in [(1, 3), (511, 3), (512, 4)] {
        // Neighbours differ, so that none are merged.
        let encoding = |number: u32| Encoding(0x0200_0000 | (number & 1) << 16);
        let entry = |number| Entry { encoding: encoding(number), ..frame(0x1000 + 0x20 * number) };
        let bytes = table(Layout::LdPrime, &(0..count).map(entry).collect::<Vec<_>>());
        let section = Section::parse(&bytes).unwrap();
        let (index_off, first) = (section.header().index_off, section.index().next().unwrap());
        // Without LSDAs, pages follow the index at once.
        assert_eq!(first.page_off, index_off + 12 * slots, "{count}");
    }
}

/// Tests which pages 512 functions fill. With 511 entries a page can stay compressed. ld64.lld allows no offset of
/// 0xffffff: `l_3_…_and_257th` and `l_4_gap_512th_…` in `corpora/compact-unwind` are its tables.
#[test]
fn pages_of_511_functions() {
    const COMPRESSED: PageKind = PageKind::Compressed;
    // Encodings alternate. `distance` is how far the last function is from the first.
    let far = |layout, distance: u32| {
        let alike = |number: u32| Encoding(0x0200_0000 | (number & 1) << 12);
        let mut entries: Vec<_> =
            (0..512).map(|number| Entry { encoding: alike(number), ..frame(0x1000 + number) }).collect();
        entries[511].function = ImageOffset(0x1000 + distance).into();
        Table::read(&table(layout, &entries)).pages
    };
    let (one, two) = ([(COMPRESSED, 512, 0)], [(COMPRESSED, 511, 0), (COMPRESSED, 1, 0)]);
    assert_eq!(far(Layout::Lld, 0xff_fffe), one);
    assert_eq!(far(Layout::Lld, 0xff_ffff), two);
    assert_eq!(far(Layout::LdPrime, 0xff_ffff), one);
    assert_eq!(far(Layout::LdPrime, 0x100_0000), two);
    // The function with the 257th encoding has this many functions before it.
    let full = |before: u32| {
        let number = |at: u32| if at == before { 256 } else { at % 256 };
        let entry = |at| Entry { encoding: Encoding(0x0200_0000 | number(at) << 12), ..frame(0x1000 + at) };
        let pages = Table::read(&table(Layout::Lld, &(0..512).map(entry).collect::<Vec<_>>())).pages;
        pages[0]
    };
    assert_eq!(full(511), (COMPRESSED, 511, 129));
    assert_eq!(full(510), (PageKind::Regular, 511, 0));
}

/// A function with a fourth personality falls back to its FDE. The mark of a part that is not the function's start
/// stays. The encoding and the LSDA flag go if the layout had them.
#[test]
fn remains_of_a_fourth_personality() {
    let part = 0x8000_0000;
    for layout in Layout::ALL {
        let is_flagged = matches!(layout, Layout::LdPrime | Layout::LdPrime27 | Layout::Zig);
        let lsda = if is_flagged { 0x4000_0000 } else { 0 };
        let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap();
        for number in 1..=4 {
            // The fourth personality is used least. An object's row may have a number where no number should be.
            for function in 0..5 - number {
                builder.push(Entry {
                    encoding: Encoding(0xa104_0001),
                    personality: NonZeroU32::new(number),
                    lsda: LsdaKey::at(ImageOffset(0x8000 + number)),
                    fde: NonZeroU32::new(0x18),
                    ..frame(0x1000 * number + 0x20 * function)
                });
            }
        }
        let section = builder.finish();
        assert_eq!(section.warnings().len(), 1, "{layout:?}");
        let placed = section.place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |number| ImageOffset(number.get())).unwrap();
        let section = Section::parse(&bytes).unwrap();
        let encodings: Vec<_> = section.entries().map(|entry| entry.unwrap().encoding.0).collect();
        assert_eq!(encodings[9], part | lsda | 0x0400_0018, "{layout:?}");
        // ld64.lld combines the stray number with the personality's number by "or".
        let stray = if layout == Layout::Lld { 0x2000_0000 } else { 0 };
        assert_eq!(encodings[0], 0xd104_0001 | stray, "{layout:?}");
    }
}

/// A row without a personality may have a personality's number. ld64.lld keeps the number (`l_9_persbit_in_obj`),
/// except in DWARF mode, where it makes the encoding anew from the FDE.
#[test]
fn a_number_without_a_personality() {
    for (layout, kept) in Layout::ALL.into_iter().zip([0, 0x1000_0000, 0, 0]) {
        let entries = [0x1100_0000, 0x1400_0018].map(Encoding);
        let entries = [0x1000, 0x1020].into_iter().zip(entries);
        let entries: Vec<_> = entries.map(|(at, encoding)| Entry { encoding, ..frame(at) }).collect();
        let bytes = table(layout, &entries);
        let section = Section::parse(&bytes).unwrap();
        let encodings: Vec<_> = section.entries().map(|entry| entry.unwrap().encoding.0).collect();
        assert_eq!(encodings, [0x0100_0000 | kept, 0x0400_0018], "{layout:?}");
    }
}

/// Makes a table of one regular page by hand, for code up to 0x1030.
fn regular(entries: &[(u32, u32)]) -> Vec<u8> {
    // The header: version, then offset and count of palette, personalities and index.
    let mut words = vec![1, 28, 0, 28, 0, 28, 2];
    // The index: the page and the sentinel.
    words.extend([0x1000, 52, 52, 0x1030, 0, 52]);
    // The page: its kind, then offset and count of its entries in 16 bits each.
    words.extend([2, 8 | (entries.len() as u32) << 16]);
    words.extend(entries.iter().flat_map(|&(function, encoding)| [function, encoding]));
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// If several entries have one address, readers find the last: macho-unwind-info, and our lookup.
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

/// Apple's `compact_unwind_encoding.h` has encodings for four architectures. Other architectures are refused.
#[test]
fn a_builder_is_for_an_architecture_of_the_format() {
    for arch in [Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32] {
        assert!(Builder::new(arch, Options::default()).is_ok(), "{arch}");
    }
    for arch in [Arch::S390x, Arch::Aarch64Be] {
        assert_eq!(
            Builder::new(arch, Options::default()).map(|_| ()).unwrap_err(),
            UnsupportedFormat::Arch { arch, format: "__unwind_info" }
        );
    }
}

/// Keys need not be offsets, and a function and an LSDA may have equal keys.
#[test]
fn keys_of_functions_and_of_lsdas() {
    let number = |at: u64| 0xdead_0000_0000_0000 | at;
    for layout in Layout::ALL {
        let options = Options::new().with_layout(layout);
        let [mut offsets, mut keys] = [(); 2].map(|()| Builder::new(Arch::Amd64, options).unwrap());
        for at in 1..700_u32 {
            let encoding = Encoding(0x0100_0000 | (at % 7));
            let entry = Entry::new(ImageOffset(0x100 * at), 0x100, encoding);
            offsets.push(Entry { lsda: LsdaKey::at(ImageOffset(0x10_0000 + 4 * at)), ..entry });
            let at = number(at.into());
            keys.push(Entry { lsda: LsdaKey::new(at), ..Entry::new(Key(at), 0x100, encoding) });
        }
        let [offsets, keys] = [offsets, keys].map(Builder::finish);
        let expected = offsets.place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
        let lsda_at = |key: LsdaKey| ImageOffset(0x10_0000 + 4 * key.0.get() as u32);
        let found = keys.place(None, |key: Key| ImageOffset(0x100 * key.0 as u32), lsda_at).unwrap();
        let [expected, found] = [expected, found].map(|placed| {
            let mut bytes = vec![0; placed.len()];
            placed.write(&mut bytes, |_| unreachable!("no entry has a personality")).unwrap();
            bytes
        });
        assert!(!found.is_empty() && expected == found, "{layout:?}");
    }
}
