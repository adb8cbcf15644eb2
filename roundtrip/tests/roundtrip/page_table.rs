//! A correct `__unwind_info` is broken in one way after the other, and exactly that is found.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options as TableOptions};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey};
use cfipack_roundtrip::unwind_info::{
    Code, Image, Report, Table, Violation, diff, modes, stats, verify, violations,
};
use cfipack_roundtrip::{Options, most_frequent_first};

use crate::made::Cfi;

mod damaged;

/// The start and the end of the code. The image's header lies at 0.
const START: u64 = 0x1000;
const END: u64 = 0x10a0;
/// The slot of the only personality.
const SLOT: u32 = 0x3000;
/// The only LSDA.
const LSDA: u32 = 0x2000;

/// A table, its CFI and its code.
struct Made {
    table: Vec<u8>,
    cfi: Cfi,
    /// Offsets of the FDEs.
    fdes: Vec<u32>,
    code: Vec<u8>,
}

fn make(layout: Layout) -> Made {
    let (mut cfi, cie) = Cfi::amd64();
    let mut fdes = Vec::new();
    let mut fde = |start, size, instructions: &[u8]| {
        fdes.push(cfi.section().bytes.len() as u32);
        cfi.fde(cie, start, size, instructions);
    };
    // push %rbp; mov %rsp,%rbp; push %rbx; ...; ret
    fde(0x1000, 0x20, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x41, 0x83, 3, 0x5a, 0x0c, 7, 8, 0xc6, 0xc3]);
    // sub $24,%rsp; ...; ret
    fde(0x1020, 0x20, &[0x44, 0x0e, 32, 0x5b, 0x0e, 8]);
    // sub $4096,%rsp; ...
    fde(0x1040, 0x20, &[0x47, 0x0e, 0x88, 0x20]);
    // The CFA is based on %r10.
    fde(0x1060, 0x10, &[0x41, 0x0d, 10]);
    // push %rbp; mov %rsp,%rbp; ..., with a personality (through a pointer) and an LSDA.
    let mut data = vec![11, 0x80];
    data.extend(u64::from(SLOT).to_le_bytes());
    data.extend([0, 0]);
    let cie = cfi.cie(b"zPLR", &data, &[0x0c, 7, 8, 0x90, 1]);
    let mut data = vec![8];
    data.extend(u64::from(LSDA).to_le_bytes());
    fdes.push(cfi.section().bytes.len() as u32);
    cfi.fde_with(cie, 0x1080, 0x20, &data, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6]);
    let mut code = vec![0x90; (END - START) as usize];
    let mut put = |at: usize, bytes: &[u8]| code[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x55, 0x48, 0x89, 0xe5, 0x53]);
    put(0x20, &[0x48, 0x83, 0xec, 24, 0xff, 0xd0]);
    put(0x40, &[0x48, 0x81, 0xec, 0, 0x10, 0, 0]);
    put(0x80, &[0x55, 0x48, 0x89, 0xe5]);
    let entry = |at, length, encoding| Entry::new(ImageOffset(at), length, encoding);
    let mut builder = Builder::new(Arch::Amd64, TableOptions::new().with_layout(layout)).unwrap();
    builder.push(entry(0x1000, 0x20, Encoding::frame(1, [1, 0, 0, 0, 0])));
    builder.push(entry(0x1020, 0x20, Encoding::frameless(4, 0, 0)));
    builder.push(entry(0x1040, 0x20, Encoding::frameless_indirect(3, 1, 0, 0)));
    let dwarf = Encoding::dwarf(Arch::Amd64, 0);
    builder.push(Entry { fde: NonZeroU32::new(fdes[3]), ..entry(0x1060, 0x10, dwarf) });
    builder.push(entry(0x1070, 0x10, Encoding::NONE));
    builder.push(Entry {
        personality: NonZeroU32::new(1),
        lsda: LsdaKey::at(ImageOffset(LSDA)),
        ..entry(0x1080, 0x20, Encoding::frame(0, [0; 5]))
    });
    let placed = builder.finish().place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
    let mut table = vec![0; placed.len()];
    placed.write(&mut table, |_| ImageOffset(SLOT)).unwrap();
    Made { table, cfi, fdes, code }
}

