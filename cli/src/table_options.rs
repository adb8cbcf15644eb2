//! The options of a `.sframe` table, and the programs that read it.

use anyhow::bail;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Version;

use crate::io::values::{by_name, number_in};

/// Options of the table
#[derive(clap::Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Options of the table")]
pub struct TableOptions {
    /// small: equal rows are shared; gnu: the bytes that gas writes
    #[arg(long, value_name = "NAME", value_parser = by_name(Layout::ALL, Layout::name), default_value = "small")]
    layout: Layout,
    /// Version of the format: 2 or 3
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_version)]
    sframe_version: Version,
    /// The reader: glibc-2.43 takes version 2, the others 3
    #[arg(long = "for", value_name = "NAME", value_enum, conflicts_with = "sframe_version")]
    consumer: Option<Consumer>,
    /// Omit functions that need flex FDEs, for readers that do not support them
    #[arg(long)]
    no_flex: bool,
    /// Do not share rows between functions, for binutils on machines of the other byte order
    #[arg(long)]
    no_sharing: bool,
    /// Merge neighbouring functions into FDEs of up to N rows
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true, value_parser = number_in(0..=u32::MAX))]
    merge_functions: u32,
    /// True if rows are also made for functions without CFI, from their code.
    #[arg(skip)]
    synthesize: bool,
    /// True if the table replaces the file's own table.
    #[arg(skip)]
    replaces: bool,
    /// True if functions that the verifier cannot judge are omitted.
    #[arg(skip)]
    pub judged_only: bool,
}

/// A reader of tables.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consumer {
    // `backtrace()` of glibc configured with `--enable-sframe`.
    #[value(name = "glibc-2.43")]
    Glibc243,
    // The tools of binutils, and programs that follow their rules.
    Binutils,
    // The unwinder that the newest patch series proposes for Linux.
    Kernel,
}

/// Parses the number of a version that the encoder writes.
pub fn parse_version(text: &str) -> Result<Version, String> {
    let [least, .., most] = Version::ALL.map(|version| version.writable() as u8);
    let number = number_in(least..=most)(text)?;
    Version::written(number).ok_or_else(|| format!("version {number} is not written"))
}

impl Consumer {
    /// Describes the programs that read tables of a version.
    pub fn of_version(version: Version) -> &'static str {
        match version {
            Version::V1 | Version::V2 => Self::Glibc243.readers(),
            Version::V3 => Self::Binutils.readers(),
        }
    }

    /// Describes the programs that read tables for this consumer.
    pub fn readers(self) -> &'static str {
        match self {
            Self::Glibc243 => {
                "glibc 2.43 configured with --enable-sframe, and binutils 2.41 and later (ld up to 2.45)"
            }
            Self::Binutils => "binutils 2.46 and later, and not glibc 2.43, which reads version 2",
            Self::Kernel => {
                "the reader proposed for the Linux kernel, whose rules the tables keep, and binutils 2.46 and later"
            }
        }
    }
}

impl TableOptions {
    /// Returns the reader that the user chose with `--for`.
    pub fn consumer(&self) -> Option<Consumer> {
        self.consumer
    }

    /// Returns the options for the encoder.
    pub fn get(&self) -> Options {
        let version = match self.consumer {
            Some(Consumer::Glibc243) => Version::V2,
            Some(Consumer::Binutils | Consumer::Kernel) => Version::V3,
            None => self.sframe_version,
        };
        Options::new()
            .with_version(version)
            .with_layout(self.layout)
            .with_flex(!self.no_flex)
            .with_outermost(self.consumer != Some(Consumer::Glibc243))
            .with_share(!self.no_sharing)
            .with_merge_functions(self.merge_functions)
    }

    /// Returns options for a table that a linker will merge: no functions share rows.
    ///
    /// GNU ld reserves as many bytes as the tables of its inputs have. But it writes the rows of each function, so
    /// shared rows would not fit.
    pub fn for_linker(self) -> Self {
        Self { no_sharing: true, ..self }
    }

    /// Sets whether rows are made from code that no CFI covers.
    pub fn with_synthesize(self, synthesize: bool) -> Self {
        Self { synthesize, ..self }
    }

    /// Sets that the table replaces the file's own table. Then it keeps rows that only this table has.
    pub fn replacing(self) -> Self {
        Self { replaces: true, ..self }
    }

    /// Returns whether rows of the old table are kept. Each kept function is judged by itself, so functions are not merged.
    pub fn keeps_old_rows(&self) -> bool {
        self.replaces && self.merge_functions == 0
    }

    /// Returns options that omit functions that the verifier cannot judge, or `None` if these options do.
    pub fn judged_only(self) -> Option<Self> {
        (!self.judged_only).then(|| self.judged())
    }

    /// Returns options that omit functions that the verifier cannot judge. All functions are evaluated to find these
    /// functions, so the conversion takes as long as a verification.
    pub fn judged(self) -> Self {
        Self { judged_only: true, ..self }
    }

    /// Returns whether rows are made from code that no CFI covers.
    pub fn synthesizes(&self) -> bool {
        self.synthesize
    }

    /// Refuses options that layout `gnu` would ignore.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.layout == Layout::Gnu && self.merge_functions != 0 {
            bail!("--merge-functions: layout gnu does not merge functions");
        }
        if self.synthesize && self.merge_functions != 0 {
            bail!("--merge-functions: not with --synthesize, whose functions are judged one by one");
        }
        if self.layout == Layout::Gnu && self.no_sharing {
            bail!("--no-sharing: layout gnu does not share rows");
        }
        Ok(())
    }

    /// Refuses every option that is not the default. Call it if the input gets no `.sframe` table.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.get() != Options::default() {
            bail!("options of the table: no .sframe table is built for this input");
        }
        Ok(())
    }
}
