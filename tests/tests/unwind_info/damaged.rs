//! Damaged `__unwind_info`: no panic, no hang, no more entries than the bytes can contain.

use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::{Entry, Error, Section};
use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset};
use cfipack_testkit::random::{self, Random};
use cfipack_tests::random_entries;
use cfipack_tests::unwind_table::{Table, lay_out};

/// Calls every reader of the section.
fn read(bytes: &[u8], arch: Arch) {
    let Ok(section) = Section::parse(bytes) else { return };
    let mut count = 0;
    let mut sorted = section.index().map(|entry| entry.function).is_sorted();
    let mut entries: Vec<Entry> = Vec::new();
    for entry in section.entries() {
        count += 1;
        let Ok(entry) = entry else {
            sorted = false;
            continue;
        };
        let _ = section.lsda(&entry);
        let _ = section.personality(&entry);
        let _ = row(entry.encoding, arch, &[0xff; 9]);
        sorted &= entries.last().is_none_or(|before| before.start <= entry.start);
        entries.push(entry);
    }
    // Where all is well but the damaged values themselves, a lookup finds what is there.
    for entry in entries.iter().filter(|entry| entry.start < entry.end) {
        let found = section.lookup(entry.start);
        assert!(!sorted || found == Ok(Some(*entry)), "{found:?}, not {entry:?}");
    }
    // Each entry has at least 4 bytes that no other has; each broken page, an index entry of 12.
    assert!(count <= bytes.len() / 4 + bytes.len() / 12, "{count} entries in {} bytes", bytes.len());
    for index in section.index() {
        let _ = section.lookup(index.function);
        let _ = section.lookup(ImageOffset(index.function.0.wrapping_sub(1)));
    }
    let mut text = String::new();
    section.dump(&mut text).unwrap();
    assert!(text.len() <= 1000 + 50 * bytes.len(), "{} of text for {} bytes", text.len(), bytes.len());
}

/// Small tables with pages of both kinds, palettes, LSDAs and personalities.
fn tables(random: &mut Random) -> Vec<(Arch, Vec<u8>)> {
    let mut tables = Vec::new();
    let (mut regular, mut local, mut lsdas) = (0, 0, 0);
    while tables.len() < 6 || regular == 0 || local == 0 || lsdas == 0 {
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        let most = random.pick(&[10, 60, 700]);
        let entries = random_entries::random(random, arch, most);
        let layout = if most == 700 { Layout::LdPrime } else { Layout::Small };
        let options = Options::new().with_layout(layout);
        let end = Some(ImageOffset(random_entries::END));
        let bytes = lay_out(arch, options, &entries, end, |number| ImageOffset(8 * number));
        let limit = if regular == 0 { 6000 } else { 3000 };
        if (1..limit).contains(&bytes.len()) {
            let table = Table::read(&bytes);
            regular += table.pages.iter().filter(|page| page.0 == PageKind::Regular).count();
            local += table.pages.iter().filter(|page| page.2 != 0).count();
            lsdas += table.entries.iter().filter(|entry| entry.lsda.is_some()).count();
            tables.push((arch, bytes));
        }
    }
    tables
}

#[test]
fn every_byte_and_every_length() {
    damaged_by_each(|at| vec![[0x01, 0x80, 0xff][at % 3]]);
}

#[test]
#[ignore = "takes minutes"]
fn every_byte_in_every_way_slow() {
    damaged_by_each(|_| vec![0x01, 0x80, 0xff]);
}

/// Changes each byte, at its offset, in these ways.
fn damaged_by_each(changes: impl Fn(usize) -> Vec<u8>) {
    let (seed, count) = random::cases("every_byte_and_every_length", 1);
    for i in 0..count as u64 {
        for (arch, bytes) in tables(&mut Random::new(seed.wrapping_add(i))) {
            for at in 0..bytes.len() {
                for damage in changes(at) {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= damage;
                    read(&damaged, arch);
                }
                read(&bytes[..at], arch);
            }
        }
    }
}

#[test]
fn several_words() {
    let (seed, count) = random::cases("several_words", 300);
    for i in 0..count as u64 {
        let mut random = Random::new(seed.wrapping_add(i));
        for (arch, mut bytes) in tables(&mut random) {
            for _ in 0..1 + random.below(8) {
                let at = 4 * random.below(bytes.len() as u64 / 4) as usize;
                let values = [0, 1, 2, 3, 0xffff_ffff, bytes.len() as u32, random.next() as u32];
                bytes[at..at + 4].copy_from_slice(&random.pick(&values).to_le_bytes());
            }
            read(&bytes, arch);
        }
    }
}

fn section(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Thousands of index entries for one page of thousands of entries.
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
    read(&bytes, Arch::Amd64);
    let errors =
        Section::parse(&bytes).unwrap().pages().filter(|page| matches!(page, Err(Error::PageOverlap { .. })));
    assert_eq!(errors.count(), pages as usize - 1);
}

/// What is refused, with its place and value; the rest of the table is still there.
#[test]
fn errors_name_offset_and_value() {
    // One common encoding, two pages of an entry each, the sentinel.
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
            // Nothing names an encoding of the page's own.
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
