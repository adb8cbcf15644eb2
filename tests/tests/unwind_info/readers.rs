//! Compares other readers of `__unwind_info` with ours: the same tables, the same PCs.
//!
//! A test describes each difference, so that it fails when the readers agree:
//! - macho-unwind-info 0.5 and symbolic 12 take arm64's D pairs to be bits 5 to 8 (they are bits 8
//!   to 11);
//! - symbolic has no rows for x86's indirect mode, whose stack size is in the code.

use cfipack_container::File;
use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::{Entry, Section};
use cfipack_encoder::unwind_info as encoder;
use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::compact_unwind::{Encoding, Mode, Pairs, encode_order};
use cfipack_format::{Arch, Cfa, ImageOffset, Register, Row, Rule, Saved};
use cfipack_tests::corpora;
use cfipack_tests::random::{self, Random};
use cfipack_tests::unwind_table::lay_out;
use macho_unwind_info::UnwindInfo;
use symbolic_debuginfo::macho::{CompactCfiOp, CompactUnwindInfoIter, CompactUnwindOp};

/// A table of many encodings that mean something, in a layout.
fn random_table(random: &mut Random, arch: Arch) -> Vec<u8> {
    let layout = random.pick(&[Layout::Small, Layout::Lld, Layout::LdPrime, Layout::Ld64]);
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

/// The goldens' tables, and random ones.
fn tables(test: &str, count: usize) -> Vec<(String, Arch, Vec<u8>)> {
    let mut tables = Vec::new();
    for link in corpora::compact_unwind_links() {
        let file = File::parse(&link.image).unwrap();
        if let Some(section) = file.unwind_info_section().unwrap() {
            tables.push((link.name, file.arch(), section.bytes.into_owned()));
        }
    }
    let (seed, count) = random::cases(test, count);
    for i in 0..count as u64 {
        let mut random = Random::new(seed.wrapping_add(i));
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        tables.push((format!("random {i}"), arch, random_table(&mut random, arch)));
    }
    tables
}

fn entries(section: &Section<'_>) -> Vec<Entry> {
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
        for _ in 0..2000 {
            let pc = (first - 8) + random.below(u64::from(end - first) + 16) as u32;
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

/// A symbolic register as its DWARF number.
fn number(name: &str) -> Register {
    const NAMES: [(&str, u16); 12] = [
        ("rbx", 3),
        ("rbp", 6),
        ("rsp", 7),
        ("r12", 12),
        ("r13", 13),
        ("r14", 14),
        ("r15", 15),
        ("rip", 16),
        ("sp", 31),
        ("x29", 29),
        ("x30", 30),
        ("pc", 32),
    ];
    let name = name.trim_start_matches('$');
    if let Some((_, number)) = NAMES.iter().find(|known| known.0 == name) {
        return Register(*number);
    }
    let register = name.strip_prefix('x').map(|n| n.parse().unwrap());
    Register(register.or_else(|| name.strip_prefix('d').map(|n| 64 + n.parse::<u16>().unwrap())).expect(name))
}

/// symbolic's operations as a row of ours, the return address being `ra`.
fn row_of(
    operations: CompactUnwindOp,
    iter: &CompactUnwindInfoIter<'_>,
    ra: Register,
    arch: Arch,
) -> Option<(Row, Saved)> {
    let CompactUnwindOp::CfiOps(operations) = operations else { return None };
    let mut row = Row { return_address: Rule::SameValue, ..Row::at_entry(arch) };
    let mut saved = Saved::new();
    for operation in operations {
        match operation {
            CompactCfiOp::RegisterIs { dest_reg, src_reg, offset_from_src } => {
                let source = number(src_reg.name(iter).unwrap());
                if dest_reg.is_cfa() {
                    row.cfa = Cfa::Register { register: source, offset: offset_from_src.into() };
                } else {
                    assert_eq!((source, offset_from_src), (arch.return_address(), 0));
                }
            }
            CompactCfiOp::RegisterAt { dest_reg, src_reg, offset_from_src } => {
                assert!(src_reg.is_cfa());
                let register = number(dest_reg.name(iter).unwrap());
                if register == ra {
                    row.return_address = Rule::Cfa(offset_from_src.into());
                } else if register == arch.frame_pointer() {
                    row.frame_pointer = Rule::Cfa(offset_from_src.into());
                } else {
                    assert!(saved.push(register, offset_from_src));
                }
            }
        }
    }
    Some((row, saved))
}

fn symbolic(bytes: &[u8], arch: Arch) -> (CompactUnwindInfoIter<'_>, Register) {
    let (theirs, ra) = match arch {
        Arch::Amd64 => (symbolic_common::Arch::Amd64, Register(16)),
        _ => (symbolic_common::Arch::Arm64, Register(32)),
    };
    (CompactUnwindInfoIter::new(bytes, true, theirs).unwrap(), ra)
}

#[test]
fn symbolic_reads_the_same_rows() {
    let mut rows = 0;
    for (name, arch, bytes) in tables("symbolic_reads_the_same_rows", 20) {
        let ours = Section::parse(&bytes).unwrap();
        let (mut theirs, ra) = symbolic(&bytes, arch);
        for entry in entries(&ours) {
            let their = theirs.next().unwrap().expect(&name);
            let range = (their.instruction_address, their.instruction_address + their.len);
            assert_eq!((entry.start.0, entry.end.0), range, "{name}");
            // The goldens enumerate encodings, valid or not.
            if name.starts_with('l') {
                continue;
            }
            let mode = entry.encoding.mode(arch).unwrap();
            let their = row_of(their.instructions(&theirs), &theirs, ra, arch);
            if mode == Mode::FramelessIndirect {
                assert_eq!(their, None, "{name}: {}", entry.encoding);
                continue;
            }
            let our = row(entry.encoding, arch, &[]).unwrap();
            // symbolic lists a frameless function's registers from the highest address down.
            let sorted = |(row, saved): (Row, Saved)| {
                let mut slots = saved.as_slice().to_vec();
                slots.sort_by_key(|slot| slot.1);
                (row, slots)
            };
            assert_eq!(our.map(sorted), their.map(sorted), "{name}: {}", entry.encoding);
            rows += 1;
        }
        assert!(theirs.next().unwrap().is_none(), "{name}");
    }
    println!("{rows} rows");
}

/// Bits 8 to 11 are the D pairs, as llvm-mc 23 writes and LLVM's libunwind 22 reads them.
#[test]
fn places_of_d_registers_differ_between_readers() {
    let encoding = Encoding(0x0400_0101);
    let entry = encoder::Entry::new(ImageOffset(0x1000), 8, encoding);
    let bytes = lay_out(Arch::Aarch64, Options::default(), &[entry], None, |_| unreachable!());
    let (_, saved) = row(encoding, Arch::Aarch64, &[]).unwrap().unwrap();
    let x = [(Register(19), -24), (Register(20), -32)];
    assert_eq!(saved.as_slice(), [x, [(Register(72), -40), (Register(73), -48)]].concat());

    let (mut theirs, ra) = symbolic(&bytes, Arch::Aarch64);
    let their = theirs.next().unwrap().unwrap().instructions(&theirs);
    let (_, their) = row_of(their, &theirs, ra, Arch::Aarch64).unwrap();
    assert_eq!(their.as_slice(), [x, [(Register(78), -40), (Register(79), -48)]].concat());

    let their = macho_unwind_info::opcodes::OpcodeArm64::parse(encoding.0).to_string();
    assert_eq!(
        their,
        "CFA=reg29+16: reg29=[CFA-16], reg30=[CFA-8], reg14=[CFA-32], reg15=[CFA-40], reg19=[CFA-48], reg20=[CFA-56]"
    );
}

/// A null entry that shares its address with a function, as ld64.lld 23 writes for an object
/// whose `__text` is empty: the last of them is found.
#[test]
fn the_last_of_equal_addresses_counts() {
    let words = [
        [1, 28, 2, 36, 0, 36, 2].as_slice(),
        // Palette, index, sentinel.
        &[0x0100_0000, 0, 0x1000, 60, 60, 0x1030, 0, 60],
        // A compressed page of four entries, two at 0x1010.
        &[3, 4 << 16 | 12, 28],
        &[0x0000_0000, 0x0100_0010, 0x0000_0010, 0x0100_0020],
    ];
    let bytes: Vec<u8> = words.concat().iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    let section = Section::parse(&bytes).unwrap();
    let entries = entries(&section);
    assert_eq!((entries[1].start, entries[1].end), (ImageOffset(0x1010), ImageOffset(0x1010)));
    assert_eq!(section.lookup(ImageOffset(0x1010)), Ok(Some(entries[2])));
    assert_eq!(entries[2].encoding, Encoding(0x0100_0000));
    let (mut theirs, _) = symbolic(&bytes, Arch::Amd64);
    let lengths = std::iter::from_fn(|| theirs.next().unwrap()).map(|entry| entry.len);
    assert_eq!(lengths.collect::<Vec<_>>(), [0x10, 0, 0x10, 0x10]);
    let found = UnwindInfo::parse(&bytes).unwrap().lookup(0x1010).unwrap().unwrap();
    assert_eq!(found.opcode, 0x0100_0000);
}

/// A table with everything in an unusual place: pages first, of more than 4096 bytes and with their
/// encodings before the entries (as Zig has them), then the index, slack, LSDAs, and the
/// palettes last.
#[test]
fn arrays_lie_anywhere() {
    let entries = 2000;
    let (page, index) = (28, 28 + 16 + 4 * entries);
    let lsdas = index + 24 + 60;
    let personalities = lsdas + 8;
    let common = personalities + 4;
    let end = 0x1000 + 16 * entries;
    let mut words = vec![1, common, 1, personalities, 1, index, 2];
    // The header of a compressed page, its one encoding, its entries.
    words.extend([3, entries << 16 | 16, 1 << 16 | 12, 0x5101_0001]);
    words.extend((0..entries).map(|i| (u32::from(i == 1) << 24) | (i * 16)));
    words.extend([0x1000, page, lsdas, end, 0, lsdas + 8]);
    words.extend([0; 15]);
    words.extend([0x1010, 0xabc0, 0x8000, 0x0100_0000]);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let section = Section::parse(&bytes).unwrap();
    let theirs = UnwindInfo::parse(&bytes).unwrap();
    for pc in (0xff0..end + 16).step_by(4) {
        let found = section.lookup(ImageOffset(pc)).unwrap();
        let their = theirs.lookup(pc).unwrap();
        let function = their.map(|f| (f.start_address, f.end_address, f.opcode));
        assert_eq!(found.map(|e| (e.start.0, e.end.0, e.encoding.0)), function, "{pc:#x}");
    }
    let handled = section.lookup(ImageOffset(0x101f)).unwrap().unwrap();
    assert_eq!(section.lsda(&handled), Ok(Some(ImageOffset(0xabc0))));
    assert_eq!(section.personality(&handled), Ok(Some(ImageOffset(0x8000))));
    let (mut symbolic, _) = symbolic(&bytes, Arch::Amd64);
    let theirs = std::iter::from_fn(|| symbolic.next().unwrap()).map(|entry| entry.instruction_address);
    assert!(theirs.eq(self::entries(&section).iter().map(|entry| entry.start.0)));
}
