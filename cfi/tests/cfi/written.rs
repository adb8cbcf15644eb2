//! Reads the output of the writer with gimli.

use cfipack_cfi::write::{Cie, Error, InstructionWriter, Writer};
use cfipack_cfi::{Instruction, PointerEncoding, SectionKind};
use cfipack_format::{Address, Arch, Endian, Register};
use gimli::{BaseAddresses, DebugFrame, EhFrame, EndianSlice, Pointer, RunTimeEndian, UnwindSection};

const ADDRESS: Address = Address(0x4_0000);
const START: Address = Address(0x1_2340);
const LSDA: Address = Address(0x5_0000);
const PERSONALITY: Address = Address(0x6_0000);

/// Tries every kind of section, format, version and pointer encoding.
#[test]
fn records_are_read_by_gimli() {
    let encodings = [0x00, 0x03, 0x04, 0x0b, 0x0c, 0x1b, 0x1c, 0x23, 0x30, 0x01, 0x09].map(PointerEncoding);
    for arch in [Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x, Arch::I386] {
        for (kind, version, is_64_bit, encoding) in SHAPES.iter().flat_map(|&(kind, version, is_64_bit)| {
            encodings.map(|encoding| (kind, version, is_64_bit, encoding))
        }) {
            let mut writer = Writer::new(kind, arch, ADDRESS);
            (writer.is_64_bit, writer.text, writer.data) = (is_64_bit, Address(0x1_0000), Address(0x1_1000));
            let mut cie = Cie::new(arch, &[]).with_fde_encoding(encoding);
            cie.version = version;
            if kind == SectionKind::EhFrame {
                cie = cie.with_augmentation(b"zPLR");
                (cie.personality, cie.lsda_encoding) = (Some((encoding, PERSONALITY)), encoding);
            } else {
                cie = cie.with_augmentation(b"");
            }
            let cie = writer.cie(&cie).unwrap();
            writer.fde(&cie, START, 0x77, None, &[]).unwrap();
            let at = writer.offset();
            let field = writer.fde(&cie, START, 0x77, Some(LSDA), &[0x41, 0x0e, 16]).unwrap();
            assert!(field > at);
            check(arch, &writer, at.0);
        }
    }
}

const SHAPES: [(SectionKind, u8, bool); 7] = [
    (SectionKind::EhFrame, 1, false),
    (SectionKind::EhFrame, 3, false),
    (SectionKind::EhFrame, 1, true),
    (SectionKind::DebugFrame, 1, false),
    (SectionKind::DebugFrame, 3, true),
    (SectionKind::DebugFrame, 4, false),
    (SectionKind::DebugFrame, 4, true),
];

/// Reads the FDE at an offset with gimli.
fn check(arch: Arch, writer: &Writer, at: usize) {
    let endian = match arch.endian() {
        Endian::Little => RunTimeEndian::Little,
        Endian::Big => RunTimeEndian::Big,
    };
    let section = writer.section();
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address.0)
        .set_text(section.text.0)
        .set_got(section.data.0);
    let reader = EndianSlice::new(section.bytes, endian);
    match section.kind {
        SectionKind::EhFrame => {
            let mut frames = EhFrame::from(reader);
            frames.set_address_size(arch.pointer_size());
            let fde = frames.fde_from_offset(&bases, at.into(), EhFrame::cie_from_offset).unwrap();
            assert_eq!((fde.initial_address(), fde.len()), (START.0, 0x77));
            assert_eq!(fde.lsda(), Some(Pointer::Direct(LSDA.0)));
            assert_eq!(fde.personality(), Some(Pointer::Direct(PERSONALITY.0)));
            assert!(fde.instructions(&frames, &bases).next().unwrap().is_some());
        }
        SectionKind::DebugFrame => {
            let mut frames = DebugFrame::from(reader);
            frames.set_address_size(arch.pointer_size());
            let fde = frames.fde_from_offset(&bases, at.into(), DebugFrame::cie_from_offset).unwrap();
            assert_eq!((fde.initial_address(), fde.len()), (START.0, 0x77));
            assert_eq!(fde.cie().return_address_register().0, arch.return_address().0);
            assert!(fde.instructions(&frames, &bases).next().unwrap().is_some());
        }
    }
}

