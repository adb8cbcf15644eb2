//! Compares tables byte by byte with handmade ones, by the rules of Apple's linkers. `real_libraries` shows that real
//! libraries follow these rules.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
use cfipack_tests::unwind_table::{Table, lay_out};

fn entry(function: u32, encoding: u32) -> Entry {
    Entry::new(ImageOffset(function), 0x10, Encoding(encoding))
}

/// Returns functions of 16 bytes from 0x1000 on.
fn row(encodings: impl IntoIterator<Item = u32>) -> Vec<Entry> {
    (0x1000..).step_by(0x10).zip(encodings).map(|(function, encoding)| entry(function, encoding)).collect()
}

fn of_layout(layout: Layout, arch: Arch, entries: &[Entry]) -> Vec<u8> {
    lay_out(arch, Options::new().with_layout(layout), entries, None, ImageOffset)
}

fn ld64(eh_frame_len: u32, entries: &[Entry]) -> Vec<u8> {
    of_ld64(Layout::Ld64, eh_frame_len, entries)
}

fn of_ld64(layout: Layout, eh_frame_len: u32, entries: &[Entry]) -> Vec<u8> {
    let options = Options::new().with_layout(layout).with_eh_frame_len(eh_frame_len);
    lay_out(Arch::Amd64, options, entries, None, ImageOffset)
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// From deltalake for arm64, linked by ld-1053.12. Functions in DWARF mode without a named FDE share an encoding of the
/// page, but each has its own entry.
#[test]
fn ld_prime_has_equal_dwarf_encodings_once() {
    let bytes = of_layout(Layout::LdPrime, Arch::Aarch64, &row([0x0300_0000; 8]));
    let header = [1, 28, 0, 28, 0, 28, 2];
    let index = [0x1000, 64, 64, 0x1080, 0, 64, 0, 0, 0];
    let page = [3, 12 | 8 << 16, 44 | 1 << 16, 0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x0300_0000];
    assert_eq!(words(&bytes), [&header[..], &index, &page].concat());
}

/// From PySide6, linked by ld-1115.7.3: code without any unwind information.
#[test]
fn ld_prime_writes_a_table_of_nothing() {
    let nothing = row([0, 0, 0, 0]);
    let header = [1, 28, 0, 28, 0, 28, 2];
    let index = [0x1000, 64, 64, 0x1040, 0, 64, 0, 0, 0];
    let page = [3, 12 | 1 << 16, 16 | 1 << 16, 0, 0];
    let padding = [0];
    let bytes = of_layout(Layout::LdPrime, Arch::Amd64, &nothing);
    assert_eq!(bytes.len(), 88);
    assert_eq!(words(&bytes), [&header[..], &index, &page, &padding].concat());
    for layout in [Layout::Small, Layout::Lld] {
        assert!(of_layout(layout, Arch::Amd64, &nothing).is_empty(), "{layout:?}");
    }
    for layout in [Layout::LdPrime, Layout::Ld64, Layout::Ld64V253] {
        assert!(of_layout(layout, Arch::Amd64, &[]).is_empty(), "{layout:?}: no code");
    }
}

/// From orjson 3.13.0 for arm64, linked by ld-27037.1: entries without information stay apart, others do not. The sentinel
/// is a byte after the end.
#[test]
fn ld_of_sdk_27_keeps_neighbours_without_information_apart() {
    let frame = 0x0400_0000;
    let bytes = of_layout(Layout::LdPrime27, Arch::Aarch64, &row([0, 0, frame, frame, 0, frame]));
    let header = [1, 28, 2, 36, 0, 36, 2];
    let common = [0, frame];
    let index = [0x1000, 72, 72, 0x1061, 0, 72, 0, 0, 0];
    let page = [3, 12 | 5 << 16, 32, 0, 0x10, 0x0100_0020, 0x40, 0x0100_0050];
    assert_eq!(words(&bytes), [&header[..], &common, &index, &page].concat());
}

/// From esy 0.9.2 for arm64, linked by ld-1053.12: OCaml marks the end of a module's code with a symbol (`code_end`) at the
/// next function. Its entry comes first. Without the entry the two functions around it were one.
#[test]
fn ld_prime_keeps_an_empty_entry_before_a_function() {
    let frame = 0x0400_0000;
    let mark = Entry::new(ImageOffset(0x1010), 0, Encoding::NONE);
    let entries = [entry(0x1000, frame), mark, entry(0x1010, frame), Entry { length: 0, ..entry(0x1020, 0) }];
    let bytes = of_layout(Layout::LdPrime, Arch::Aarch64, &entries);
    let header = [1, 28, 2, 36, 0, 36, 2];
    let common = [0, frame];
    let index = [0x1000, 72, 72, 0x1020, 0, 72, 0, 0, 0];
    let page = [3, 12 | 4 << 16, 28, 0x0100_0000, 0x10, 0x0100_0010, 0x20, 0];
    assert_eq!(words(&bytes), [&header[..], &common, &index, &page].concat());
    let section = Section::parse(&bytes).unwrap();
    assert_eq!(section.lookup(ImageOffset(0x1010)).unwrap().unwrap().encoding.0, frame);
}

/// From OpenTUI 0.4.5 for arm64, which Zig's linker linked: of two encodings that are used equally often the first comes
/// first, a page's own encodings come before its entries, and entries in DWARF mode have the LSDA flag.
#[test]
fn zig_puts_a_pages_own_encodings_first() {
    let (high, low, once) = (0x0400_0003, 0x0400_0001, 0x0400_000f);
    let mut entries = row([high, low, once, 0x0300_0018, high, low]);
    entries[3].lsda = LsdaKey::at(ImageOffset(0x9000));
    entries[3].personality = NonZeroU32::new(0x8000);
    let bytes = of_layout(Layout::Zig, Arch::Aarch64, &entries);
    let header = [1, 28, 2, 36, 1, 40, 2];
    let common = [high, low];
    let personalities = [0x8000];
    let index = [0x1000, 72, 64, 0x1060, 0, 72];
    let lsdas = [0x1030, 0x9000];
    let entries = [0, 0x0100_0010, 0x0200_0020, 0x0300_0030, 0x40, 0x0100_0050];
    let page = [3, 20 | 6 << 16, 12 | 2 << 16, once, 0x5300_0018];
    let mut expected = [&header[..], &common, &personalities, &index, &lsdas, &page, &entries].concat();
    expected.resize((72 + 4096) / 4, 0);
    assert_eq!(words(&bytes), expected);
    assert!(of_layout(Layout::Zig, Arch::Aarch64, &row([0, 0])).is_empty());
}

/// An encoding is common if it is used twice, by functions that do not fold into a neighbour. DWARF mode is never common.
#[test]
fn common_encodings_of_apples_linkers() {
    let (often, high, low, once, dwarf) = (0x0109_0000, 0x0107_0000, 0x0105_0000, 0x0101_0000, 0x0400_0018);
    let folded = 0x0103_0000;
    let encodings =
        [high, often, low, often, once, dwarf, often, dwarf, low, dwarf, high, dwarf, folded, folded];
    for layout in [Layout::LdPrime, Layout::Ld64, Layout::Ld64V253] {
        let table = Table::read(&of_layout(layout, Arch::Amd64, &row(encodings)));
        assert_eq!(table.common, [often, low, high].map(Encoding), "{layout:?}");
        // 128 encodings are used twice each. There is no room for the largest.
        let many = (0..256).map(|number| 0x0200_0000 | (127 - number % 128) << 16);
        let table = Table::read(&of_layout(layout, Arch::Amd64, &row(many)));
        let expected: Vec<_> = (0..127).map(|number| Encoding(0x0200_0000 | number << 16)).collect();
        assert_eq!(table.common, expected, "{layout:?}");
        assert_eq!(table.pages[0].2, 1, "{layout:?}");
    }
}

/// The largest table that can be: the palette is full, and every page is regular but for the order of its entries.
#[test]
fn the_room_that_ld_prime_needs() {
    for pages in [1, 2, 5] {
        for last in [1, 2, 200, 255, 511] {
            let count = 511 * (pages - 1) + last;
            // 127 encodings are used twice. The others are used by one function each.
            let twice = (0..254).map(|number| 0x0200_0000 | (number % 127) << 8);
            let encodings = twice.chain((0..).map(|number| 0x0100_0000 | number));
            let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(Layout::LdPrime)).unwrap();
            row(encodings.take(count)).into_iter().for_each(|entry| builder.push(entry));
            let section = builder.finish();
            let (len, most) = (
                section.place(None, Key::image_offset, LsdaKey::image_offset).unwrap().len(),
                section.max_len(),
            );
            assert!(len <= most, "{count} functions: {len} bytes, {most} promised");
            // A single page with few functions is compressed, because encodings that are used twice cost less there.
            let is_tight = pages > 1 || last == 511;
            assert!(!is_tight || most <= len + 16, "{count} functions: {len} bytes, {most} promised");
        }
    }
}

