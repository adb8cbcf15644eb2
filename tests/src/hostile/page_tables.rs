//! Makes `__unwind_info` sections.

use super::{Input, Shape};

/// Shapes of `__unwind_info`.
pub const PAGE_TABLES: &[Shape] = &[
    ("LSDA ranges that alternate", |n| {
        let parts = Parts { pages: n, lsdas: 4 * n, ..Parts::default() };
        page_table(parts, |page| if page % 2 == 0 { 0 } else { 4 * n })
    }),
    ("all LSDAs in each page", |n| {
        page_table(
            Parts { pages: n, lsdas: 4 * n, ..Parts::default() },
            |page| if page == n { 4 * n } else { 0 },
        )
    }),
    ("LSDAs in one page", |n| {
        page_table(Parts { pages: 1, lsdas: 8 * n, ..Parts::default() }, |page| 8 * n * page)
    }),
    ("LSDA ranges that descend", |n| {
        page_table(Parts { pages: n, lsdas: 4 * n, ..Parts::default() }, |page| 4 * (n - page))
    }),
    ("pages at one place", |n| {
        page_table(Parts { pages: n, entries: 500, one_place: true, ..Parts::default() }, |_| 0)
    }),
    ("pages without entries", |n| page_table(Parts { pages: n, entries: 0, ..Parts::default() }, |_| 0)),
    ("pages of one entry", |n| page_table(Parts { pages: n, ..Parts::default() }, |_| 0)),
    ("a page of many entries", |n| {
        page_table(Parts { pages: 1, entries: 4 * n as u16, ..Parts::default() }, |_| 0)
    }),
    ("entries of one start", |n| {
        page_table(Parts { pages: 1, entries: 4 * n as u16, step: 0, ..Parts::default() }, |_| 0)
    }),
    ("common encodings", |n| page_table(Parts { pages: n, common: 8 * n, ..Parts::default() }, |_| 0)),
    ("personalities", |n| page_table(Parts { pages: n, personalities: 8 * n, ..Parts::default() }, |_| 0)),
    ("encodings that mean nothing", |n| {
        page_table(Parts { pages: n, entries: 8, encoding: 0x0f7f_ffff, ..Parts::default() }, |_| 0)
    }),
    ("entries in DWARF mode", |n| {
        page_table(Parts { pages: n, entries: 8, encoding: 0x0400_0000, ..Parts::default() }, |_| 0)
    }),
];

/// The parts of a table.
struct Parts {
    pages: usize,
    /// The number of entries in each page.
    entries: u16,
    /// Bytes of code between starts of entries.
    step: u32,
    /// The encoding of each entry.
    encoding: u32,
    one_place: bool,
    lsdas: usize,
    common: usize,
    personalities: usize,
}

impl Default for Parts {
    fn default() -> Self {
        // Mode "frame pointer", without saved registers.
        let encoding = 0x0100_0000;
        Self {
            pages: 1,
            entries: 1,
            step: 4,
            encoding,
            one_place: false,
            lsdas: 0,
            common: 0,
            personalities: 0,
        }
    }
}

/// Makes a table of regular pages. `lsda` gives the first LSDA record of each page, and of the sentinel.
fn page_table(parts: Parts, lsda: impl Fn(usize) -> usize) -> Input {
    let Parts { pages, entries, step, encoding, one_place, lsdas, common, personalities } = parts;
    let common_off = 28;
    let personalities_off = common_off + 4 * common;
    let index_off = personalities_off + 4 * personalities;
    let lsdas_off = index_off + 12 * (pages + 1);
    let pages_off = lsdas_off + 8 * lsdas;
    let page_size = 8 + 8 * usize::from(entries);
    let code_size = (step * u32::from(entries)).max(4);
    let mut words = vec![1, common_off, common, personalities_off, personalities, index_off, pages + 1];
    words.extend(vec![0x0100_0000; common]);
    words.extend(0..personalities);
    for page in 0..=pages {
        let place = pages_off + if one_place { 0 } else { page_size * page };
        words.extend([
            0x1000 + page * code_size as usize,
            if page == pages { 0 } else { place },
            lsdas_off + 8 * lsda(page),
        ]);
    }
    words.extend((0..lsdas).flat_map(|i| [0x1000 + 4 * i, 0x10_0000]));
    let mut bytes: Vec<u8> = words.iter().flat_map(|&word| (word as u32).to_le_bytes()).collect();
    for page in 0..if one_place { 1 } else { pages as u32 } {
        bytes.extend([2_u32, 8 | u32::from(entries) << 16].map(u32::to_le_bytes).as_flattened());
        for entry in 0..u32::from(entries) {
            let function = 0x1000 + page * code_size + entry * step;
            bytes.extend([function, encoding].map(u32::to_le_bytes).as_flattened());
        }
    }
    Input::PageTable(bytes)
}
