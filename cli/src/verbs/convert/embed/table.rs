//! Puts a table into an object or a linked file, and judges the table in the new file.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use cfipack_container::{CallFrameSection, File, Kind};
use cfipack_decoder::sframe;
use cfipack_edit::{Embedding, Rewrite, StartRelocation, embed_in_object, without_sframe};
use cfipack_encoder::sframe::Builder;
use cfipack_format::Unsupported;
use cfipack_format::widen::ToU64;
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::{Options, Report};
use serde::Serialize;

use super::Conversions;
use crate::conversion::{Conversion, Malformed};
use crate::edit::{Edit, Problem, Skip};
use crate::io::absent::code_of;
use crate::io::debug_file::{DebugFile, DebugFileJson};
use crate::io::input;
use crate::kept::OldRows;
use crate::missing::ConversionReasons;
use crate::report::cfi_bytes::{CfiBytes, TableBytes};
use crate::report::count::Counts;
use crate::report::excluded::{self, Excluded, Unplaced};
use crate::report::kernel::KernelReport;
use crate::report::place::Places;
use crate::report::verification;
use crate::synthesized::SynthesizedCounts;
use crate::table_options::Consumer;

/// The edit: a table for an object or a linked file.
pub struct Embed {
    /// The options of the tables.
    pub conversions: Conversions,
    /// The separate debug file of the only input.
    pub debug_file: Option<Arc<DebugFile>>,
    /// True if a file that has a table of the requested version stays as it is.
    pub skip_done: bool,
    /// True if relocatable objects stay as they are, also in archives.
    pub linked_only: bool,
    /// True if the result is another file than the input, so that the user expects a table in it.
    pub is_copy: bool,
    /// True if tables are verified.
    pub verify: bool,
}

/// The report about the table of a file or of an archive's member.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Table {
    /// The way in which a linked file got room for its table. Null for a relocatable object, and without a table.
    pub way: Option<&'static str>,
    /// The address of the table in a linked file.
    pub address: Option<String>,
    /// The version of the format.
    pub version: u8,
    /// The number of functions of the CFI.
    pub functions: u64,
    /// The number of functions in the table.
    pub converted: u64,
    /// The number of functions that the table omits.
    pub omitted: u64,
    /// The number of omitted functions for each reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The functions that no CFI covers, if `--synthesize` is given. The other counts do not include them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesized: Option<SynthesizedCounts>,
    /// The rows of the table that the file had before. Absent if it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_rows: Option<OldRows>,
    /// The sizes of the table and of the CFI, in bytes.
    pub bytes: TableBytes,
    /// The code and the part of it that the table covers, if it was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_coverage: Option<CodeBytes>,
    /// The number of rows of outermost frames.
    pub outermost: u64,
    /// True if the table in the new file is verified against the CFI.
    pub verified: bool,
    /// The number of FDEs that cannot be read.
    pub unreadable: u64,
    /// Describes the FDEs that cannot be read, and the functions that cannot be judged.
    #[serde(skip)]
    pub unjudged: Vec<String>,
    /// True if the table has rows that cannot be judged.
    #[serde(skip)]
    has_unproven_rows: bool,
    /// FDEs that describe no function of their own, by reason.
    #[serde(skip_serializing_if = "Excluded::is_empty")]
    pub excluded: Excluded,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_file: Option<DebugFileJson>,
    /// FDEs of unknown functions.
    #[serde(skip)]
    pub unplaced: Vec<Unplaced>,
    /// The omitted functions, for the verification of the new file.
    #[serde(skip)]
    omitted_functions: Vec<Unsupported>,
}

impl Edit for Embed {
    type Report = Table;

    const WAY_OUT: &'static str = "--section FILE writes the table alone";