impl Made {
    fn code(&self) -> Code<'_> {
        Code::new([(Address(START), &self.code[..])])
    }

    fn table(&self) -> Table<'_> {
        Table::of_image(Arch::Amd64, Address(0), &Section::parse(&self.table).unwrap(), self.code())
    }

    fn report(&self) -> Report {
        let report = verify(&[self.cfi.section()], &self.table(), &Options::default());
        check_sums(&report);
        report
    }

    fn violations(&self) -> Vec<Violation> {
        let starts = [0x1000, 0x1020, 0x1040, 0x1060, 0x1070, 0x1080].map(Address);
        let (code, cfi) = (self.code(), [self.cfi.section()]);
        let is_slot = |address| address == Address(SLOT.into());
        let image = Image::new(Arch::Amd64, Address(0), &code, &cfi);
        let image = image.with_function_starts(&starts).with_slots(&is_slot);
        violations(&Section::parse(&self.table).unwrap(), &image)
    }

    fn names(&self) -> Vec<&'static str> {
        self.violations().iter().map(Violation::name).collect()
    }

    /// Returns the place of an entry's encoding. The entry's function is in the word before it.
    fn encoding_at(&self, number: usize) -> usize {
        let section = Section::parse(&self.table).unwrap();
        let page = section.page(0).unwrap().unwrap();
        assert_eq!(page.kind(), PageKind::Regular);
        page.entry_offset(number).0 + 4
    }

    fn word(&mut self, at: usize) -> &mut [u8; 4] {
        self.table[at..].first_chunk_mut().unwrap()
    }

    fn change(&mut self, at: usize, change: impl Fn(u32) -> u32) {
        let word = self.word(at);
        *word = change(u32::from_le_bytes(*word)).to_le_bytes();
    }

    fn set_encoding(&mut self, number: usize, encoding: u32) {
        let at = self.encoding_at(number);
        self.change(at, |_| encoding);
    }

    fn index_off(&self) -> usize {
        Section::parse(&self.table).unwrap().header().index_off as usize
    }

    fn lsdas_off(&self) -> usize {
        Section::parse(&self.table).unwrap().index().next().unwrap().lsda_off as usize
    }
}

fn check_sums(report: &Report) {
    let Report { equal, dwarf, scanned, different, missing, unjudged, .. } = *report;
    assert_eq!(report.functions, equal + dwarf + scanned + different + missing + unjudged, "{report:#?}");
    let exact = report.pcs_equal + report.pcs_dwarf + report.pcs_scanned;
    let pcs = exact + report.pcs_prologue + report.pcs_epilogue;
    assert_eq!(
        report.pcs,
        pcs + report.pcs_different + report.pcs_missing + report.pcs_unjudged,
        "{report:#?}"
    );
}

/// Returns the ranges that are described as different.
fn different(report: &Report) -> Vec<(u64, u64)> {
    let ranges: Vec<_> = report.differences.iter().map(|found| (found.start.0, found.end.0)).collect();
    assert_eq!(report.pcs_different, ranges.iter().map(|(start, end)| end - start).sum::<u64>());
    ranges
}

#[test]
fn correct() {
    for layout in [Layout::Small, Layout::Lld, Layout::LdPrime] {
        let made = make(layout);
        assert_eq!(made.violations(), []);
        let report = made.report();
        assert!(report.is_complete(), "{report:#?}");
        assert_eq!((report.functions, report.equal, report.dwarf), (5, 4, 1));
        // Prologues: 5 bytes up to the end of `push %rbx`, 4 and 7 bytes of `sub`, and 4 bytes. Epilogues: the `ret`s
        // of the first two functions.
        assert_eq!((report.pcs, report.pcs_prologue, report.pcs_epilogue), (0x90, 5 + 4 + 7 + 4, 2));
        assert_eq!((report.pcs_dwarf, report.pcs_equal), (0x10, 0x90 - 0x10 - 20 - 2));
        assert_eq!((report.without_cfi, report.pcs_without_cfi), (0, 0));
    }
}

