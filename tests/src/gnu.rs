//! Compares layout `gnu` with objects of gas.

use cfipack_cfi::Functions;
use cfipack_container::{CallFrameSection, File};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::{Arch, SectionOffset};
use cfipack_roundtrip::{Options as VerifyOptions, Report, Table, verify};

use crate::convert::{build, cfi_of};

/// The options for comparisons with gas's output.
pub const OPTIONS: Options = Options::new()
    .with_layout(Layout::Gnu)
    .with_version(cfipack_format::sframe::Version::V3)
    .with_flex(true)
    .with_share(true)
    .with_merge_functions(0);

/// An object of gas: its CFI, and gas's table of it.
#[derive(Debug)]
pub struct GasObject<'a> {
    /// The object.
    pub file: File<'a>,
    /// The CFI.
    pub call_frames: Vec<CallFrameSection<'a>>,
    /// The table, relocated. `None` in an object without functions.
    pub table: Option<cfipack_container::Section<'a>>,
    bytes: &'a [u8],
}

impl<'a> GasObject<'a> {
    /// Reads the object's sections.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, cfipack_container::Error> {
        let file = File::parse(bytes)?;
        let call_frames = file.call_frame_sections()?;
        let table = file.sframe_sections()?.pop();
        Ok(Self { file, call_frames, table, bytes })
    }

    /// Converts the CFI, and compares section bytes and relocations with gas's. The error names the difference.
    pub fn compare(&self) -> Result<(), String> {
        let arch = self.file.arch();
        let Some(theirs) = &self.table else {
            let mut sections = self.call_frames.iter();
            let is_empty = sections.all(|section| Functions::new(&section.cfi()).next().is_none());
            return if is_empty { Ok(()) } else { Err("gas wrote no table".into()) };
        };
        let (section, unsupported, malformed) = build(cfi_of(&self.call_frames), arch, OPTIONS);
        assert!(malformed.is_empty(), "gas wrote malformed CFI: {malformed:?}");
        let mut ours = vec![0; section.relocatable_len()];
        section.write_relocatable(&mut ours).map_err(|error| error.to_string())?;

        // The container has applied the relocations, which have the addends. We undo that.
        let starts: Vec<_> = section.start_fields().map(|start| (start.field, start.address())).collect();
        let mut relocated = theirs.bytes.to_vec();
        for &(SectionOffset(at), _) in &starts {
            relocated.get_mut(at..at + 8).ok_or("fewer functions than in the CFI")?.fill(0);
        }
        if ours != relocated {
            let at = ours.iter().zip(&relocated).position(|(our, their)| our != their);
            let omitted: Vec<_> = unsupported.iter().map(ToString::to_string).collect();
            let lengths = format!("{} bytes, gas {}", ours.len(), relocated.len());
            return Err(format!("{lengths}; they differ at {at:?}; omitted: {omitted:?}"));
        }
        if !self.bytes.windows(ours.len()).any(|window| window == ours) {
            return Err("the starts before relocation are not 0".into());
        }
        self.compare_relocations(theirs.index.ok_or("no section header")?, arch, &starts)
    }

    /// Compares relocations. Each function has one, in order: for its start field, relative to the field, against the
    /// function's section.
    fn compare_relocations(
        &self,
        section: usize,
        arch: Arch,
        starts: &[(SectionOffset, cfipack_format::Address)],
    ) -> Result<(), String> {
        let theirs = self.file.relocations(section).map_err(|error| error.to_string())?;
        if theirs.len() != starts.len() {
            return Err(format!("{} functions, {} relocations", starts.len(), theirs.len()));
        }
        let kind = match arch {
            Arch::Amd64 => 24,                      // R_X86_64_PC64
            Arch::Aarch64 | Arch::Aarch64Be => 260, // R_AARCH64_PREL64
            _ => 23,                                // R_390_PC64
        };
        for (relocation, &(field, function)) in theirs.iter().zip(starts) {
            let place = self.file.locate(function).ok_or("a function outside all sections")?;
            let ours = (field.0 as u64, kind, Some(place.section), place.offset as i64);
            let target = relocation.value as i64 + relocation.addend;
            let theirs = (relocation.offset, relocation.kind, relocation.section, target);
            if ours != theirs {
                return Err(format!("relocation: {ours:?}, gas {theirs:?}"));
            }
        }
        Ok(())
    }

    /// Verifies gas's own table against gas's own CFI.
    pub fn verify_gas(&self) -> Report {
        let table = self.table.iter();
        let table = table.map(|table| Section::parse(&table.bytes, table.address).expect("gas's table"));
        let tables: Vec<_> = table.collect();
        let options = VerifyOptions::new().with_limit(usize::MAX);
        verify(&cfi_of(&self.call_frames), &Table::new(&tables), &options)
    }
}