    fn edit<'a>(&self, object: &'a [u8]) -> Result<(Option<Rewrite<'a>>, Table), Problem> {
        let file = File::parse(object)?;
        let options = self.conversions.table.get();
        if file.as_macho().is_some() {
            return Err(Problem::Skip(Skip::MachO));
        }
        if Builder::new(file.arch(), options).is_err() {
            return Err(Problem::Skip(Skip::OtherKind));
        }
        if self.linked_only && file.kind() == Kind::Relocatable {
            return Err(Problem::Skip(Skip::NotLinked));
        }
        if self.skip_done && self.is_done(&file)? {
            return Err(Problem::Skip(Skip::HasTable));
        }
        let described = self.with_debug_file(object)?;
        let sections = described.call_frame_sections()?;
        if !input::describe_functions(&sections) && !self.conversions.table.synthesizes() {
            return Err(Problem::Skip(Skip::without_cfi(&file)));
        }
        let Conversions { table, threads, .. } = self.conversions;
        let table = table.replacing();
        let table = if file.kind() == Kind::Relocatable { table.for_linker() } else { table };
        let conversion = Conversion::unplaced(&described, &sections, &table, threads)?;
        if conversion.functions == 0 && !table.synthesizes() && file.sframe_sections()?.is_empty() {
            return Err(Problem::Skip(Skip::without_cfi(&described)));
        }
        if conversion.section.num_fdes() == 0 {
            // No reader needs a table without functions. If the file has a table, it is stale.
            return Ok((without_sframe(&file)?, self.table(&described, &sections, conversion, &[])?));
        }
        match file.kind() {
            Kind::Linked => self.linked(&file, &described, &sections, conversion),
            Kind::Relocatable => self.relocatable(&file, &sections, conversion),
        }
    }

    fn retry(&self, table: &Table) -> Option<Self> {
        let Self { conversions, .. } = *self;
        let judged_only = conversions.table.judged_only().filter(|_| table.has_unproven_rows)?;
        Some(Self {
            conversions: Conversions { table: judged_only, ..conversions },
            debug_file: self.debug_file.clone(),
            ..*self
        })
    }

    fn misses(&self, member: &[u8], skip: Skip) -> Option<CodeBytes> {
        if skip == Skip::Bitcode && self.linked_only {
            return None;
        }
        let mut code = CodeBytes::default();
        if matches!(skip, Skip::NoCfi | Skip::Unplaced(_)) {
            // A member whose code cannot be read has none: it stays as it is, whatever it is.
            code = File::parse(member).map_or(code, |file| code_of(&file));
        }
        (skip.is_of_other_kind() || skip.is_unusable() || code.wanted() != 0).then_some(code)
    }

    fn judge(&self, new: &[u8], table: &mut Table) -> Result<(), Problem> {
        if !self.verify {
            return Ok(());
        }
        let file = File::parse(new)?;
        let described = self.with_debug_file(new)?;
        let sections = file.sframe_sections()?;
        let tables = match &sections[..] {
            [section] => input::relocated_tables(&file, section)?,
            [] if table.is_empty() => Vec::new(),
            _ => return Err(Problem::Refused(format!("the new file has {} tables", sections.len()))),
        };
        self.check_cfi(&described, &tables, table)?;
        if self.conversions.table.consumer() == Some(Consumer::Kernel) {
            check_kernel_rules(&file, &tables)?;
        }
        Ok(())
    }
}

/// Refuses tables that break a rule of the kernel's reader.
fn check_kernel_rules(file: &File<'_>, tables: &[sframe::Section<'_>]) -> Result<(), Problem> {
    let report = KernelReport::new(file, tables, 1)?;
    match report.violations(&Places::new(file)).first() {
        Some(first) => Err(Problem::Refused(format!("the new table breaks a rule of the kernel: {first}"))),
        None => Ok(()),
    }
}

impl Embed {
    /// Parses a file to read its CFI and the CFI of its debug file.
    fn with_debug_file<'f>(&'f self, bytes: &'f [u8]) -> Result<File<'f>, Problem> {
        let file = File::parse(bytes)?;
        let Some(debug_file) = &self.debug_file else { return Ok(file) };
        Ok(file.with_debug_file(File::parse(&debug_file.bytes)?)?)
    }

    /// Returns whether the file has a single table of the requested version, and its program header points to it.
    fn is_done(&self, file: &File<'_>) -> Result<bool, Problem> {
        let sections = file.sframe_sections()?;
        let [section] = &sections[..] else { return Ok(false) };
        let tables = input::tables(section).unwrap_or_default();
        let [table] = &tables[..] else { return Ok(false) };
        let segment = file.as_elf().and_then(|elf| elf.sframe_segment());
        let is_found = file.kind() == Kind::Relocatable || segment == Some(section.address);
        let version = self.conversions.table.get().version;
        Ok(is_found && table.version() == version && table.arch() == file.arch())
    }