#[test]
fn wrong_register() {
    let mut made = make(Layout::Small);
    made.set_encoding(0, 0x0101_0002);
    let report = made.report();
    assert_eq!(made.violations(), []);
    // The row before `push %rbx` can be a step to a body that saves any register, but the row of the body cannot.
    assert_eq!(different(&report), [(0x1005, 0x101f)]);
    assert_eq!((report.different, report.equal, report.pcs_prologue), (1, 3, 20));
    assert_eq!(
        report.differences[0].to_string(),
        "0x1005..0x101f in the function at 0x1000: CFI: CFA = rbp+16, return address at CFA-8, \
         rbp at CFA-16, rbx at CFA-24; table: CFA = rbp+16, return address at CFA-8, \
         rbp at CFA-16, r12 at CFA-24"
    );
}

#[test]
fn wrong_stack_size() {
    let mut made = make(Layout::Small);
    made.set_encoding(1, 0x0203_0000);
    let report = made.report();
    assert_eq!(different(&report), [(0x1024, 0x103f)]);
    // With one word too many, each row of the CFI could be a step to the body, and no row is the body.
    made.set_encoding(1, 0x0205_0000);
    assert_eq!(different(&made.report()), [(0x1020, 0x1024), (0x1024, 0x103f), (0x103f, 0x1040)]);
}

#[test]
fn call_in_a_prologue() {
    let mut made = make(Layout::Small);
    // `call *%rax` before the stack is set up.
    made.code[0x20..0x22].copy_from_slice(&[0xff, 0xd0]);
    assert_eq!(different(&made.report()), [(0x1020, 0x1024)]);
}

#[test]
fn nothing_where_the_cfi_has_a_row() {
    let mut made = make(Layout::Small);
    made.set_encoding(1, 0);
    let report = made.report();
    assert_eq!((report.missing, report.pcs_missing, report.pcs_different), (1, 0x20, 0));
    assert_eq!(most_frequent_first(&report.reasons), [("no-unwind-information", 1)]);
    assert!(report.is_true() && !report.is_complete());
    assert_eq!(
        words(&report),
        [
            "0x1020..0x1040 in the function at 0x1020: CFI: unwind information; table: an entry without unwind \
             information",
        ]
    );
}

fn words(report: &Report) -> Vec<String> {
    report.differences.iter().map(|difference| difference.to_string()).collect()
}

/// The sentinel ends the table inside a function.
#[test]
fn no_entry_where_the_cfi_has_a_row() {
    let mut made = make(Layout::Small);
    let sentinel = made.index_off() + 12;
    made.change(sentinel, |end| end - 0x18);
    // Another function has a wrong register. Differences are listed before missing PCs.
    made.set_encoding(0, 0x0101_0002);
    let report = made.report();
    assert_eq!((report.missing, report.pcs_missing, report.more_differences), (1, 0x18, 0));
    assert_eq!(
        words(&report)[1..],
        ["0x1088..0x10a0 in the function at 0x1080: CFI: unwind information; table: no entry",]
    );
    assert_eq!(report.differences[0].start.0, 0x1005);
    // Differences and missing PCs have a limit each.
    let options = Options::new().with_limit(1);
    made.set_encoding(1, 0x0203_0000);
    made.set_encoding(2, 0);
    let report = verify(&[made.cfi.section()], &made.table(), &options);
    let starts: Vec<_> = report.differences.iter().map(|difference| difference.start.0).collect();
    assert_eq!((starts, report.more_differences), (vec![0x1005, 0x1040], 2));
}

#[test]
fn encodings() {
    let mut made = make(Layout::Small);
    made.set_encoding(1, 0x0204_2000);
    assert_eq!(made.names(), ["unused-bits"]);
    made = make(Layout::Small);
    made.set_encoding(0, 0x0100_0001);
    assert_eq!(made.names(), ["frame-slot"]);
    assert_eq!(different(&made.report()), [(0x1005, 0x101f)]);
    made = make(Layout::Small);
    made.set_encoding(0, 0x0101_0007);
    assert_eq!(made.names(), ["encoding"]);
    assert_eq!(made.report().different, 1);
    made = make(Layout::Small);
    made.set_encoding(1, 0x0202_0c00);
    assert_eq!(made.names(), ["frameless-size"]);
    made = make(Layout::Small);
    made.set_encoding(1, 0x0900_0000);
    assert_eq!(made.names(), ["encoding"]);
}