const A: u32 = 0x0100_0000;
const B: u32 = 0x0201_0000;

/// Returns `A` and `B` by turns.
fn by_turns(count: usize) -> impl Iterator<Item = u32> {
    [A, B].into_iter().cycle().take(count)
}

/// Size of an `__eh_frame` that leaves 128 bytes for the last page: 29 words after its header.
const LEAVES_128: u32 = 5 * 4096 - 128;

/// Pages are filled from the highest address down. The last page ends at the end of a page of memory.
#[test]
fn ld64_fills_pages_from_the_end() {
    let bytes = ld64(LEAVES_128, &row(by_turns(40)));
    let header = [1, 28, 2, 36, 0, 36, 3];
    let common = [A, B];
    let first_of_last = 0x1000 + 0x10 * 11;
    let index = [0x1000, 72, 72, first_of_last, 4096, 72, 0x1000 + 0x10 * 40 + 1, 0, 72];
    let at = |number: u32| ((number % 2) << 24) | (0x10 * number);
    let first: Vec<u32> = [3, 12 | 11 << 16, 56].into_iter().chain((0..11).map(at)).collect();
    let hole = [0; (4096 - 128) / 4];
    let last: Vec<u32> =
        [3, 12 | 29 << 16, 128].into_iter().chain((0..29).map(|number: u32| at(number) ^ 1 << 24)).collect();
    assert_eq!(words(&bytes), [&header[..], &common, &index, &first, &hole, &last].concat());
    // Without `__eh_frame`, or if it leaves less than 128 bytes, the last page has 4096 bytes.
    for eh_frame_len in [0, 4096, LEAVES_128 + 1, LEAVES_128 + 127] {
        assert_eq!(Table::read(&ld64(eh_frame_len, &row(by_turns(40)))).pages.len(), 1, "{eh_frame_len}");
    }
}