/// Augmentation data is written as given: with letters of another meaning, with more bytes than a reader
/// expects, or with a length of two bytes.
#[test]
fn augmentation_data_by_hand() {
    let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, ADDRESS);
    writer.alignment = 1;
    let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8]).with_augmentation_data(&[3, 0x1b, 0xaa, 0xbb]);
    let cie = writer.cie(&cie).unwrap();
    let at = writer.offset().0;
    assert_eq!(writer.as_bytes()[4..], *b"\0\0\0\0\x01zR\0\x01\x78\x10\x03\x1b\xaa\xbb\x0c\x07\x08");
    writer.fde_with_augmentation_data(&cie, START, 0x77, &[0x82, 0, 1, 2], &[0x41, 0x0e, 16]).unwrap();
    assert_eq!(writer.as_bytes()[at + 16..], [0x82, 0, 1, 2, 0x41, 0x0e, 16]);
    check_start(&writer, at);
    let odd = Cie::new(Arch::Amd64, &[]).with_augmentation(b"BzQ").with_augmentation_data(&[0xee]);
    let at = writer.offset().0;
    writer.cie(&odd).unwrap();
    assert_eq!(writer.as_bytes()[at + 4..], *b"\0\0\0\0\x01BzQ\0\x01\x78\x10\xee");
}

/// Checks the start and size of an FDE of x86-64, and its instructions, as gimli reads them.
fn check_start(writer: &Writer, at: usize) {
    let bases = BaseAddresses::default().set_eh_frame(ADDRESS.0);
    let frames = EhFrame::new(writer.as_bytes(), gimli::LittleEndian);
    let fde = frames.fde_from_offset(&bases, at.into(), EhFrame::cie_from_offset).unwrap();
    assert_eq!((fde.initial_address(), fde.len()), (START.0, 0x77));
    let mut instructions = fde.instructions(&frames, &bases);
    assert_eq!(instructions.next(), Ok(Some(gimli::CallFrameInstruction::AdvanceLoc { delta: 1 })));
    assert_eq!(instructions.next(), Ok(Some(gimli::CallFrameInstruction::DefCfaOffset { offset: 16 })));
    assert_eq!(instructions.next(), Ok(None));
}

/// If a record cannot be written, nothing is appended.
#[test]
fn what_does_not_fit() {
    let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, ADDRESS);
    let cie = writer.cie(&Cie::new(Arch::Amd64, &[])).unwrap();
    let before = writer.as_bytes().to_vec();
    let far = Address(1 << 40);
    let encoding = PointerEncoding::PC_RELATIVE_SIGNED_4;
    let value = far.0 - (ADDRESS.0 + before.len() as u64 + 8);
    assert_eq!(writer.fde(&cie, far, 1, None, &[]), Err(Error::Pointer { value, encoding }));
    let mut other = Cie::new(Arch::Amd64, &[]);
    for (augmentation, letter) in [(&b"zX"[..], b'X'), (b"LR", b'L')] {
        other = other.with_augmentation(augmentation);
        assert_eq!(writer.cie(&other).unwrap_err(), Error::Augmentation { letter });
    }
    (other.augmentation, other.version) = (b"", 2);
    assert_eq!(writer.cie(&other).unwrap_err(), Error::Version { version: 2 });
    (other.version, other.return_address) = (1, Register(256));
    assert_eq!(writer.cie(&other).unwrap_err(), Error::ReturnColumn { register: Register(256) });
    assert_eq!(writer.as_bytes(), before);

    let mut instructions = InstructionWriter::new(Arch::Aarch64, 4, -8);
    let uneven = Error::Factor { value: 6, factor: 4 };
    assert_eq!(instructions.put(Instruction::Advance(6)), Err(uneven));
    let uneven = Error::Factor { value: -12, factor: -8 };
    assert_eq!(instructions.put(Instruction::Offset(Register(29), -12)), Err(uneven));
    let long = Error::Advance { delta: 1 << 34 };
    assert_eq!(instructions.put(Instruction::Advance(1 << 34)), Err(long));
    assert_eq!(instructions.put(Instruction::SetLocation(START)), Err(Error::SetLocation));
    assert!(instructions.as_bytes().is_empty());
}

