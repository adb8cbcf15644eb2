//! Reads an `__unwind_info` section that is put together word by word.

use cfipack_decoder::unwind_info::{Error, Section};
use cfipack_format::ImageOffset;

/// Returns a compressed page at 56 with one entry. The entry names encoding `number`: number 0 is common,
/// number 1 is the page's own. The word after it is no encoding.
fn table(number: u32) -> Vec<u8> {
    let header = [1, 28, 1, 32, 0, 32, 2];
    let common = [0x0201_0000];
    // Function, page and LSDAs of the page, then of the sentinel.
    let index = [0x1000, 56, 56, 0x2000, 0, 56];
    // Kind, then offset and count of entries, then offset and count of encodings.
    let page = [3, 1 << 16 | 12, 1 << 16 | 16];
    let (entry, own, after) = (number << 24, 0x0202_0000, 0x0203_0000);
    let words = [&header[..], &common, &index, &page, &[entry, own, after]].concat();
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn encodings_by_number() {
    let lookup = |number| {
        let bytes = table(number);
        let section = Section::parse(&bytes).unwrap();
        let found = section.lookup(ImageOffset(0x1800)).map(|entry| entry.unwrap().encoding.0);
        let walked = section.entries().next().unwrap().map(|entry| entry.encoding.0);
        assert_eq!(found, walked, "{number}");
        found
    };
    assert_eq!(lookup(0), Ok(0x0201_0000));
    assert_eq!(lookup(1), Ok(0x0202_0000));
    for number in [2, 3, 255] {
        let error = lookup(number);
        assert!(matches!(error, Err(Error::EncodingIndex { count: 2, .. })), "{number}: {error:?}");
    }
}

/// ld-prime 1053 and ld64.lld 23 put the sentinel at the start of the last entry in some images, so that no lookup finds the
/// entry. An entry without information loses nothing there.
#[test]
fn an_entry_at_the_sentinel() {
    let at_sentinel = |encoding: u32| {
        let mut bytes = table(0);
        bytes[28..32].copy_from_slice(&encoding.to_le_bytes());
        // The sentinel's function.
        bytes[44..48].copy_from_slice(&0x1000_u32.to_le_bytes());
        let section = Section::parse(&bytes).unwrap();
        assert_eq!(section.lookup(ImageOffset(0x1000)), Ok(None));
        section.entries().next().unwrap().map(|entry| entry.end)
    };
    let error = at_sentinel(0x0201_0000);
    let lost = ImageOffset(0x1000);
    assert!(
        matches!(error, Err(Error::AfterSentinel { function, sentinel, .. }) if [function, sentinel] == [lost; 2]),
        "{error:?}"
    );
    assert_eq!(at_sentinel(0), Ok(lost));
}
