//! Lists a `.sframe` of version 3 for x86-64 at address 0. It follows the specification: no code of cfipack reads the
//! table.

use super::Listing;

/// Bytes of the header. The FDE index starts after them.
const HEADER: u64 = 0x1c;

pub fn listing(bytes: &[u8]) -> String {
    let mut listing = Listing::new(bytes);
    let (num_fdes, fres) = header(&mut listing);
    let functions: Vec<_> = (0..num_fdes).map(|entry| index_entry(&mut listing, entry, fres)).collect();
    for (entry, start) in functions.into_iter().enumerate() {
        block(&mut listing, entry, start);
    }
    listing.finish()
}

/// Lists the header. Returns the number of FDEs, and the offset of the FREs.
fn header(listing: &mut Listing<'_>) -> (u64, u64) {
    listing.heading("header");
    listing.field(2, |magic, _| format!("magic {magic:#x}: little-endian"));
    listing.field(1, |version, _| format!("version {version}"));
    listing.field(1, |flags, _| {
        assert_eq!(flags, 5);
        "flags: 1 sorted by start, 4 starts count from their field".into()
    });
    listing.field(1, |abi, _| {
        assert_eq!(abi, 3);
        "3: AMD64, little-endian".into()
    });
    listing.field(1, |offset, _| {
        assert_eq!(offset, 0);
        "no fixed place of the frame pointer".into()
    });
    listing.field(1, |offset, _| format!("fixed place of the return address: CFA{}", offset as u8 as i8));
    listing.field(1, |length, _| format!("bytes of an auxiliary header: {length}"));
    let num_fdes = listing.field(4, |number, _| format!("number of FDEs: {number}"));
    listing.field(4, |number, _| format!("number of FREs: {number}"));
    listing.field(4, |length, _| format!("bytes of attributes and FREs: {length}"));
    listing.field(4, |offset, _| format!("FDE index at 0x1c + {offset:#x} = {:#x}", HEADER + offset));
    let fres = listing
        .field(4, |offset, _| format!("attributes and FREs at 0x1c + {offset:#x} = {:#x}", HEADER + offset));
    (num_fdes, HEADER + fres)
}

/// Lists an index entry. Returns the function's address.
fn index_entry(listing: &mut Listing<'_>, entry: u64, fres: u64) -> u64 {
    listing.heading(&format!("FDE index, entry {entry}"));
    let field = listing.offset as u64;
    let distance = listing.field(8, |distance, field| {
        format!("start: {field:#x} + {distance:#x} = {:#x}", field as u64 + distance)
    });
    listing.field(4, |size, _| format!("size: {size} bytes of code"));
    listing.field(4, |offset, _| format!("attribute at {fres:#x} + {offset:#x} = {:#x}", fres + offset));
    field + distance
}

/// Lists a function's attribute and FREs.
fn block(listing: &mut Listing<'_>, entry: usize, start: u64) {
    listing.heading(&format!("attribute and FREs of entry {entry}"));
    let num_fres = listing.field(2, |number, _| format!("number of FREs: {number}"));
    listing.field(1, |info, _| {
        assert_eq!(info, 0);
        "info: starts of 1 byte, offsets from the function's start".into()
    });
    listing.field(1, |info, _| {
        assert_eq!(info, 0);
        "info2: default FDE".into()
    });
    listing.field(1, |size, _| format!("size of a repeated piece of code: {size}"));
    for row in 0..num_fres {
        listing
            .field(1, |offset, _| format!("FRE {row} from {start:#x} + {offset:#x} = {:#x}", start + offset));
        let base = |info| if info & 1 == 1 { "rsp" } else { "rbp" };
        let info = listing.field(1, |info, _| {
            assert_eq!(info >> 5, 0, "words of one byte, return address not signed");
            let words = info >> 1 & 15;
            format!(
                "  info: CFA from {}, {words} word{} of 1 byte",
                base(info),
                if words == 1 { "" } else { "s" }
            )
        });
        listing.field(1, |word, _| format!("  CFA = {}{:+}", base(info), word as u8 as i8));
        if info >> 1 & 15 == 2 {
            listing.field(1, |word, _| format!("  caller's rbp at CFA{:+}", word as u8 as i8));
        }
    }
}