#[test]
fn indirect() {
    let mut made = make(Layout::Small);
    made.set_encoding(2, 0x0304_2000);
    assert_eq!(made.names(), ["no-immediate"]);
    // A size of some gigabytes, to which every row could be a step.
    assert_eq!(different(&made.report()), [(0x1040, 0x1047), (0x1047, 0x1060)]);
    made = make(Layout::Small);
    // With a `mov` in the place of the `sub`, the sizes agree by chance.
    made.code[0x41] = 0xc7;
    assert_eq!(made.names(), ["no-immediate"]);
    assert!(made.report().is_complete());
}

#[test]
fn dwarf() {
    let mut made = make(Layout::Small);
    let encoding_at = made.encoding_at(3);
    made.change(encoding_at, |encoding| encoding + 4);
    assert_eq!(made.names(), ["dwarf-record"]);
    made = make(Layout::Small);
    // The entry names the FDE after the function's FDE.
    let distance = made.fdes[4] - made.fdes[3];
    made.change(encoding_at, |encoding| encoding + distance);
    assert_eq!(made.names(), ["dwarf-fde"]);
    let report = made.report();
    // LLVM's libunwind scans for the function's own FDE, and finds it.
    assert_eq!((report.scanned, report.pcs_scanned, report.different), (1, 0x10, 0));
    assert!(report.is_true() && !report.is_complete());
    // A reader cannot start at an offset that is not the start of an FDE.
    made.change(encoding_at, |encoding| encoding + 4);
    assert_eq!(different(&made.report()), [(0x1060, 0x1061), (0x1061, 0x1070)]);
    // A record before the function's FDE is as good, because readers go on from there.
    made.change(encoding_at, |encoding| encoding & 0xff00_0000);
    assert_eq!(made.violations(), []);
    assert!(made.report().is_complete());
}

#[test]
fn lsdas_and_personalities() {
    let mut made = make(Layout::Small);
    let at = made.lsdas_off();
    made.change(at, |function| function + 4);
    assert_eq!(made.names(), ["malformed", "lsda-orphan"]);
    made = make(Layout::Small);
    let encoding_at = made.encoding_at(5);
    made.change(encoding_at, |encoding| encoding & !0x4000_0000);
    assert_eq!(made.names(), ["lsda-orphan"]);
    made = make(Layout::Small);
    made.change(encoding_at, |encoding| encoding | 0x3000_0000);
    assert_eq!(made.names(), ["malformed"]);
    made = make(Layout::Small);
    let at = Section::parse(&made.table).unwrap().header().personalities_off as usize;
    made.change(at, |slot| slot + 8);
    assert_eq!(made.names(), ["personality-slot"]);
    let report = made.report();
    assert!(!report.is_true());
    assert_eq!((report.handlers_different, report.pcs_different), (1, 0));
    assert_eq!(
        report.differences[0].to_string(),
        "0x1080..0x10a0 in the function at 0x1080: CFI: the LSDA 0x2000, and its personality through \
         0x3000; table: the LSDA 0x2000, and its personality through 0x3008"
    );
    made = make(Layout::Small);
    let at = made.lsdas_off();
    made.change(at + 4, |lsda| lsda + 4);
    assert_eq!((made.names().len(), made.report().handlers_different), (0, 1));
}

#[test]
fn order() {
    let mut made = make(Layout::Small);
    let at = made.encoding_at(1) - 4;
    made.change(at, |function| function + 0x30);
    assert_eq!(made.names(), ["malformed"]);
    made = make(Layout::Small);
    // The entry without unwind information moves to the start of the next function, before this function's entry.
    let at = made.encoding_at(4) - 4;
    made.change(at, |function| function + 0x10);
    assert_eq!(made.names(), ["null-shares-address"]);
    assert!(made.violations()[0].is_warning());
    assert!(made.report().is_complete());
    // If three entries have the same start, the last entry counts.
    let at = made.encoding_at(3) - 4;
    made.change(at, |function| function + 0x20);
    assert_eq!(made.names(), ["shared-address", "null-shares-address"]);
    assert!(made.violations().iter().all(Violation::is_warning));
    made = make(Layout::Small);
    // The entry without unwind information moves to the start of the function before, after this function's entry.
    let at = made.encoding_at(4) - 4;
    made.change(at, |function| function - 0x10);
    assert_eq!(made.names(), ["null-shares-address"]);
    assert!(!made.violations()[0].is_warning());
    let report = made.report();
    assert_eq!((report.missing, report.pcs_missing), (1, 0x10));
    made = make(Layout::Small);
    let at = made.index_off();
    made.change(at, |function| function - 0x10);
    assert_eq!(made.names(), ["first-entry"]);
    made = make(Layout::Small);
    made.change(at + 12 + 4, |_| 0x40);
    assert_eq!(made.names(), ["sentinel-page"]);
    made = make(Layout::Small);
    made.change(at + 12, |_| 0x1000);
    assert!(made.names().contains(&"index-order"));
    made = make(Layout::Small);
    made.change(at + 12, |_| 0x1080);
    assert_eq!(made.names(), ["after-sentinel", "lsda-page", "uncovered"]);
    made = make(Layout::Small);
    made.change(at + 12, |sentinel| sentinel | 0x0f00_0000);
    assert_eq!(made.names(), ["sentinel-beyond-code"]);
}

