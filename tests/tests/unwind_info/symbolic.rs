//! Compares symbolic's reader of `__unwind_info` with ours. symbolic brings 28 packages, so only CI runs this test.
//!
//! A test describes each difference, and fails when the readers agree:
//! - symbolic 12 takes arm64's D pairs to be bits 5 to 8 (they are bits 8 to 11);
//! - symbolic has no rows for x86's indirect mode, whose stack size is in the code.

use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::Section;
use cfipack_format::compact_unwind::Mode;
use cfipack_format::{Arch, Cfa, Register, Row, Rule, Saved};
use symbolic_debuginfo::macho::{CompactCfiOp, CompactUnwindInfoIter, CompactUnwindOp};

use super::readers::{arrays_anywhere, d_registers, entries, tables};

/// Returns the DWARF number of a register of symbolic.
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

/// Returns symbolic's operations as a row of ours. The return address is `ra`.
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

fn parse(bytes: &[u8], arch: Arch) -> (CompactUnwindInfoIter<'_>, Register) {
    let (theirs, ra) = match arch {
        Arch::Amd64 => (symbolic_common::Arch::Amd64, Register(16)),
        _ => (symbolic_common::Arch::Arm64, Register(32)),
    };
    (CompactUnwindInfoIter::new(bytes, true, theirs).unwrap(), ra)
}

#[test]
fn it_reads_the_same_rows() {
    let mut rows = 0;
    for (name, arch, bytes) in tables("symbolic::it_reads_the_same_rows", 20) {
        let ours = Section::parse(&bytes).unwrap();
        let (mut theirs, ra) = parse(&bytes, arch);
        for entry in entries(&ours) {
            let their = theirs.next().unwrap().expect(&name);
            let range = (their.instruction_address, their.instruction_address + their.len);
            assert_eq!((entry.start.0, entry.end.0), range, "{name}");
            // The linked goldens (`l_…`) enumerate encodings, valid or not.
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
            // For a frameless function, symbolic lists registers from the highest address down.
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

#[test]
fn it_has_d_registers_elsewhere() {
    let (_, bytes) = d_registers();
    let (mut theirs, ra) = parse(&bytes, Arch::Aarch64);
    let their = theirs.next().unwrap().unwrap().instructions(&theirs);
    let (_, their) = row_of(their, &theirs, ra, Arch::Aarch64).unwrap();
    let x = [(Register(19), -24), (Register(20), -32)];
    assert_eq!(their.as_slice(), [x, [(Register(78), -40), (Register(79), -48)]].concat());
}

/// Returns a table in which a null entry has the address of a function. ld64.lld 23 writes this for an object with an
/// empty `__text`.
fn equal_addresses() -> Vec<u8> {
    let words = [
        [1, 28, 2, 36, 0, 36, 2].as_slice(),
        // Palette, index, sentinel.
        &[0x0100_0000, 0, 0x1000, 60, 60, 0x1030, 0, 60],
        // A compressed page of four entries, two at 0x1010.
        &[3, 4 << 16 | 12, 28],
        &[0x0000_0000, 0x0100_0010, 0x0000_0010, 0x0100_0020],
    ];
    words.concat().iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

#[test]
fn it_reads_unusual_tables() {
    let bytes = equal_addresses();
    let (mut theirs, _) = parse(&bytes, Arch::Amd64);
    let lengths = std::iter::from_fn(|| theirs.next().unwrap()).map(|entry| entry.len);
    assert_eq!(lengths.collect::<Vec<_>>(), [0x10, 0, 0x10, 0x10]);

    let bytes = arrays_anywhere();
    let (mut theirs, _) = parse(&bytes, Arch::Amd64);
    let starts = std::iter::from_fn(|| theirs.next().unwrap()).map(|entry| entry.instruction_address);
    let section = Section::parse(&bytes).unwrap();
    assert!(starts.eq(entries(&section).iter().map(|entry| entry.start.0)));
}
