//! From a file's CFI to a `.sframe` section in memory, on one thread or many.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Section as FileSection};
use cfipack_encoder::cfi::SectionKind;
use cfipack_encoder::sframe::{Builder, Layout, OmittedFunction, Options, Section, Threads};
use cfipack_encoder::{Unsupported, cfi};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Key};

use crate::input::number_in;
use crate::reasons;

/// Options of the section that is made
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Options of the table")]
pub struct TableOptions {
    /// small shares equal rows; gnu is what gas and ld write
    #[arg(long, value_name = "NAME", value_enum, default_value = "small")]
    layout: LayoutName,
    /// Version of the format: 2 or 3
    #[arg(long, value_name = "N", default_value = "3", value_parser = number_in(2..=3_u8))]
    sframe_version: u8,
    /// Leave out what needs flex FDEs, for readers without them
    #[arg(long)]
    no_flex: bool,
    /// Give each function rows of its own, for binutils on machines of the other byte order
    #[arg(long)]
    no_sharing: bool,
    /// Merge neighbouring functions into FDEs of up to N rows
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, value_parser = number_in(0..=u32::MAX))]
    merge_functions: u32,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum LayoutName {
    Small,
    Gnu,
}

impl TableOptions {
    /// The options as the encoder takes them.
    pub fn get(&self) -> Options {
        Options {
            version: if self.sframe_version == 2 { Version::V2 } else { Version::V3 },
            layout: match self.layout {
                LayoutName::Small => Layout::Small,
                LayoutName::Gnu => Layout::Gnu,
            },
            flex: !self.no_flex,
            share: !self.no_sharing,
            merge_functions: self.merge_functions,
        }
    }

    /// Refuses options that layout `gnu` would ignore.
    pub fn check(&self) -> anyhow::Result<()> {
        if matches!(self.layout, LayoutName::Gnu) && self.merge_functions != 0 {
            bail!("--merge-functions: layout gnu merges none");
        }
        if matches!(self.layout, LayoutName::Gnu) && self.no_sharing {
            bail!("--no-sharing: layout gnu shares nothing");
        }
        Ok(())
    }

    /// Refuses all that say anything but what is the default, where no table is made.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.get() != Options::default() {
            bail!("options of the table: no .sframe table is made of this");
        }
        Ok(())
    }
}

/// An FDE that cannot be read, and the section that it is in.
#[derive(Debug)]
pub struct Malformed {
    section: String,
    error: cfi::Error,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section {}: {}", self.section, self.error)
    }
}

/// Where the table of a linked file would lie: where its own one does, or behind its `.eh_frame`, or behind its
/// code.
pub fn place(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Address> {
    if file.kind() == Kind::Relocatable {
        return Ok(Address(0));
    }
    if let Some(own) = file.sframe_sections()?.first() {
        return Ok(own.address);
    }
    let end = |section: &FileSection<'_>| section.address.0.saturating_add(section.bytes.len() as u64);
    let eh_frame = sections.iter().find(|section| section.kind == SectionKind::EhFrame);
    let end = match eh_frame {
        Some(eh_frame) => end(&eh_frame.section),
        None => file.code_sections()?.iter().map(end).max().unwrap_or_default(),
    };
    Ok(Address(end.checked_next_multiple_of(8).unwrap_or(end)))
}

/// A section, and what could not get into it.
#[derive(Debug)]
pub struct Conversion {
    /// The section.
    pub section: Section,
    /// The version of the format.
    pub version: Version,
    /// Functions in the CFI, those left out among them.
    pub functions: u64,
    /// Functions that are in the section although DWARF does not define what their CFI means.
    pub outside_dwarf: u64,
    /// Functions that are left out and of which that is so too.
    pub undefined: u64,
    /// Functions that the table cannot express, in the order of the CFI, and after them those that it cannot
    /// tell apart or reach.
    pub unsupported: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<Malformed>,
    /// Where the section of a linked file lies.
    pub address: Address,
    /// The threads that it is written on.
    pool: Threads,
}

impl Conversion {
    /// Converts all call frame information of a file, to lie where [`place()`] says.
    pub fn of(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
    ) -> anyhow::Result<Self> {
        Self::at(file, sections, options, threads, place(file, sections)?)
    }

    /// The same, to lie at an address.
    pub fn at(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
        address: Address,
    ) -> anyhow::Result<Self> {
        let mut builder = Builder::new(file.arch(), options.get())?;
        let pool = Threads(threads);
        let (mut functions, mut unsupported, mut malformed) = (0, Vec::new(), Vec::new());
        for section in sections {
            // Only a record whose end is unknown hides what follows it.
            let mut end_is_unknown = None;
            let left_out = |left| match left {
                OmittedFunction::Unsupported(reason) => unsupported.push(reason),
                OmittedFunction::Malformed(error @ cfi::Error::Length { .. }) => end_is_unknown = Some(error),
                OmittedFunction::Malformed(error) => {
                    malformed.push(Malformed { section: section.section.name.to_string(), error });
                }
            };
            functions += builder.push_section(&section.cfi(), &pool, left_out);
            if let Some(error) = end_is_unknown {
                return Err(error).with_context(|| format!("section {}", section.section.name));
            }
        }
        let (version, outside_dwarf) = (options.get().version, builder.outside_dwarf());
        let undefined = builder.undefined() + malformed.len() as u64;
        let mut section = builder.finish_on(&pool);
        if file.kind() == Kind::Linked {
            section.omit_distant(address, Key::address);
        }
        unsupported.extend_from_slice(section.omitted());
        Ok(Self {
            section,
            version,
            functions,
            outside_dwarf,
            undefined,
            unsupported,
            malformed,
            address,
            pool,
        })
    }

    /// Functions that are in the section.
    pub fn converted(&self) -> u64 {
        self.functions - self.left_out()
    }

    /// Functions that are not.
    pub fn left_out(&self) -> u64 {
        (self.unsupported.len() + self.malformed.len()) as u64
    }

    /// Why functions are left out, and how many.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        reasons::count(&self.unsupported, self.malformed.len())
    }

    /// Functions that are left out for a reason with this name.
    pub fn left_out_for(&self, name: &str) -> u64 {
        self.unsupported.iter().filter(|unsupported| unsupported.reason.name() == name).count() as u64
    }

    /// The section of a linked file.
    pub fn linked(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.len()];
        self.section.write_on(&self.pool, &mut bytes, self.address, Key::address)?;
        Ok(bytes)
    }

    /// The section of a relocatable object, before relocation.
    pub fn relocatable(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.relocatable_len()];
        self.section.write_relocatable(&mut bytes)?;
        Ok(bytes)
    }
}
