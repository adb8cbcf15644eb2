//! Excluded FDEs are skipped by each path of the converter, and by the verifier. The section keeps its bytes.

use cfipack_cfi::write::{Cie, InstructionWriter, Writer};
use cfipack_cfi::{Excluded, Exclusion, Functions, Instruction, SectionKind};
use cfipack_encoder::sframe::{Builder, Layout, Options, Parallel};
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key, Register};
use cfipack_roundtrip::{Table, verify};
use cfipack_testkit::random::{self, Case};

const TABLE: Address = Address(0x900_0000);

/// Writes plain functions, each with its own rows. Returns the offsets of their FDEs.
fn section(kind: SectionKind, functions: u64) -> (Writer, Vec<usize>) {
    let mut writer = Writer::new(kind, Arch::Amd64, Address(0x80_0000));
    let mut at_entry = InstructionWriter::new(Arch::Amd64, 1, -8);
    at_entry.put(Instruction::DefCfa(Register(7), 8)).unwrap();
    let mut cie = Cie::new(Arch::Amd64, at_entry.as_bytes());
    if kind == SectionKind::DebugFrame {
        cie = cie.with_augmentation(b"");
    }
    let cie = writer.cie(&cie).unwrap();
    let mut starts = Vec::new();
    for function in 0..functions {
        let mut body = InstructionWriter::for_cie(&cie);
        body.put(Instruction::Advance(1 + function % 7)).unwrap();
        body.put(Instruction::DefCfaOffset(16 + 8 * (function % 11) as i64)).unwrap();
        starts.push(writer.offset().0);
        writer.fde(&cie, Address(0x10_0000 + 16 * function), 16, None, body.as_bytes()).unwrap();
    }
    (writer, starts)
}

#[test]
fn both_sides_skip_excluded_fdes() {
    let (seed, count) = random::cases("excluded", 60);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let kind = random.pick(&[SectionKind::EhFrame, SectionKind::EhFrame, SectionKind::DebugFrame]);
        let functions = random.pick(&[1, 5, 100, 3000]);
        let (writer, starts) = section(kind, functions);
        let share = random.pick(&[0, 3, 50, 97, 100]);
        let (mut excluded, mut kept) = (Vec::new(), Vec::new());
        for (number, &start) in (0..).zip(&starts) {
            if random.chance(share) {
                let reason = random.pick(&Exclusion::ALL);
                excluded.push(Excluded { fde: cfipack_format::SectionOffset(start), reason });
            } else {
                kept.push(Address(0x10_0000 + 16 * number));
            }
        }
        let section = writer.section().with_excluded(&excluded);
        let read: Vec<_> = Functions::new(&section).map(|function| function.unwrap().key.address()).collect();
        assert_eq!(read, kept, "a walk");
        let judged = cfipack_roundtrip::cfi::Functions::find(&[section]);
        assert!(
            judged.as_slice().iter().map(|function| function.start).eq(kept.iter().copied()),
            "the judge"
        );
        for layout in Layout::ALL {
            for threads in [1, 2, 3] {
                let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap();
                let pushed = builder
                    .push_all(Parallel::new(&section, &Threads(threads)), |omitted| panic!("{omitted:?}"));
                assert_eq!(pushed, kept.len() as u64, "{layout:?}, {threads} threads");
                let bytes = builder.finish().into_bytes(TABLE, Key::address).unwrap();
                let tables = [cfipack_decoder::sframe::Section::parse(&bytes, TABLE).unwrap()];
                let report = verify(&[section], &Table::new(&tables), &Default::default());
                assert!(report.is_true(), "{report:?}");
                assert_eq!((report.equal, report.functions), (kept.len() as u64, kept.len() as u64));
            }
        }
    }
}