/// If an entry does not fit into the page, its encoding stays in the palette unused. In real tables one or two pages
/// have such encodings.
#[test]
fn ld64_leaves_encodings_in_a_page_that_was_full() {
    // In DWARF mode the FDE's offset is set last, for existing entries. Until then the entry's number distinguishes
    // encodings, also those that stay unused.
    let own = |number: u32| 0x0205_0000 | number;
    let dwarf = |number: u32| 0x0400_0018 | number << 12;
    let pages = |own: fn(u32) -> u32, before: u32, count: usize| {
        let entries: Vec<_> = by_turns(3).chain((0..before).map(own)).chain(by_turns(count)).collect();
        let bytes = ld64(LEAVES_128, &row(entries.iter().copied()));
        let table = Table::read(&bytes);
        let read: Vec<_> = table.entries.iter().map(|entry| entry.encoding.0).collect();
        assert_eq!(read, entries);
        let words = words(&bytes);
        (table.pages, words[words.len() - 2], words[words.len() - 1])
    };
    let compressed = |count, locals| (PageKind::Compressed, count, locals);
    // One word is free. The next entry needs two, and only the entry before it is refused.
    let (found, second, last) = pages(own, 2, 28);
    assert_eq!((found, second, last), (vec![compressed(5, 2), compressed(28, 2)], own(1), own(0)));
    let (found, second, last) = pages(dwarf, 2, 28);
    assert_eq!((found, second, last), (vec![compressed(5, 2), compressed(28, 2)], 0x0400_0004, 0x0400_0003));
    // No word is free. The next entry's encoding takes the word of the last entry.
    let (found, _, last) = pages(own, 1, 29);
    assert_eq!((found, last), (vec![compressed(5, 1), compressed(28, 1)], own(0)));
}

/// There are 30 entries for 29 words, and no entry before the last accepted one can be refused.
#[test]
fn ld64_exceeds_its_first_page() {
    let bytes = ld64(LEAVES_128, &row(by_turns(30)));
    assert_eq!(Table::read(&bytes).pages, [(PageKind::Compressed, 30, 0)]);
    assert_eq!(bytes.len(), 28 + 8 + 24 + 132);
}