/// Each instruction in its shortest form, by the table of DWARF 5, section 7.24.
#[test]
fn instructions_have_their_shortest_form() {
    let (low, high) = (Register(3), Register(0x90));
    let written: [(Instruction<'_>, &[u8]); 31] = [
        (Instruction::Nop, &[0x00]),
        (Instruction::Advance(0), &[]),
        (Instruction::Advance(1), &[0x41]),
        (Instruction::Advance(0x3f), &[0x7f]),
        (Instruction::Advance(0x40), &[0x02, 0x40]),
        (Instruction::Advance(0xff), &[0x02, 0xff]),
        (Instruction::Advance(0x100), &[0x03, 0x00, 0x01]),
        (Instruction::Advance(0x1_0000), &[0x04, 0x00, 0x00, 0x01, 0x00]),
        (Instruction::DefCfa(low, 0), &[0x0c, 3, 0]),
        (Instruction::DefCfa(high, 128), &[0x0c, 0x90, 1, 0x80, 1]),
        (Instruction::DefCfa(low, -8), &[0x12, 3, 1]),
        (Instruction::DefCfaRegister(high), &[0x0d, 0x90, 1]),
        (Instruction::DefCfaOffset(16), &[0x0e, 16]),
        (Instruction::DefCfaOffset(-16), &[0x13, 2]),
        (Instruction::DefCfaExpression(&[0x77, 8]), &[0x0f, 2, 0x77, 8]),
        (Instruction::Undefined(low), &[0x07, 3]),
        (Instruction::SameValue(low), &[0x08, 3]),
        (Instruction::Offset(low, -16), &[0x83, 2]),
        (Instruction::Offset(high, -16), &[0x05, 0x90, 1, 2]),
        (Instruction::Offset(low, 8), &[0x11, 3, 0x7f]),
        (Instruction::ValOffset(low, -24), &[0x14, 3, 3]),
        (Instruction::ValOffset(low, 0), &[0x14, 3, 0]),
        (Instruction::ValOffset(low, 24), &[0x15, 3, 0x7d]),
        (Instruction::Register(low, high), &[0x09, 3, 0x90, 1]),
        (Instruction::Expression(low, &[0x70, 8]), &[0x10, 3, 2, 0x70, 8]),
        (Instruction::ValExpression(low, &[0x70, 8]), &[0x16, 3, 2, 0x70, 8]),
        (Instruction::Restore(low), &[0xc3]),
        (Instruction::Restore(high), &[0x06, 0x90, 1]),
        (Instruction::RememberState, &[0x0a]),
        (Instruction::RestoreState, &[0x0b]),
        (Instruction::ArgsSize(300), &[0x2e, 0xac, 2]),
    ];
    let mut all = InstructionWriter::new(Arch::Amd64, 1, -8);
    let mut expected = Vec::new();
    for (instruction, bytes) in written {
        let mut writer = InstructionWriter::new(Arch::Amd64, 1, -8);
        writer.put(instruction).unwrap();
        assert_eq!(writer.as_bytes(), bytes, "{instruction:?}");
        all.put(instruction).unwrap();
        expected.extend_from_slice(bytes);
    }
    assert_eq!(all.into_bytes(), expected);
    // Big-endian output, in units of four bytes.
    let mut big = InstructionWriter::new(Arch::Aarch64Be, 4, -8);
    for delta in [4 * 0x102, 4 * 0x1_0203] {
        big.put(Instruction::Advance(delta)).unwrap();
    }
    big.put(Instruction::NegateRaState).unwrap();
    big.put(Instruction::SetRaState(1, -4)).unwrap();
    assert_eq!(big.as_bytes(), [0x03, 1, 2, 0x04, 0, 1, 2, 3, 0x2d, 0x2b, 1, 0x7f]);
    let uneven = Error::Factor { value: -6, factor: 4 };
    assert_eq!(big.put(Instruction::SetRaState(1, -6)), Err(uneven));
    // An instruction that does not fit appends nothing.
    for refused in [Instruction::Advance(2), Instruction::Offset(low, 4), Instruction::Advance(4 << 32)] {
        assert!(big.put(refused).is_err(), "{refused:?}");
    }
    assert_eq!(big.as_bytes().len(), 12);
}
