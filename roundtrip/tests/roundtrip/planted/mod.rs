//! The judge and the code that it judges share no interpreter of CFI. So the judge finds a defect in either interpreter.
//!
//! A defective interpreter reads CFI as if it were other CFI. So one side of the comparison gets the CFI of an object
//! that gas wrote, and the other side gets this CFI with altered instructions. For a defect of the interpreter in
//! `cfipack-cfi`, the table is made of the altered CFI and verified against the original. For a defect of the judge,
//! the table is made of the original and verified against the altered CFI. The report must show the alteration exactly
//! if it changes how a frame is unwound. `meaning` decides this by executing gimli's rows.

mod defects;
mod meaning;
mod places;

use std::collections::BTreeMap;

use cfipack_container::File;
use cfipack_decoder::sframe;
use cfipack_encoder::sframe::{Builder, Options as TableOptions, Parallel};
use cfipack_format::cfi::{Section, SectionKind};
use cfipack_format::pool::Serial;
use cfipack_format::{Arch, Cfa, Key, Rule};
use cfipack_roundtrip::cfi::Answer;
use cfipack_roundtrip::{Difference, Options, Report, Table, verify};

use crate::gas::corpus;
use crate::made::{self, CFI_ADDRESS, TABLE_ADDRESS};
use defects::{DEFECTS, List};
use meaning::{Frames, Relation};
use places::{Places, instructions};

/// The CFI of an object that gas wrote. A table can hold all of it.
struct Object {
    name: String,
    arch: Arch,
    bytes: Vec<u8>,
    places: Places,
    table: Vec<u8>,
}

/// Makes a table of CFI.
fn table(bytes: &[u8], arch: Arch) -> Vec<u8> {
    let mut builder = Builder::new(arch, TableOptions::default()).unwrap();
    builder.push_all(Parallel::new(&section(bytes, arch), &Serial), |_| ());
    let built = builder.finish();
    let mut table = vec![0; built.len()];
    built.write(&mut table, TABLE_ADDRESS, Key::address).unwrap();
    table
}

fn section(bytes: &[u8], arch: Arch) -> Section<'_> {
    Section::new(SectionKind::EhFrame, bytes, CFI_ADDRESS, arch)
}

fn judge(bytes: &[u8], arch: Arch, table: &[u8]) -> Report {
    let tables = [sframe::Section::parse(table, TABLE_ADDRESS).unwrap()];
    verify(&[section(bytes, arch)], &Table::new(&tables), &Options::default())
}

impl Object {
    /// Returns `None` if gimli needs help to read the CFI, or if a table does not hold every function.
    fn new(name: &str, bytes: &[u8], arch: Arch) -> Option<Self> {
        let meaning = Frames::read(bytes, arch)?;
        let table = table(bytes, arch);
        let is_whole = judge(bytes, arch, &table).is_complete();
        let places = Places::find(bytes, arch).filter(|_| is_whole && meaning.are_whole())?;
        Some(Self { name: name.to_owned(), arch, bytes: bytes.to_vec(), places, table })
    }
}

/// Returns gas's objects of the corpus, and CFI with instructions that no object of the corpus has.
fn objects() -> Vec<Object> {
    let mut objects = Vec::new();
    for path in corpus(".gas247.o") {
        let object = std::fs::read(&path).unwrap();
        let file = File::parse(&object).unwrap();
        for frames in file.call_frame_sections().unwrap() {
            let name = path.file_name().unwrap().to_str().unwrap();
            let object = Object::new(name, &frames.section.bytes, file.arch());
            objects.extend(object.filter(|_| frames.kind == SectionKind::EhFrame));
        }
    }
    assert!(objects.len() > 200, "{} objects", objects.len());
    let (mut cfi, cie) = made::Cfi::amd64();
    // def_cfa_sf rsp+16; val_offset_sf rsp 0; val_expression rsp = rsp+16.
    cfi.fde(cie, 0x1000, 8, &[0x41, 0x12, 7, 0x7e, 0x41, 0x15, 7, 0, 0x41, 0x16, 7, 2, 0x77, 16, 0, 0]);
    objects.push(Object::new("rare instructions", cfi.section().bytes, Arch::Amd64).unwrap());
    objects
}

/// The number of alterations, by their effect.
#[derive(Default, Debug)]
struct Outcomes {
    different: u32,
    same: u32,
    undefined: u32,
    /// Reports on frames that unwind alike, but are omitted, unjudged or different to be safe. The encoder or gimli
    /// refuses their instructions, or the judge does not know the form of an expression.
    refused: u32,
}

/// Returns whether the CFI's side of a difference is an expression of a form that the judge does not know.
fn has_unread_expression(difference: &Difference) -> bool {
    match difference.cfi {
        Some((Answer::Row(row), _)) => {
            let rules = [row.return_address, row.frame_pointer];
            row.cfa == Cfa::Expression || rules.contains(&Rule::Expression)
        }
        Some((Answer::StackPointer { rule, .. } | Answer::SignState(rule), _)) => rule == Rule::Expression,
        _ => false,
    }
}