/// If half an entry with its own encoding would fit, the page is longer by that half.
#[test]
fn ld64_pads_what_is_nearly_full() {
    for (count, size) in [(27, 12 + 27 * 4), (28, 128), (29, 128)] {
        let bytes = ld64(LEAVES_128, &row(by_turns(count)));
        assert_eq!(bytes.len(), 28 + 8 + 24 + size, "{count}");
        assert_eq!(Table::read(&bytes).pages, [(PageKind::Compressed, count, 0)]);
    }
}

/// Up to version 253.3 a page has one word less than it has room for, and 4 bytes of padding.
#[test]
fn old_ld64_leaves_a_word_of_each_page() {
    let old = |entries: &[Entry]| of_ld64(Layout::Ld64V253, LEAVES_128, entries);
    let compressed = |count, locals| (PageKind::Compressed, count, locals);
    // 28 entries fill the page of 29 words. The 29th entry starts another page. Nothing follows it up to the last page,
    // which is shorter than 4096 bytes.
    for (count, pages, size) in
        [(27, vec![27], 12 + 4 * 27), (28, vec![28], 128), (29, vec![1, 28], 16 + 3968 + 128)]
    {
        let bytes = old(&row(by_turns(count)));
        let expected: Vec<_> = pages.iter().map(|&count| compressed(count, 0)).collect();
        assert_eq!(Table::read(&bytes).pages, expected, "{count}");
        let index = 12 * (pages.len() + 1);
        assert_eq!(bytes.len(), 28 + 8 + index + size, "{count}");
    }
    // The entry that would take the last words has already put its encoding into the palette, unused.
    let own = |number: u32| 0x0205_0000 | number;
    let entries = row(by_turns(3).chain((0..2).map(own)).chain(by_turns(27)));
    let bytes = old(&entries);
    assert_eq!(Table::read(&bytes).pages, [compressed(5, 2), compressed(27, 1)]);
    let words = words(&bytes);
    assert_eq!(words[words.len() - 2..], [own(1), 0], "palette of the last page, and padding");
    // A full page has 1020 words, and is not regular.
    let bytes = of_ld64(Layout::Ld64V253, 0, &row(by_turns(1021)));
    assert_eq!(Table::read(&bytes).pages, [compressed(1, 0), compressed(1020, 0)]);
    assert_eq!(Table::read(&ld64(0, &row(by_turns(1021)))).pages, [compressed(1021, 0)]);
}

/// ld64 counts down from the last entry, by up to 0xffff00. It makes short pages regular, but not the page in which it
/// has reached the first entry of all.
#[test]
fn the_reach_of_a_page_of_ld64() {
    let pages = |far: u32, gap: u32| {
        let mut entries = row(by_turns(far as usize + 10));
        let distance = 0x10 * 10;
        entries[far as usize..].iter_mut().for_each(|entry| entry.function.0 += u64::from(gap - distance));
        Table::read(&ld64(LEAVES_128, &entries)).pages
    };
    let compressed = |count| (PageKind::Compressed, count, 0);
    assert_eq!(pages(1, 0xff_ff00), [compressed(11)]);
    assert_eq!(pages(1, 0xff_ff01), [compressed(1), compressed(10)]);
    assert_eq!(pages(2, 0xff_ff01), [(PageKind::Regular, 12, 0)]);
    // A regular page of 128 bytes has as many entries.
    assert_eq!(pages(8, 0xff_ff01), [compressed(3), (PageKind::Regular, 15, 0)]);
}

/// Functions in DWARF mode do not fold, and each has its own encoding. The encoding has the personality but not the
/// LSDA flag, although there is an LSDA record.
#[test]
fn dwarf_mode_of_ld64() {
    let mut entries = row([0x0400_0018; 3]);
    entries[1].personality = NonZeroU32::new(9);
    entries[1].lsda = LsdaKey::new(0x8000);
    let bytes = ld64(0, &entries);
    let header = [1, 28, 0, 28, 1, 32, 2];
    let personality = [9];
    let index = [0x1000, 64, 56, 0x1031, 0, 64];
    let lsda = [0x1010, 0x8000];
    let page = [3, 12 | 3 << 16, 24 | 3 << 16, 2 << 24, 1 << 24 | 0x10, 0x20];
    let own = [0x0400_0018, 0x1400_0018, 0x0400_0018];
    assert_eq!(words(&bytes), [&header[..], &personality, &index, &lsda, &page, &own].concat());
}
