//! Tests `__unwind_info` with one fault: what is refused, and what can still be read.

use cfipack_decoder::unwind_info::{Error, Section};
use cfipack_format::ImageOffset;
use cfipack_tests::any_bytes;

fn section(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Thousands of index entries refer to one page of thousands of entries.
#[test]
fn pages_do_not_overlap() {
    let pages = 4000;
    let page = 28 + 12 * (pages + 1);
    let mut words = vec![1, 28, 0, 28, 0, 28, pages + 1];
    for i in 0..=pages {
        words.extend([i, page, page]);
    }
    words.extend([2, 4000 << 16 | 8]);
    words.extend((0..8000).map(|_| 0));
    let bytes = section(&words);
    any_bytes::unwind_info(&bytes);
    let errors =
        Section::parse(&bytes).unwrap().pages().filter(|page| matches!(page, Err(Error::PageOverlap { .. })));
    assert_eq!(errors.count(), pages as usize - 1);
}

/// An error names place and value. The rest of the table can still be read.
#[test]
fn errors_name_offset_and_value() {
    // The table has one common encoding, two pages of one entry each, and the sentinel.
    let words = [
        [1, 28, 1, 32, 0, 32, 3].as_slice(),
        &[0x0100_0000, 0x1000, 68, 68, 0x2000, 84, 68, 0x3000, 0, 68],
        &[3, 1 << 16 | 12, 16, 0x0000_0000],
        &[2, 1 << 16 | 8, 0x2000, 0x4100_0000],
    ];
    let good = words.concat();
    let with = |at: usize, value: u32| {
        let mut words = good.clone();
        words[at / 4] = value;
        section(&words)
    };
    let lookup = |bytes: &[u8], pc| {
        let found = Section::parse(bytes).map(|section| section.lookup(ImageOffset(pc)));
        found.map_err(|error| error.to_string()).and_then(|found| found.map_err(|error| error.to_string()))
    };
    let start = |bytes: &[u8], pc| lookup(bytes, pc).map(|entry| entry.map(|entry| entry.start.0));
    assert_eq!(start(&section(&good), 0x1fff), Ok(Some(0x1000)));
    assert_eq!(start(&section(&good), 0x2000), Ok(Some(0x2000)));
    assert_eq!(start(&section(&good), 0x3000), Ok(None));
    for (at, value, pc, message) in [
        (0, 2, 0x1000, "offset 0x0: version 2, not 1"),
        (24, 0, 0x1000, "offset 0x18: an index of 0 entries"),
        (24, 99, 0x1000, "offset 0x20: the index of 1188 bytes in a section of 100"),
        (4, 200, 0x1000, "offset 0xc8: the common encodings of 4 bytes in a section of 100"),
        (16, 30, 0x1000, "offset 0x20: the personalities of 120 bytes in a section of 100"),
        (36, 0, 0x1000, "offset 0x24: page offset 0 before the index's end"),
        (36, 96, 0x1000, "offset 0x60: a page of 12 bytes in a section of 100"),
        (68, 7, 0x1000, "offset 0x44: page of kind 7"),
        (72, 20 << 16 | 12, 0x1000, "offset 0x50: a page's entries of 80 bytes in a section of 100"),
        (76, 1 << 16 | 90, 0x1000, "offset 0x9e: a page's encodings of 4 bytes in a section of 100"),
        (80, 0x0900_0000, 0x1000, "offset 0x50: encoding number 9 of 1"),
        (92, 0x2800, 0x2900, ""),
        (44, 0xffff_0000, 0x1000, ""),
    ] {
        let bytes = with(at, value);
        let message = match message {
            "" => Ok(Some(if at == 92 { 0x2800 } else { 0x1000 })),
            // No entry uses this encoding of the page.
            _ if at == 76 => Ok(Some(0x1000)),
            message => Err(message.to_owned()),
        };
        assert_eq!(start(&bytes, pc), message, "word {at} = {value:#x}");
        if at >= 36 && at != 44 {
            // The other page is unaffected.
            assert!(matches!(start(&bytes, 0x2fff), Ok(Some(_))), "word {at} = {value:#x}");
            let errors = Section::parse(&bytes).unwrap().pages().filter(Result::is_err).count();
            assert_eq!(errors, usize::from(at < 80), "word {at} = {value:#x}");
        }
    }
    let section = section(&good);
    let section = Section::parse(&section).unwrap();
    let entry = section.lookup(ImageOffset(0x2000)).unwrap().unwrap();
    let error = section.lsda(&entry).unwrap_err();
    assert_eq!(error.to_string(), "offset 0x44: no LSDA for function 0x2000, whose encoding has one");
}
