//! Compares other readers of `__unwind_info` with ours, on the same tables and PCs.
//!
//! A test describes each difference, and fails when the readers agree. macho-unwind-info 0.5 and symbolic 12 take bits
//! 5 to 8 of arm64's encodings for the D pairs, but these are bits 8 to 11.

use cfipack_container::File;
use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::{Entry, Section};
use cfipack_encoder::unwind_info as encoder;
use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::compact_unwind::{Encoding, Pairs, encode_order};
use cfipack_format::{Arch, ImageOffset, Register};
use cfipack_testkit::random::{self, Random};
use cfipack_tests::corpora;
use cfipack_tests::unwind_table::lay_out;
use macho_unwind_info::UnwindInfo;

/// Returns a table in a random layout, with many valid encodings.
fn random_table(random: &mut Random, arch: Arch) -> Vec<u8> {
    let layout = random.pick(&Layout::ALL);
    let mut at = 0x1000;
    let mut entries = Vec::new();
    for _ in 0..random.below(3000) + 1 {
        let length = 4 + 4 * random.below(60) as u32;
        entries.push(encoder::Entry::new(ImageOffset(at), length, encoding(random, arch)));
        at += length;
    }
    let options = Options::new().with_layout(layout);
    lay_out(arch, options, &entries, Some(ImageOffset(at)), |_| unreachable!())
}

fn encoding(random: &mut Random, arch: Arch) -> Encoding {
    if random.chance(5) {
        return Encoding::NONE;
    }
    if arch == Arch::Aarch64 {
        return match random.below(3) {
            0 => Encoding::arm64_frameless(random.below(4096) as u16, Pairs::empty()),
            _ => Encoding::arm64_frame(Pairs::from_bits_truncate(random.below(32) as u32)),
        };
    }
    let count = random.below(7) as usize;
    let mut registers = [1, 2, 3, 4, 5, 6];
    for i in 0..6 {
        registers.swap(i, i + random.below(6 - i as u64) as usize);
    }
    let permutation = encode_order(&registers[..count]).unwrap();
    let words = (count as u64 + 2 + random.below(240)) as u8;
    match random.below(3) {
        0 => {
            let mut slots = [0; 5];
            for (slot, register) in slots.iter_mut().zip(registers).filter(|(_, register)| *register < 6) {
                *slot = if random.chance(70) { register } else { 0 };
            }
            Encoding::frame(5 + random.below(251) as u8, slots)
        }
        1 => Encoding::frameless(words, count as u8, permutation),
        _ => {
            let at = random.below(200) as u8;
            Encoding::frameless_indirect(at, random.below(8) as u8, count as u8, permutation)
        }
    }
}

/// Returns the tables of the goldens, and random tables.
pub fn tables(test: &str, count: usize) -> Vec<(String, Arch, Vec<u8>)> {
    let mut tables = Vec::new();
    for link in corpora::compact_unwind_links() {
        let file = File::parse(&link.image).unwrap();
        if let Some(section) = file.as_macho().unwrap().unwind_info_section().unwrap() {
            tables.push((link.name, file.arch(), section.bytes.into_owned()));
        }
    }
    // Functions are as far from the start of a compressed page as can be, and more than 2 GiB of code follow. The last ends
    // nearly where addresses end.
    let starts = [0, 4, 0xff_fffe, 0xff_ffff, 0x400_0000, 0x4ff_fffe, 0x7fff_fff0, 0xfe00_0000, 0xfeff_ffff];
    let far = (0..).zip(starts).map(|(number, start)| {
        encoder::Entry::new(ImageOffset(0x1000 + start), 4, Encoding(0x0200_0000 | number << 16))
    });
    let far: Vec<_> = far.collect();
    for layout in Layout::ALL {
        let options = Options::new().with_layout(layout);
        let bytes = lay_out(Arch::Amd64, options, &far, Some(ImageOffset(u32::MAX - 1)), |_| unreachable!());
        tables.push((format!("the ends of the ranges, {}", layout.name()), Arch::Amd64, bytes));
    }
    let (seed, count) = random::cases(test, count);
    for i in 0..count as u64 {
        let mut random = Random::new(seed.wrapping_add(i));
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        tables.push((format!("random {i}"), arch, random_table(&mut random, arch)));
    }
    tables
}

pub fn entries(section: &Section<'_>) -> Vec<Entry> {
    section.entries().map(Result::unwrap).collect()
}

