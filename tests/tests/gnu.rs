//! Layout `gnu` is what gas 2.47 writes for an object: section bytes and relocations.
//!
//! `docs/gnu-exceptions.md` lists the goldens for which it is not, and why. The list is exact: a
//! golden on it that comes to match fails the test as one that stops matching does.

use std::collections::BTreeMap;
use std::path::Path;

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Header;
use cfipack_format::{Arch, SectionOffset};
use cfipack_roundtrip::{Options as VerifyOptions, Table, verify};
use cfipack_tests::convert::{build, cfi_of};
use cfipack_tests::corpora::{self, Golden};

#[test]
fn goldens_are_what_gas_wrote() {
    let (mut different, mut explanations) = (BTreeMap::new(), String::new());
    let goldens = corpora::sframe("gas247");
    for golden in &goldens {
        if let Err(why) = compare(golden) {
            explanations += &format!("{}: {why}\n", golden.name);
            let wrong = gas_is_wrong(golden);
            different.insert(golden.name.clone(), if wrong { WRONG } else { NOT_CARRIED });
        }
    }
    println!("{} of {} goldens are as gas wrote them", goldens.len() - different.len(), goldens.len());
    println!("{explanations}");
    assert_eq!(different, exceptions(), "left: what differs; right: what docs/gnu-exceptions.md says");
}

const NOT_CARRIED: &str = "## What `.eh_frame` does not carry";
const WRONG: &str = "## Where gas's row is wrong";

/// The goldens in the first column of the document's tables, with the heading above.
fn exceptions() -> BTreeMap<String, &'static str> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gnu-exceptions.md");
    let (mut heading, mut exceptions) = ("", BTreeMap::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        heading = [NOT_CARRIED, WRONG].into_iter().find(|&heading| heading == line).unwrap_or(heading);
        if let Some((name, _)) = line.strip_prefix("| `").and_then(|line| line.split_once('`')) {
            exceptions.insert(name.to_string(), heading);
        }
    }
    exceptions
}

/// Whether gas's table contradicts the CFI that gas wrote beside it.
fn gas_is_wrong(golden: &Golden) -> bool {
    let file = File::parse(&golden.object).unwrap();
    let (call_frames, tables) = (file.call_frame_sections().unwrap(), file.sframe_sections().unwrap());
    let tables: Vec<_> =
        tables.iter().map(|table| Section::parse(&table.bytes, table.address).unwrap()).collect();
    let report = verify(&cfi_of(&call_frames), &Table::new(&tables), &VerifyOptions::default());
    !call_frames.is_empty() && (report.pcs_different > 0 || report.malformed > 0)
}

fn compare(golden: &Golden) -> Result<(), String> {
    let file = File::parse(&golden.object).map_err(|error| error.to_string())?;
    let call_frames = file.call_frame_sections().map_err(|error| error.to_string())?;
    let theirs = file.sframe_sections().map_err(|error| error.to_string())?;
    let [theirs] = &theirs[..] else {
        let functions: usize = call_frames.iter().map(|section| section.cfi().functions().count()).sum();
        return if functions == 0 { Ok(()) } else { Err("gas wrote no table".into()) };
    };
    let options = Options { layout: Layout::Gnu, ..Options::default() };
    let (section, unsupported, malformed) = build(cfi_of(&call_frames), golden.arch, options);
    assert!(malformed.is_empty(), "{}: {malformed:?}", golden.name);
    let mut ours = vec![0; section.relocatable_len()];
    section.write_relocatable(&mut ours).map_err(|error| error.to_string())?;

    // What the file holds at the starts is zero (the relocations carry the addend), but the
    // container has applied the relocations.
    let starts: Vec<_> = section.start_fields().collect();
    let mut relocated = theirs.bytes.to_vec();
    for &(SectionOffset(at), _) in &starts {
        relocated.get_mut(at..at + 8).ok_or("fewer functions")?.fill(0);
    }
    if ours != relocated {
        let at = ours.iter().zip(&relocated).position(|(our, their)| our != their);
        let reasons: Vec<_> = unsupported.iter().map(|unsupported| unsupported.reason.to_string()).collect();
        return Err(format!("{} bytes, gas {}; differ at {at:?}; left out: {reasons:?}", ours.len(), relocated.len()));
    }
    assert!(golden.object.windows(ours.len()).any(|window| window == ours), "{}: starts are not 0", golden.name);

    let relocations = file.relocations(theirs.index.unwrap()).map_err(|error| error.to_string())?;
    assert_eq!(relocations.len(), starts.len(), "{}", golden.name);
    for (relocation, (field, function)) in relocations.iter().zip(starts) {
        let place = file.locate(function).ok_or("a function outside all sections")?;
        let ours = (field.0 as u64, kind(golden.arch), Some(place.section), place.offset as i64);
        let target = relocation.value as i64 + relocation.addend;
        let theirs = (relocation.offset, relocation.kind, relocation.section, target);
        assert_eq!(ours, theirs, "{}: relocation", golden.name);
        assert!(field.0 >= Header::SIZE);
    }
    Ok(())
}

/// R_X86_64_PC64, R_AARCH64_PREL64, R_390_PC64.
fn kind(arch: Arch) -> u32 {
    match arch {
        Arch::Amd64 => 24,
        Arch::Aarch64 | Arch::Aarch64Be => 260,
        Arch::S390x => 23,
        Arch::I386 | Arch::Arm64_32 => unreachable!("not a target of .sframe"),
    }
}