impl Object {
    /// Gives altered CFI to one side of the comparison, then to the other side. `what` describes the alteration.
    fn judge_both_sides(&self, altered: &[u8], what: &dyn Fn() -> String, outcomes: &mut Outcomes) {
        let original = Frames::read(&self.bytes, self.arch).unwrap();
        let Some(frames) = Frames::read(altered, self.arch) else {
            outcomes.undefined += 1;
            return;
        };
        let relation = original.compare(&frames);
        let defective_encoder = judge(&self.bytes, self.arch, &table(altered, self.arch));
        let defective_judge = judge(altered, self.arch, &self.table);
        let describe = |side: &str| format!("{}, {}, defective {side}", self.name, what());
        match relation {
            Relation::Different => {
                outcomes.different += 1;
                assert!(!defective_encoder.is_faultless(), "{}", describe("encoder"));
                assert!(!defective_judge.is_faultless(), "{}", describe("judge"));
            }
            Relation::Same => {
                outcomes.same += 1;
                for (report, side) in [(defective_encoder, "encoder"), (defective_judge, "judge")] {
                    let is_unread = report.differences.iter().all(has_unread_expression);
                    assert!(is_unread, "{}: {:#?}", describe(side), report.differences);
                    outcomes.refused += u32::from(!report.is_complete());
                }
            }
            // The table has rows for PCs at which the judge has no row, unless the judge knows an instruction that gimli
            // does not know: `DW_CFA_MIPS_advance_loc8` or `DW_CFA_GNU_negative_offset_extended`.
            Relation::Undefined => {
                outcomes.undefined += 1;
                let mut bytes = self.bytes.iter().zip(altered);
                let is_known = bytes.any(|(old, new)| old != new && [0x1d, 0x2f].contains(new));
                assert!(is_known || !defective_judge.is_faultless(), "{}", describe("judge"));
            }
        }
    }

    /// Returns the CFI with a defect in every FDE that has room for it, or `None` if no FDE changes.
    fn with_defect(&self, apply: fn(&mut List)) -> Option<Vec<u8>> {
        let mut altered = self.bytes.clone();
        for place in &self.places.of_fdes {
            let original = instructions(&self.bytes[place.clone()]);
            let mut list = original.clone();
            apply(&mut list);
            let bytes = list.concat();
            if list != original && bytes.len() <= place.len() {
                altered[place.clone()].fill(0);
                altered[place.start..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        (altered != self.bytes).then_some(altered)
    }
}

/// Each rule of the interpreter is broken, one after the other.
#[test]
fn each_rule() {
    let objects = objects();
    let mut found = BTreeMap::new();
    for defect in &DEFECTS {
        let outcomes: &mut Outcomes = found.entry(defect.name).or_default();
        for object in &objects {
            let Some(altered) = object.with_defect(defect.apply) else { continue };
            object.judge_both_sides(&altered, &|| defect.name.to_owned(), outcomes);
        }
    }
    for (name, places, value) in [
        ("code alignment ignored", (|places| &places.code_alignments) as fn(&Places) -> &Vec<usize>, 1),
        ("data alignment ignored", |places| &places.data_alignments, 1),
    ] {
        let outcomes = found.entry(name).or_default();
        for object in &objects {
            let mut altered = object.bytes.clone();
            places(&object.places).iter().for_each(|&at| altered[at] = value);
            object.judge_both_sides(&altered, &|| name.to_owned(), outcomes);
        }
    }
    for (name, outcomes) in &found {
        println!("{name}: {outcomes:?}");
    }
    let unseen: Vec<_> = found.iter().filter(|(_, outcomes)| outcomes.different == 0).collect();
    assert!(unseen.is_empty(), "no object shows {unseen:?}");
}

/// Each bit of each instruction of each object is changed, in CIEs and in FDEs.
#[test]
fn each_bit() {
    let mut outcomes = Outcomes::default();
    for object in objects() {
        let mut altered = object.bytes.clone();
        for at in object.places.of_cies.iter().chain(&object.places.of_fdes).cloned().flatten() {
            for bit in 0..8 {
                altered[at] ^= 1 << bit;
                object.judge_both_sides(&altered, &|| format!("bit {bit} of byte {at:#x}"), &mut outcomes);
                altered[at] ^= 1 << bit;
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.different > 1000 && outcomes.same > 1000, "{outcomes:?}");
}

/// The judge's list of dependencies shows that it shares no interpreter with the code that it judges.
#[test]
fn the_judge_depends_on_no_interpreter() {
    let manifest = include_str!("../../../Cargo.toml");
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = dependencies
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split(['.', ' ']).next().unwrap());
    let names: Vec<_> = names.collect();
    // The last two only write reports.
    assert_eq!(
        names,
        ["cfipack-format", "cfipack-decoder", "gimli", "iced-x86", "object", "schemars", "serde"]
    );
}