#[test]
fn macho_unwind_info_finds_the_same() {
    let mut pcs = 0;
    for (name, _, bytes) in tables("macho_unwind_info_finds_the_same", 20) {
        let ours = Section::parse(&bytes).unwrap();
        let theirs = UnwindInfo::parse(&bytes).unwrap();
        let entries = entries(&ours);
        let mut functions = theirs.functions();
        for entry in &entries {
            let function = functions.next().unwrap().unwrap();
            let theirs = (function.start_address, function.end_address, function.opcode);
            assert_eq!((entry.start.0, entry.end.0, entry.encoding.0), theirs, "{name}");
        }
        assert!(functions.next().unwrap().is_none(), "{name}");
        let (first, end) = (entries[0].start.0, entries[entries.len() - 1].end.0);
        let mut random = Random::new(u64::from(end));
        let (before, around) = (first - 8, u64::from(end - first) + 8 + 8.min(u64::from(u32::MAX - end)));
        let anywhere = (0..2000).map(|_| before + random.below(around) as u32);
        let at_ends = entries.iter().flat_map(|entry| [entry.start.0, entry.end.0 - 1, entry.end.0]);
        for pc in anywhere.chain(at_ends) {
            let entry = ours.lookup(ImageOffset(pc)).unwrap();
            let entry = entry.map(|entry| (entry.start.0, entry.end.0, entry.encoding.0));
            let function = theirs.lookup(pc).unwrap();
            let function = function.map(|f| (f.start_address, f.end_address, f.opcode));
            assert_eq!(entry, function, "{name}: {pc:#x}");
            pcs += 1;
        }
    }
    println!("{pcs} PCs");
}

/// Returns a table of one function that saves x19, x20, d8 and d9. llvm-mc 23 writes the D pairs in bits 8 to 11, and
/// LLVM's libunwind 22 reads them there.
pub fn d_registers() -> (Encoding, Vec<u8>) {
    let encoding = Encoding(0x0400_0101);
    let entry = encoder::Entry::new(ImageOffset(0x1000), 8, encoding);
    (encoding, lay_out(Arch::Aarch64, Options::default(), &[entry], None, |_| unreachable!()))
}

#[test]
fn places_of_d_registers_differ_between_readers() {
    let (encoding, _) = d_registers();
    let (_, saved) = row(encoding, Arch::Aarch64, &[]).unwrap().unwrap();
    let x = [(Register(19), -24), (Register(20), -32)];
    assert_eq!(saved.as_slice(), [x, [(Register(72), -40), (Register(73), -48)]].concat());

    let their = macho_unwind_info::opcodes::OpcodeArm64::parse(encoding.0).to_string();
    assert_eq!(
        their,
        "CFA=reg29+16: reg29=[CFA-16], reg30=[CFA-8], reg14=[CFA-32], reg15=[CFA-40], reg19=[CFA-48], reg20=[CFA-56]"
    );
}

/// The number of functions in [`arrays_anywhere`].
const ENTRIES: u32 = 2000;

/// Returns a table with everything in an unusual place. First come pages of more than 4096 bytes, with encodings before
/// entries (as in Zig's tables). Then come the index, unused bytes and LSDAs. The palettes are last.
pub fn arrays_anywhere() -> Vec<u8> {
    let entries = ENTRIES;
    let (page, index) = (28, 28 + 16 + 4 * entries);
    let lsdas = index + 24 + 60;
    let personalities = lsdas + 8;
    let common = personalities + 4;
    let end = 0x1000 + 16 * entries;
    let mut words = vec![1, common, 1, personalities, 1, index, 2];
    // A compressed page: its header, its one encoding, and its entries.
    words.extend([3, entries << 16 | 16, 1 << 16 | 12, 0x5101_0001]);
    words.extend((0..entries).map(|i| (u32::from(i == 1) << 24) | (i * 16)));
    words.extend([0x1000, page, lsdas, end, 0, lsdas + 8]);
    words.extend([0; 15]);
    words.extend([0x1010, 0xabc0, 0x8000, 0x0100_0000]);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn arrays_lie_anywhere() {
    let bytes = arrays_anywhere();
    let section = Section::parse(&bytes).unwrap();
    let theirs = UnwindInfo::parse(&bytes).unwrap();
    for pc in (0xff0..0x1000 + 16 * ENTRIES + 16).step_by(4) {
        let found = section.lookup(ImageOffset(pc)).unwrap();
        let their = theirs.lookup(pc).unwrap();
        let function = their.map(|f| (f.start_address, f.end_address, f.opcode));
        assert_eq!(found.map(|e| (e.start.0, e.end.0, e.encoding.0)), function, "{pc:#x}");
    }
    let handled = section.lookup(ImageOffset(0x101f)).unwrap().unwrap();
    assert_eq!(section.lsda(&handled), Ok(Some(ImageOffset(0xabc0))));
    assert_eq!(section.personality(&handled), Ok(Some(ImageOffset(0x8000))));
}
