//! Builds a table with the user's options.

use cfipack_container::File;
use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Layout, Options, Warning};
use cfipack_format::{ImageOffset, Key, LsdaKey};
use cfipack_roundtrip::unwind_info::{Stats, Table, stats};

use super::entries::Entries;
use super::source::{Source, check_arch};
use crate::io::values::by_name;
use crate::report::compact_verdict::{self, Verdict};

/// Options of the table
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Options of the table")]
pub struct TableOptions {
    /// small: the fewest bytes; the others: the bytes that these linkers write
    #[arg(long, value_name = "NAME", value_parser = by_name(Layout::ALL, Layout::name), default_value = "small")]
    layout: Layout,
    /// Build the table from call frame information, even if the file has a table
    #[arg(long)]
    from_cfi: bool,
    /// Omit LSDA records of functions in DWARF mode, which readers find in the FDEs. Layout small
    /// always does, unless --keep-dwarf-lsda is given
    #[arg(long)]
    omit_dwarf_lsda: bool,
    /// Keep LSDA records of functions in DWARF mode in layout small
    #[arg(long, conflicts_with = "omit_dwarf_lsda")]
    keep_dwarf_lsda: bool,
}

impl TableOptions {
    /// The options for the smallest table from the CFI.
    pub const FROM_CFI: Self =
        Self { layout: Layout::Small, from_cfi: true, omit_dwarf_lsda: false, keep_dwarf_lsda: false };

    fn get(&self, eh_frame_len: u32) -> Options {
        let Self { layout, omit_dwarf_lsda, keep_dwarf_lsda, .. } = *self;
        Options::new()
            .with_layout(layout)
            .with_omit_dwarf_lsda(omit_dwarf_lsda)
            .with_keep_dwarf_lsda(keep_dwarf_lsda)
            .with_eh_frame_len(eh_frame_len)
    }

    /// Returns the layout's name as a value of the option.
    pub fn layout_name(&self) -> &'static str {
        self.layout.name()
    }
}

/// Returns the number of bytes in a Mach-O file's `__eh_frame`. Layout `ld64` depends on it.
fn eh_frame_len(file: &File<'_>) -> anyhow::Result<u32> {
    if file.as_macho().is_none() {
        return Ok(0);
    }
    let sections = file.call_frame_sections()?;
    let eh_frame = sections.iter().find(|cfi| cfi.section.name == "__eh_frame");
    Ok(eh_frame.map_or(0, |cfi| cfi.section.bytes.len() as u32))
}

/// A table, and the entries that it is built from.
pub struct BuiltTable {
    /// The entries. Their list is empty, because the builder takes it.
    pub entries: Entries,
    /// The section. It is empty if no function has unwind information.
    pub bytes: Vec<u8>,
    /// Warnings about entries that are not written as they are given.
    pub warnings: Vec<Warning>,
}

impl BuiltTable {
    /// Builds the table for the entries of a file.
    pub fn build(file: &File<'_>, source: &Source<'_, '_>, options: &TableOptions) -> anyhow::Result<Self> {
        check_arch(file.arch())?;
        let mut entries = Entries::collect(file, source, options.layout, options.from_cfi)?;
        let mut builder = Builder::new(file.arch(), options.get(eh_frame_len(file)?))?;
        builder.reserve(entries.list.len());
        for entry in std::mem::take(&mut entries.list) {
            builder.push(entry);
        }
        let section = builder.finish();
        let warnings = section.warnings().to_vec();
        let placed = section.place(entries.end, Key::image_offset, LsdaKey::image_offset)?;
        let mut bytes = vec![0; placed.len()];
        let mut lost = None;
        placed.write(&mut bytes, |number| {
            entries.slot(file, number).unwrap_or_else(|error| {
                lost = Some(error);
                ImageOffset(0)
            })
        })?;
        match lost {
            Some(error) => Err(error),
            None => Ok(Self { entries, bytes, warnings }),
        }
    }

    /// Counts the parts of the table.
    pub fn stats(&self, file: &File<'_>) -> anyhow::Result<Stats> {
        if self.bytes.is_empty() {
            return Ok(Stats::default());
        }
        Ok(stats(file.arch(), &Section::parse(&self.bytes)?))
    }

    /// Verifies the table against the CFI and its readers' rules.
    pub fn verify(&self, file: &File<'_>, source: &Source<'_, '_>) -> anyhow::Result<Verdict> {
        let (arch, code) = (file.arch(), source.code());
        if self.bytes.is_empty() {
            let report = compact_verdict::of_file(file, &Table::empty(arch, code))?;
            return Ok(Verdict { report, broken: Vec::new() });
        }
        compact_verdict::of_table(file, self.entries.base, code, &Section::parse(&self.bytes)?)
    }
}
