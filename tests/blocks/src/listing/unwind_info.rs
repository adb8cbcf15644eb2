//! Lists an `__unwind_info`. It follows the layout of its arrays: no code of cfipack reads the table.

use super::Listing;

pub fn listing(bytes: &[u8]) -> String {
    let mut listing = Listing::new(bytes);
    listing.heading("header");
    listing.field(4, |version, _| format!("version {version}"));
    listing.field(4, |offset, _| format!("common encodings at {offset:#x}"));
    let commons = listing.field(4, |number, _| format!("number of common encodings: {number}"));
    listing.field(4, |offset, _| format!("personalities at {offset:#x}"));
    let personalities = listing.field(4, |number, _| format!("number of personalities: {number}"));
    listing.field(4, |offset, _| format!("index at {offset:#x}"));
    let num_entries = listing.field(4, |number, _| format!("number of index entries: {number}"));
    assert_eq!(commons, 0, "the pages show tables without common encodings");
    if personalities > 0 {
        listing.heading("personalities");
    }
    for number in 1..=personalities {
        listing.field(4, |slot, _| format!("personality {number}: its pointer at {slot:#x}"));
    }
    let pages = index(&mut listing, num_entries);
    for (number, (base, at)) in pages.into_iter().enumerate() {
        assert_eq!(listing.offset as u64, at);
        page(&mut listing, number, base);
    }
    listing.finish()
}

/// Lists the index and the LSDA records after it. Returns each page's first function and offset.
fn index(listing: &mut Listing<'_>, num_entries: u64) -> Vec<(u64, u64)> {
    listing.heading("index");
    let mut pages = Vec::new();
    let mut lsdas = Vec::new();
    for entry in 0..num_entries {
        let is_last = entry + 1 == num_entries;
        let kind = if is_last { "sentinel, code ends at" } else { "first function" };
        let function = listing.field(4, |function, _| format!("entry {entry}: {kind} {function:#x}"));
        let page = listing.field(4, |at, _| {
            assert_eq!(at == 0, is_last);
            if is_last { "  no page".into() } else { format!("  page at {at:#x}") }
        });
        lsdas.push(
            listing.field(4, |at, _| {
                format!("  LSDA records {} {at:#x}", if is_last { "end at" } else { "from" })
            }),
        );
        if !is_last {
            pages.push((function, page));
        }
    }
    let end = *lsdas.last().unwrap() as usize;
    if listing.offset < end {
        listing.heading("LSDA records");
    }
    while listing.offset < end {
        listing.field(4, |function, _| format!("function {function:#x}"));
        listing.field(4, |lsda, _| format!("  LSDA at {lsda:#x}"));
    }
    pages
}

fn page(listing: &mut Listing<'_>, number: usize, base: u64) {
    let page = listing.offset as u64;
    let is_compressed = listing.number_at(listing.offset, 4) == 3;
    listing.heading(&format!("page {number}"));
    listing
        .field(4, |kind, _| format!("kind {kind}: {}", if is_compressed { "compressed" } else { "regular" }));
    listing.field(2, |at, _| format!("entries at {page:#x} + {at:#x} = {:#x}", page + at));
    let num_entries = listing.field(2, |number, _| format!("number of entries: {number}"));
    if !is_compressed {
        for _ in 0..num_entries {
            listing.field(4, |function, _| format!("function {function:#x}"));
            listing.field(4, |encoding, _| format!("  encoding {encoding:#010x}"));
        }
        return;
    }
    listing.field(2, |at, _| format!("page's encodings at {page:#x} + {at:#x} = {:#x}", page + at));
    let encodings = listing.field(2, |number, _| format!("number of the page's encodings: {number}"));
    for _ in 0..num_entries {
        listing.field(4, |entry, _| {
            let (encoding, offset) = (entry >> 24, entry & 0xff_ffff);
            format!("function {base:#x} + {offset:#x} = {:#x}, encoding {encoding}", base + offset)
        });
    }
    for number in 0..encodings {
        listing.field(4, |encoding, _| format!("encoding {number}: {encoding:#010x}"));
    }
}