    /// Verifies the tables of a new file against its CFI.
    fn check_cfi(
        &self,
        file: &File<'_>,
        tables: &[sframe::Section<'_>],
        table: &mut Table,
    ) -> Result<(), Problem> {
        let cfi = file.call_frame_sections()?;
        let options = Options::new().with_padding(self.conversions.table.get().padding());
        let reasons = ConversionReasons::new(&std::mem::take(&mut table.omitted_functions));
        let threads = self.conversions.threads;
        let report =
            verification::against(file, &cfi, tables, &options, threads, |missing| reasons.reason(missing))?;
        table.unreadable = report.unreadable;
        table.has_unproven_rows = report.has_unproven_rows();
        table.verified = report.pcs_compared() != 0;
        if report.is_proven() {
            return Ok(());
        }
        let Report { different, malformed, unexplained, unjudged_in_table, .. } = report;
        let parts = [
            ("different", different),
            ("missing", unexplained),
            ("not judged", unjudged_in_table),
            ("PCs outside the functions of the CFI", report.pcs_extra),
            ("records that cannot be read", report.unreadable),
            ("defects of the table", malformed),
        ];
        let first = report.differences.first().map(|first| format!("; {first}")).unwrap_or_default();
        Err(Problem::Refused(format!(
            "the new table is not what the CFI describes: {}{first}",
            Counts(&parts).list()
        )))
    }

    /// Puts a table into a linked file. `described` is this file with its debug file.
    fn linked<'a>(
        &self,
        file: &File<'a>,
        described: &File<'_>,
        sections: &[CallFrameSection<'_>],
        mut conversion: Conversion,
    ) -> Result<(Option<Rewrite<'a>>, Table), Problem> {
        let embedding = loop {
            let len = conversion.section.len();
            let embedding = Embedding::of(file, len)?;
            // In version 2, functions that are too far from the table are omitted. Then the table is smaller, and may
            // get another address.
            conversion.place(embedding.address());
            if conversion.section.len() == len {
                break embedding;
            }
        };
        let bytes = conversion.linked()?;
        let mut table = self.table(described, sections, conversion, &bytes)?;
        table.way = Some(embedding.way().name());
        table.address = Some(embedding.address().to_string());
        Ok((Some(embedding.rewrite(bytes)), table))
    }

    /// Puts a table and its relocations into a relocatable object.
    fn relocatable<'a>(
        &self,
        file: &File<'a>,
        sections: &[CallFrameSection<'_>],
        conversion: Conversion,
    ) -> Result<(Option<Rewrite<'a>>, Table), Problem> {
        let bytes = conversion.relocatable()?;
        let mut starts = Vec::new();
        for field in conversion.section.start_fields() {
            let start = field.address();
            let place = file.locate(start).with_context(|| format!("function at {start}: in no section"))?;
            starts.push(StartRelocation {
                offset: field.field.0 as u32,
                section: place.section,
                addend: place.offset,
            });
        }
        let rewrite = embed_in_object(file, &bytes, &starts)?;
        Ok((Some(rewrite), self.table(file, sections, conversion, &bytes)?))
    }

    /// Returns the report about a table with these bytes.
    fn table(
        &self,
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        conversion: Conversion,
        bytes: &[u8],
    ) -> anyhow::Result<Table> {
        Ok(Table {
            way: None,
            address: None,
            version: conversion.version as u8,
            functions: conversion.functions,
            converted: conversion.converted(),
            omitted: conversion.num_omitted(),
            reasons: conversion.reasons(),
            synthesized: conversion.synthesized.as_ref().map(|own| own.counts.clone()),
            bytes: TableBytes { sframe: bytes.len().to_u64(), cfi: CfiBytes::measure(file, sections)? },
            old_rows: conversion.with_table(file, bytes, |tables| conversion.kept.count(file, tables))?,
            code_coverage: conversion.code(file, bytes, &self.conversions.limits)?,
            outermost: conversion.outermost_rows(bytes)?,
            verified: false,
            unreadable: conversion.malformed.len().to_u64(),
            unjudged: conversion
                .malformed
                .iter()
                .map(Malformed::to_string)
                .chain(conversion.unjudged)
                .collect(),
            has_unproven_rows: false,
            excluded: excluded::count(sections),
            unplaced: Unplaced::of(file, sections),
            debug_file: self.debug_file.as_deref().map(DebugFile::json),
            omitted_functions: conversion.omitted,
        })
    }
}

impl Table {
    /// Returns whether the file gets no table, because no function has code that a table can represent.
    pub fn is_empty(&self) -> bool {
        self.bytes.sframe == 0
    }
}
