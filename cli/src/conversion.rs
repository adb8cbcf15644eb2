//! From a file's CFI to a `.sframe` section in memory, on one thread or many.

use std::collections::BTreeMap;

use anyhow::Context as _;
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::sframe::{Builder, Layout, Options, Section};
use cfipack_encoder::{Unsupported, cfi};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, SectionOffset};

/// Options of the section that is made
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Options of the table")]
pub struct TableOptions {
    /// small shares equal rows; gnu is what gas and ld write
    #[arg(long, value_name = "NAME", value_enum, default_value = "small")]
    layout: LayoutName,
    /// Version of the format: 2 or 3
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(2..=3))]
    sframe_version: u8,
    /// Leave out what needs flex FDEs, for readers without them
    #[arg(long)]
    no_flex: bool,
    /// Merge neighbouring functions into FDEs of up to N rows
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
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
            merge_functions: self.merge_functions,
        }
    }

    /// Bytes between functions for which merged ones may answer.
    pub fn padding(&self) -> u64 {
        if self.merge_functions == 0 { 0 } else { 15 }
    }
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
    /// Functions that the table cannot express, in the order of the CFI.
    pub unsupported: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<cfi::Error>,
}

impl Conversion {
    /// Converts all call frame information of a file.
    pub fn of(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let mut whole = Shard::new(file, options);
        for section in sections {
            let name = || format!("section {}", section.section.name);
            for shard in shards(file, &section.cfi(), options, threads).with_context(name)? {
                whole.absorb(shard)?;
            }
        }
        let Shard { builder, functions, unsupported, malformed } = whole;
        Ok(Self {
            section: builder.finish(),
            version: options.get().version,
            functions,
            unsupported,
            malformed,
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
        let mut reasons = BTreeMap::new();
        for unsupported in &self.unsupported {
            *reasons.entry(unsupported.reason.name()).or_default() += 1;
        }
        if !self.malformed.is_empty() {
            reasons.insert("malformed-record", self.malformed.len() as u64);
        }
        reasons
    }

    /// The section of a linked file, to lie at `address`.
    pub fn linked(&self, address: Address) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.len()];
        self.section.write(&mut bytes, address, |function| function)?;
        Ok(bytes)
    }

    /// The section of a relocatable object, before relocation.
    pub fn relocatable(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.relocatable_len()];
        self.section.write_relocatable(&mut bytes)?;
        Ok(bytes)
    }
}

/// Reasons, most frequent first, equals by name.
pub fn most_frequent_first<'r>(reasons: &BTreeMap<&'r str, u64>) -> Vec<(&'r str, u64)> {
    let mut list: Vec<_> = reasons.iter().map(|(&name, &count)| (name, count)).collect();
    list.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    list
}

/// The part of a conversion that one thread does.
struct Shard<'a> {
    builder: Builder<'a>,
    functions: u64,
    unsupported: Vec<Unsupported>,
    malformed: Vec<cfi::Error>,
}

impl<'a> Shard<'a> {
    fn new(file: &File<'_>, options: &TableOptions) -> Self {
        let builder = Builder::new(file.arch(), options.get());
        Self { builder, functions: 0, unsupported: Vec::new(), malformed: Vec::new() }
    }

    /// Takes functions. Only a record whose end is unknown hides what follows it.
    fn push(&mut self, functions: cfi::Functions<'a>) -> Result<(), cfi::Error> {
        for function in functions {
            self.functions += 1;
            match function {
                Ok(function) => {
                    if let Err(unsupported) = self.builder.push(&function) {
                        self.unsupported.push(unsupported);
                    }
                }
                Err(error @ cfi::Error::Length { .. }) => return Err(error),
                Err(error) => self.malformed.push(error),
            }
        }
        Ok(())
    }

    fn absorb(&mut self, shard: Self) -> anyhow::Result<()> {
        self.builder.absorb(shard.builder).map_err(|reason| anyhow::anyhow!("{reason}"))?;
        self.functions += shard.functions;
        self.unsupported.extend(shard.unsupported);
        self.malformed.extend(shard.malformed);
        Ok(())
    }
}

/// A section's functions, cut into as many shards as there are threads.
fn shards<'a>(
    file: &File<'_>,
    section: &cfi::Section<'a>,
    options: &TableOptions,
    threads: usize,
) -> Result<Vec<Shard<'a>>, cfi::Error> {
    let length = section.bytes.len();
    let cut = |part: usize| section.record_at_or_after(SectionOffset(length / threads * part));
    let mut cuts: Vec<_> = (0..threads).map(cut).collect();
    cuts.push(SectionOffset(length));
    let convert = |range: &[SectionOffset]| {
        let mut shard = Shard::new(file, options);
        shard.push(section.functions_between(range[0], range[1])).map(|()| shard)
    };
    std::thread::scope(|scope| {
        let convert = &convert;
        let others: Vec<_> =
            cuts.windows(2).skip(1).map(|range| scope.spawn(move || convert(range))).collect();
        let mut shards = vec![convert(&cuts[..2])?];
        for other in others {
            shards.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(shards)
    })
}
