//! Looks up PCs in tables whose numbers of pages and entries are around powers of two, where a search takes a step
//! more. The expected entries come from a walk over the input.

use cfipack_decoder::unwind_info::Section;
use cfipack_format::ImageOffset;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, Header, IndexEntry, MAX_COMPRESSED_OFFSET, PageKind, RegularPage,
};
use cfipack_testkit::random::{self, Random};

const ENCODING: u32 = 0x0100_0000;

/// Returns a table of these pages, each a list of functions. Encodings differ from function to function: compressed
/// pages have 7 common ones and 5 of their own, and in regular pages all differ.
fn table(kind: PageKind, pages: &[Vec<u32>], end: u32) -> Vec<u8> {
    let common_off = Header::SIZE as u32;
    let index_off = common_off + 7 * 4;
    let index_count = pages.len() as u32 + 1;
    let (version, personalities_off, personalities_count) = (1, 0, 0);
    let header = Header {
        version,
        common_off,
        common_count: 7,
        personalities_off,
        personalities_count,
        index_off,
        index_count,
    };
    let mut bytes = header.write().to_vec();
    bytes.extend((0..7).flat_map(|i| (ENCODING + i).to_le_bytes()));
    let lsda_off = index_off + index_count * IndexEntry::SIZE as u32;
    let mut page_bytes = Vec::new();
    for functions in pages {
        let page_off = lsda_off + page_bytes.len() as u32;
        let function = ImageOffset(functions[0]);
        bytes.extend(IndexEntry { function, page_off, lsda_off }.write());
        let entries_count = functions.len() as u16;
        match kind {
            PageKind::Regular => {
                page_bytes.extend(RegularPage { entries_off: 8, entries_count }.write());
                let words = (0..).zip(functions).flat_map(|(i, &function)| [function, ENCODING + i]);
                page_bytes.extend(words.flat_map(u32::to_le_bytes));
            }
            PageKind::Compressed => {
                let (entries_off, encodings_off, encodings_count) = (32, 12, 5);
                let header = CompressedPage { entries_off, entries_count, encodings_off, encodings_count };
                page_bytes.extend(header.write());
                page_bytes.extend((7..12).flat_map(|i| (ENCODING + i).to_le_bytes()));
                let entries = (0..).zip(functions).map(|(i, function)| {
                    CompressedEntry::new(function - functions[0], (i % 12) as u8).unwrap()
                });
                page_bytes.extend(entries.flat_map(CompressedEntry::write));
            }
        }
    }
    bytes.extend(IndexEntry { function: ImageOffset(end), page_off: 0, lsda_off }.write());
    bytes.extend(page_bytes);
    bytes
}

/// Looks up the first, the second and the last byte of every function.
fn check(kind: PageKind, pages: &[Vec<u32>], end: u32) {
    let bytes = table(kind, pages, end);
    let section = Section::parse(&bytes).unwrap();
    let lookup = |pc: u32| {
        let entry = section.lookup(ImageOffset(pc)).unwrap()?;
        Some((entry.start.0, entry.end.0, entry.encoding.0, entry.page))
    };
    assert_eq!(lookup(pages[0][0] - 1), None);
    for pc in [end, u32::MAX] {
        assert_eq!(lookup(pc), None, "{pc:#x} after the sentinel");
    }
    let starts = pages.iter().flatten().copied();
    let mut ends = starts.skip(1).chain([end]);
    for (number, functions) in (0..).zip(pages) {
        for (i, &start) in (0..).zip(functions) {
            let end = ends.next().unwrap();
            let encoding = ENCODING + if kind == PageKind::Regular { i } else { i % 12 };
            for pc in [start, start + 1, end - 1] {
                let sizes = (pages.len(), functions.len());
                assert_eq!(lookup(pc), Some((start, end, encoding, number)), "{kind:?} {sizes:?}: {pc:#x}");
            }
        }
    }
}

/// Returns pages of these sizes, with functions of 2 to 30 bytes, and the end of the last function.
fn pages(random: &mut Random, sizes: &[usize]) -> (Vec<Vec<u32>>, u32) {
    let mut at = 0x1000;
    let mut function = |_| {
        let start = at;
        at += 2 + random.below(29) as u32;
        start
    };
    let pages = sizes.iter().map(|&size| (0..size).map(&mut function).collect()).collect();
    (pages, at)
}

#[test]
fn every_size_of_a_page_and_of_the_index() {
    let (seed, _) = random::cases("lookups in tables of all sizes", 1);
    let mut random = Random::new(seed);
    let around = |power: usize| power - 2..power + 3;
    for kind in [PageKind::Regular, PageKind::Compressed] {
        for size in (1..14).chain([32, 64, 128, 256, 512, 1024, 2048, 4096].into_iter().flat_map(around)) {
            let (pages, end) = pages(&mut random, &[3, size, 1]);
            check(kind, &pages, end);
        }
        for count in (1..140).chain([256, 512, 1024].into_iter().flat_map(around)) {
            let (pages, end) = pages(&mut random, &vec![2; count]);
            check(kind, &pages, end);
        }
    }
}

/// Functions are at the highest offset that a compressed entry can have, with long functions after them. The table ends
/// at the last 32-bit address.
#[test]
fn functions_at_the_ends_of_the_ranges() {
    for few in [1, 600] {
        let page = |base: u32, last: u32| (0..few).map(|i| base + 4 * i).chain([base + last]).collect();
        let (near, far) = (MAX_COMPRESSED_OFFSET - 1, MAX_COMPRESSED_OFFSET);
        let pages: [Vec<u32>; 3] = [page(0x1000, far), page(0x0400_0000, near), page(0xfe00_0000, far)];
        check(PageKind::Compressed, &pages, u32::MAX);
        check(PageKind::Regular, &pages, u32::MAX);
    }
}