/// If several FDEs of a function agree, an entry may name any of them.
#[test]
fn equal_fdes_of_one_function() {
    let mut made = make(Layout::Small);
    let cie = made.cfi.cie(b"zR", &[1, 0], &[0x0c, 7, 8, 0x90, 1]);
    made.fdes.push(made.cfi.section().bytes.len() as u32);
    made.cfi.fde(cie, 0x1060, 0x10, &[0x41, 0x0d, 10]);
    for fde in [made.fdes[3], made.fdes[5]] {
        made.set_encoding(3, 0x0400_0000 | fde);
        assert_eq!(made.violations(), []);
        let report = made.report();
        assert!(report.is_complete(), "{report:#?}");
        assert_eq!((report.dwarf, report.duplicates), (1, 1));
    }
}

#[test]
fn meaning_does_not_depend_on_the_layout() {
    let (small, mut lld) = (make(Layout::Small), make(Layout::Lld));
    let options = Options::default();
    let same = diff(&small.table(), &lld.table(), &options);
    assert!(same.is_equal(), "{same:#?}");
    // The entry without unwind information does not count.
    assert_eq!((same.equal, same.pcs_equal), (5, 0x90));
    let mut other = make(Layout::Small);
    other.set_encoding(1, 0x0203_0000);
    let found = diff(&other.table(), &lld.table(), &options);
    assert_eq!((found.different, found.pcs_different, found.differences.len()), (1, 0x20, 1));
    assert_eq!(
        [&found.differences[0].a, &found.differences[0].b],
        ["CFA = rsp+24, return address at CFA-8", "CFA = rsp+32, return address at CFA-8"]
    );
    other.set_encoding(1, 0);
    let found = diff(&other.table(), &lld.table(), &options);
    assert_eq!((found.only_b, found.pcs_only_b, found.pcs_different), (1, 0x20, 0));
    let lsdas_off = lld.lsdas_off();
    lld.change(lsdas_off + 4, |lsda| lsda + 4);
    let found = diff(&small.table(), &lld.table(), &options);
    assert_eq!((found.different, found.pcs_different), (1, 0x20), "another LSDA");
}

#[test]
fn counts() {
    let made = make(Layout::Small);
    let section = Section::parse(&made.table).unwrap();
    let counted = stats(Arch::Amd64, &section);
    assert_eq!((counted.regular_pages, counted.entries, counted.encodings), (1, 6, 6));
    assert_eq!((counted.lsdas, counted.personalities, counted.code), (1, 1, END - START));
    let bytes = counted.bytes;
    assert_eq!((bytes.header, bytes.index, bytes.lsdas, bytes.personalities), (28, 24, 8, 4));
    assert_eq!((bytes.page_headers, bytes.entries, bytes.other), (8, 48, 0));
    assert_eq!(bytes.total, made.table.len() as u64);
    let by_hand = modes(Arch::Amd64, made.table().entries().iter().map(|entry| entry.encoding));
    assert_eq!(counted.modes, by_hand);
    assert_eq!((by_hand.frame, by_hand.frameless, by_hand.indirect), (2, 1, 1));
    assert_eq!((by_hand.dwarf, by_hand.none, by_hand.compact()), (1, 1, 4));
    // lld pads the page.
    let made = make(Layout::Lld);
    let counted = stats(Arch::Amd64, &Section::parse(&made.table).unwrap());
    assert_eq!(counted.bytes.other + 12 + counted.bytes.entries + counted.bytes.page_encodings, 4096);
}
