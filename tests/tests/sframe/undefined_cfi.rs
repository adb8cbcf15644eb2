//! Makes random CFI instructions, also in orders that DWARF does not define. A function that gimli refuses must not be
//! converted, and each converted function must agree with gimli.

use cfipack_cfi::write::{Cie, Writer};
use cfipack_cfi::{self as cfi, SectionKind};
use cfipack_format::{Address, Arch};
use cfipack_testkit::random::{Case, Random, cases};
use cfipack_tests::ARCHES;
use cfipack_tests::convert::{all_options, convert};

const TABLE: Address = Address(0x100_0000);

/// Writes an instruction of a random kind, with small operands and few registers.
fn instruction(random: &mut Random, arch: Arch, bytes: &mut Vec<u8>) {
    let registers = [arch.stack_pointer(), arch.frame_pointer(), arch.return_address()];
    let registers = registers.map(|register| register.0 as u8);
    let [register, other] = [0, 0].map(|_| match random.below(8) {
        0 => 3,
        1 if arch.is_aarch64() => 34,
        _ => random.pick(&registers),
    });
    let base = random.pick(&registers[..2]);
    let small = random.pick(&[0, 1, 2, 8, 16, 24, 0x40, 0x7f]);
    let breg = 0x70 + random.pick(&registers).min(31);
    let offset = small & 0x3f;
    match random.below(30) {
        0..6 => bytes.push(0x41 + random.below(3) as u8),
        6..9 => bytes.extend([0x0c, base, small]),
        9..13 => bytes.extend([0x0e, small]),
        13..15 => bytes.extend([0x0d, base]),
        15 => bytes.extend([0x13, small]),
        16 => bytes.extend([0x12, base, small]),
        17..19 => {
            let expressions: [&[u8]; 5] = [
                &[2, breg, offset],
                &[3, breg, offset, 0x06],
                &[4, breg, offset, 0x23, 8],
                &[11, 0x77, offset, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22],
                &[0],
            ];
            bytes.push(0x0f);
            bytes.extend(random.pick(&expressions));
        }
        19 => bytes.extend([random.pick(&[0x10, 0x16]), register, 2, breg, offset]),
        20..22 => bytes.extend([0x80 | register, random.pick(&[1, 2, 3])]),
        22 => bytes.extend([random.pick(&[0x05, 0x11, 0x14, 0x15]), register, offset]),
        23 => bytes.push(0xc0 | register),
        24 => bytes.extend([random.pick(&[0x06, 0x07, 0x08]), register]),
        25 => bytes.extend([0x09, register, other]),
        26 => bytes.push(0x0a),
        27 => bytes.push(0x0b),
        28 => bytes.push(0x2d),
        _ => bytes.extend([0x2e, small]),
    }
}

fn instructions(random: &mut Random, arch: Arch, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    (0..random.below(limit)).for_each(|_| instruction(random, arch, &mut bytes));
    bytes
}

/// Writes an `.eh_frame` of functions with absolute addresses. Most have a CIE as compilers write it.
fn eh_frame(random: &mut Random, arch: Arch, functions: u64) -> Vec<u8> {
    let mut section = Writer::new(SectionKind::EhFrame, arch, Address(0));
    section.alignment = 1;
    let mut cie = None;
    for number in 0..functions {
        let cie = match cie {
            Some(cie) if number % 4 != 0 => cie,
            _ => {
                let cfa_offset = if arch == Arch::Amd64 { 8 } else { 0 };
                let mut initial = vec![0x0c, arch.stack_pointer().0 as u8, cfa_offset];
                if random.chance(30) {
                    initial = instructions(random, arch, 5);
                }
                let plain = Cie::new(arch, &initial).with_augmentation(b"").with_alignment(1, -8);
                *cie.insert(section.cie(&plain).unwrap())
            }
        };
        let instructions = instructions(random, arch, 12);
        section.fde(&cie, Address(0x1000 + 0x100 * number), 0x20, None, &instructions).unwrap();
    }
    section.into_bytes()
}

#[test]
fn what_gimli_refuses_is_not_converted() {
    let (seed, count) = cases("CFI without regard for its meaning", 400);
    let (mut functions, mut refused, mut unjudged) = (0, 0, 0);
    for case in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(case));
        let arch = random.pick(&ARCHES);
        let bytes = eh_frame(&mut random, arch, 40);
        let section = cfi::Section::new(SectionKind::EhFrame, &bytes, Address(0), arch);
        for options in all_options() {
            let converted = convert(&[section], arch, TABLE, options);
            assert!(converted.malformed.is_empty(), "{:?}", converted.malformed);
            let report = converted.verify(&[section]);
            assert!(report.is_true(), "{arch:?} {options:?}: {:?}", report.differences.first());
            assert_eq!(report.unjudged_in_table, 0, "{arch:?} {options:?}: {:#?}", report.unverified);
            functions += report.functions;
            refused += converted.omitted.len() as u64;
            unjudged += report.unjudged;
        }
    }
    println!("{refused} of {functions} functions were refused; gimli refuses {unjudged}");
    assert!(refused * 10 < functions * 9 && unjudged * 20 > functions, "too little is put to the test");
}

/// Returns CIEs of up to three instructions that restore rules, change them, or depend on them.
fn short_cies(arch: Arch) -> Vec<Vec<u8>> {
    let [frame_pointer, return_address] =
        [arch.frame_pointer(), arch.return_address()].map(|register| register.0 as u8);
    let instructions: [&[u8]; 10] = [
        // AArch64: negate_ra_state, and a restore of the state that it changes.
        &[0x2d],
        &[0xc0 | 34],
        // restore_extended, restore.
        &[0x06, return_address],
        &[0xc0 | return_address],
        &[0xc0 | frame_pointer],
        // offset, def_cfa_offset.
        &[0x80 | return_address, 1],
        &[0x80 | frame_pointer, 2],
        &[0x0e, 16],
        // remember_state, restore_state.
        &[0x0a],
        &[0x0b],
    ];
    let mut cies = vec![Vec::new()];
    let mut longest = cies.clone();
    for _ in 0..3 {
        let longer = |cie: &Vec<u8>| instructions.map(|instruction| [cie, instruction].concat());
        longest = longest.iter().flat_map(longer).collect();
        cies.extend_from_slice(&longest);
    }
    cies
}

#[test]
fn short_cies_mean_the_same_in_every_layout() {
    for arch in ARCHES {
        let mut section = Writer::new(SectionKind::EhFrame, arch, Address(0));
        section.alignment = 1;
        let mut start = 0x1000;
        for cie in short_cies(arch) {
            let initial = [&[0x0c, arch.stack_pointer().0 as u8, 8], &cie[..]].concat();
            let cie = Cie::new(arch, &initial).with_augmentation(b"").with_alignment(1, -8);
            let cie = section.cie(&cie).unwrap();
            let frame_pointer = arch.frame_pointer().0 as u8;
            for instructions in
                [&[][..], &[0x41, 0x0e, 32], &[0x80 | frame_pointer, 3, 0x41, 0xc0 | frame_pointer]]
            {
                section.fde(&cie, Address(start), 0x20, None, instructions).unwrap();
                start += 0x20;
            }
        }
        let section = section.section();
        for options in all_options() {
            let converted = convert(&[section], arch, TABLE, options);
            let report = converted.verify(&[section]);
            assert!(report.is_true(), "{arch:?} {options:?}: {:?}", report.differences.first());
            assert!(
                converted.omitted.len() as u64 * 4 < report.functions * 3,
                "too little is put to the test"
            );
        }
    }
}
