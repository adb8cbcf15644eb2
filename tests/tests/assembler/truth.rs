//! All products of directives must have one meaning by gimli's judgement, and reading them back gives the same directives.

use cfipack_assembler::{Assembly, CallFrames, Dialect, Directives, Target, from_gimli};
use cfipack_cfi::{Functions, Personality, PointerEncoding};
use cfipack_decoder::sframe::Section as Sframe;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::{Address, Arch, Key, Register};
use cfipack_roundtrip::{Options as VerifyOptions, Table, verify};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::assembled::{Source, skipped};
use cfipack_tests::directives::{File, Mode, TARGETS};
use gimli::write::{CallFrameInstruction, CommonInformationEntry, FrameDescriptionEntry, FrameTable};

const TABLE: Address = Address(0x100_0000);

fn random_assembly(
    random: &mut Random,
    target: cfipack_tests::directives::Target,
    dialect: Dialect,
) -> (Source, Assembly) {
    // Reading back does not keep padding in the middle of a function.
    let text = File::random(random, target, Mode::Wild, 100).text().replace("\t.cfi_escape 0\n", "");
    let source = Source::parse(&text, target.arch, &skipped(&text));
    let mut assembly = Assembly::new(target.arch).with_dialect(dialect);
    for (number, function) in source.functions.iter().enumerate() {
        // LLVM's dialect refuses operands that LLVM would cut.
        let _ = assembly.push(Key(number as u64), &function.directives);
    }
    assert!(assembly.len() > 90);
    (source, assembly)
}

fn address_of(target: Target) -> Address {
    match target {
        Target::Function(Key(number)) => Address(0x1000_0000 + 0x10_0000 * number),
        _ => Address(0x200_0000),
    }
}

/// In every dialect and layout, the table has the rows of the `.eh_frame` made with it.
#[test]
fn tables_say_what_the_cfi_says() {
    let (seed, count) = cases("tables of directives", 4);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for _ in 0..count {
            for dialect in [Dialect::Gas, Dialect::Llvm] {
                let (_, assembly) = random_assembly(&mut random, target, dialect);
                let frames = assembly.eh_frame().unwrap();
                let address = Address(0x30_0000);
                let bytes = frames.to_vec(address, address_of).unwrap();
                let cfi = cfipack_cfi::Section::new(frames.kind(), &bytes, address, target.arch);
                for layout in Layout::ALL {
                    let options = Options::new().with_layout(layout);
                    let sframe = assembly.sframe(options).unwrap();
                    let mut table = vec![0; sframe.section.len()];
                    sframe.section.write(&mut table, TABLE, |key| address_of(Target::Function(key))).unwrap();
                    let tables = [Sframe::parse(&table, TABLE).unwrap()];
                    let options = VerifyOptions::new().with_limit(usize::MAX);
                    let report = verify(&[cfi], &Table::new(&tables), &options);
                    assert!(report.is_true(), "{dialect:?} {layout:?}: {:?}", report.differences.first());
                }
            }
        }
    }
}

/// Directives are read back from CFI. CFI made of these directives is the same.
#[test]
fn directives_are_read_from_cfi() {
    let (seed, count) = cases("directives of CFI", 4);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for _ in 0..count {
            let (_, assembly) = random_assembly(&mut random, target, Dialect::Gas);
            let frames = assembly.eh_frame().unwrap();
            let again = read_back(target.arch, &frames).eh_frame().unwrap();
            assert_eq!(frames.as_bytes(), again.as_bytes());
            assert_eq!(frames.relocations(), again.relocations());
        }
    }
}

fn read_back(arch: Arch, frames: &CallFrames) -> Assembly {
    let key_at = |field| {
        let relocation = frames.relocations().iter().find(|relocation| relocation.offset == field)?;
        match relocation.target {
            Target::Function(key) | Target::Personality(key) | Target::Lsda(key) => Some(key),
            _ => None,
        }
    };
    let mut assembly = Assembly::new(arch);
    for function in Functions::keyed(&frames.section(), key_at) {
        let function = function.unwrap();
        let mut directives = Directives::from_cfi(&function).unwrap();
        if let Some(Personality { encoding, field, .. }) = function.cie.personality {
            directives.personality(encoding, key_at(field).unwrap());
        }
        if let Some(field) = function.lsda_field() {
            directives.lsda(function.cie.lsda_encoding, key_at(field).unwrap());
        }
        assembly.push(function.key, &directives).unwrap();
    }
    assembly
}

/// Uses the table that cranelift-codegen makes for a function with a frame pointer.
#[test]
fn directives_are_read_from_gimli() {
    let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 1, address_size: 8 };
    let [rbp, rsp, rip] = [6, 7, 16].map(gimli::Register);
    let mut cie = CommonInformationEntry::new(encoding, 1, -8, rip);
    cie.add_instruction(CallFrameInstruction::Cfa(rsp, 8));
    cie.add_instruction(CallFrameInstruction::Offset(rip, -8));
    cie.personality = Some((gimli::DwEhPe(0x9b), gimli::write::Address::Symbol { symbol: 7, addend: 0 }));
    cie.lsda_encoding = Some(gimli::DwEhPe(0x1b));
    let mut table = FrameTable::default();
    let cie = table.add_cie(cie);
    for (function, size) in [(100, 20), (200, 30)] {
        let address = gimli::write::Address::Symbol { symbol: function, addend: 0 };
        let mut fde = FrameDescriptionEntry::new(address, size);
        fde.lsda = Some(gimli::write::Address::Symbol { symbol: function + 1, addend: 0 });
        fde.add_instruction(1, CallFrameInstruction::CfaOffset(16));
        fde.add_instruction(1, CallFrameInstruction::Offset(rbp, -16));
        fde.add_instruction(4, CallFrameInstruction::CfaRegister(rbp));
        fde.add_instruction(size - 1, CallFrameInstruction::Cfa(rsp, 8));
        table.add_fde(cie, fde);
    }
    let key_of = |address| match address {
        gimli::write::Address::Symbol { symbol, .. } => Key(symbol as u64),
        address => panic!("{address:?}"),
    };
    let functions = from_gimli(&table, Arch::Amd64, key_of).unwrap();

    let (mut theirs, mut ours) = (Assembly::new(Arch::Amd64), Assembly::new(Arch::Amd64));
    for (key, directives) in &functions {
        theirs.push(*key, directives).unwrap();
    }
    let [rbp, rsp] = [6, 7].map(Register);
    for (function, size) in [(100, 20), (200, 30)] {
        let mut directives = Directives::new(Arch::Amd64, size);
        directives.personality(PointerEncoding(0x9b), Key(7)).lsda(PointerEncoding(0x1b), Key(function + 1));
        directives.at(1).def_cfa_offset(16).offset(rbp, -16).at(4).def_cfa_register(rbp);
        directives.at(size - 1).def_cfa(rsp, 8);
        ours.push(Key(function), &directives).unwrap();
    }
    let (theirs, ours) = (theirs.eh_frame().unwrap(), ours.eh_frame().unwrap());
    assert_eq!(theirs.as_bytes(), ours.as_bytes());
    assert_eq!(theirs.relocations(), ours.relocations());
}
