//! Converts a file's CFI into a `.sframe` section in memory, on one thread or several.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Context as _;
use cfipack_cfi as cfi;
use cfipack_cfi::SectionKind;
use cfipack_container::{CallFrameSection, File, Kind, Section as FileSection};
use cfipack_decoder::sframe;
use cfipack_encoder::sframe::{At, Builder, Finish, OmittedFunction, Parallel, Section};
use cfipack_format::Unsupported;
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Key};
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::stats;

use crate::kept::Kept;
use crate::report::limits::Limits;
use crate::report::reasons;
use crate::synthesized::Synthesized;
use crate::table_options::TableOptions;
use crate::unjudged::Unjudged;

/// An FDE that cannot be read: the error, and the name of its section.
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

/// Returns the address that the table of a linked file is built for, or 0 for a relocatable object.
///
/// This is the address of the file's own `.sframe`. A file without `.sframe` gets the end of `.eh_frame`, and a file
/// without `.eh_frame` the end of its code. Both ends are rounded up to a multiple of 8.
pub fn place(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> anyhow::Result<Address> {
    if file.kind() == Kind::Relocatable {
        return Ok(Address(0));
    }
    if let Some(own) = file.sframe_sections()?.first() {
        return Ok(own.address);
    }
    let eh_frame = sections.iter().find(|section| section.kind == SectionKind::EhFrame);
    let end = match eh_frame {
        Some(eh_frame) => end_of(&eh_frame.section),
        None => file.code_sections()?.iter().map(end_of).max().unwrap_or_default(),
    };
    Ok(Address(end.checked_next_multiple_of(8).unwrap_or(end)))
}

/// Returns the address after the last byte of a section.
fn end_of(section: &FileSection<'_>) -> u64 {
    section.address.0.saturating_add(section.bytes.len().to_u64())
}

/// A `.sframe` section that was built from a file's CFI, and the functions that it omits.
#[derive(Debug)]
pub struct Conversion {
    pub section: Section<'static>,
    /// The version of the format.
    pub version: Version,
    /// The number of functions in the CFI, including omitted functions.
    pub functions: u64,
    /// The number of omitted functions whose CFI DWARF does not define, and of FDEs that cannot be read.
    pub outside_dwarf: u64,
    /// Functions that the table cannot represent, in the order of the CFI. After them, functions that the table cannot
    /// distinguish or reach.
    pub omitted: Vec<Unsupported>,
    /// FDEs that cannot be read.
    pub malformed: Vec<Malformed>,
    /// Names the functions of `omitted` that the verifier cannot judge, each with its reason.
    pub unjudged: Vec<String>,
    /// Rows made from code that no CFI covers, with `--synthesize`. No other field counts them.
    pub synthesized: Option<Synthesized>,
    /// Rows of the file's old table, if the new table replaces it. No other field counts them.
    pub kept: Kept,
    /// The address of a linked file's section.
    pub address: Address,
    /// The threads that write the section.
    pool: Threads,
}

impl Conversion {
    /// Converts all call frame information of a file, for a table at the address that [`place()`] returns.
    pub fn placed(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
    ) -> anyhow::Result<Self> {
        Self::at(file, sections, options, threads, place(file, sections)?)
    }

    /// Converts all call frame information of a file, for a table at `address`.
    pub fn at(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
        address: Address,
    ) -> anyhow::Result<Self> {
        let mut conversion = Self::unplaced(file, sections, options, threads)?;
        if file.kind() == Kind::Linked {
            conversion.place(address);
        }
        Ok(conversion)
    }

    /// Converts all call frame information of a file, for a table without a known address. Call [`place`](Self::place)
    /// when you know it.
    pub fn unplaced(
        file: &File<'_>,
        sections: &[CallFrameSection<'_>],
        options: &TableOptions,
        threads: usize,
    ) -> anyhow::Result<Self> {
        let mut builder = Builder::new(file.arch(), options.get())?;
        let pool = Threads(threads);
        let mut unjudged = Unjudged::default();
        if options.judged_only {
            unjudged = Unjudged::find(file, sections, options.get())?;
        }
        let Unjudged { excluded, mut omitted, outside_dwarf: refused, lines } = unjudged;
        let (mut functions, mut malformed) = (omitted.len().to_u64(), Vec::new());
        for (index, section) in sections.iter().enumerate() {
            let section = excluded.get(index).unwrap_or(section);
            // If the end of a record is unknown, the records after it cannot be found.
            let mut end_is_unknown = None;
            functions += builder.push_all(Parallel::new(&section.cfi(), &pool), |function| match function {
                OmittedFunction::Unsupported(reason) => omitted.push(reason),
                OmittedFunction::Malformed(error @ cfi::Error::Length { .. }) => end_is_unknown = Some(error),
                OmittedFunction::Malformed(error) => {
                    malformed.push(Malformed { section: section.section.name.to_string(), error });
                }
            });
            if let Some(error) = end_is_unknown {
                return Err(error).with_context(|| format!("section {}", section.section.name));
            }
        }
        let mut kept = Kept::default();
        if options.keeps_old_rows() {
            kept = Kept::push(file, sections, !options.synthesizes(), &mut builder)?;
        }
        let push = || Synthesized::push(file, sections, &kept, &mut builder);
        let mut synthesized = options.synthesizes().then(push).transpose()?;
        let version = options.get().version;
        let outside_dwarf = refused + builder.undefined_cfi() + malformed.len().to_u64();
        let section = builder.finish_with(Finish::on(&pool)).into_owned();
        omitted.extend(with_cfi(section.omitted(), &mut kept, synthesized.as_mut()));
        Ok(Self {
            section,
            version,
            functions,
            outside_dwarf,
            omitted,
            malformed,
            unjudged: lines,
            synthesized,
            kept,
            address: Address(0),
            pool,
        })
    }

    /// Places the table of a linked file at an address, and omits functions that are too far from it.
    pub fn place(&mut self, address: Address) {
        self.address = address;
        let known = self.section.omitted().len();
        self.section.omit_distant(address, Key::address);
        let distant = with_cfi(&self.section.omitted()[known..], &mut self.kept, self.synthesized.as_mut());
        self.omitted.extend(distant);
    }

    /// Returns the number of functions in the section.
    pub fn converted(&self) -> u64 {
        self.functions - self.num_omitted()
    }

    /// Returns the number of functions that the section omits.
    pub fn num_omitted(&self) -> u64 {
        (self.omitted.len() + self.malformed.len()).to_u64()
    }

    /// Counts the omitted functions by reason.
    pub fn reasons(&self) -> BTreeMap<&'static str, u64> {
        reasons::count(&self.omitted, self.malformed.len())
    }

    /// Counts the functions that are omitted for the reason `name`.
    pub fn omitted_for(&self, name: &str) -> u64 {
        self.omitted.iter().filter(|omitted| omitted.reason.name() == name).count().to_u64()
    }

    /// Returns the bytes of the section for a file.
    pub fn bytes(&self, file: &File<'_>) -> anyhow::Result<Vec<u8>> {
        match file.kind() {
            Kind::Relocatable => self.relocatable(),
            Kind::Linked => self.linked(),
        }
    }

    /// Returns the bytes of the section for a linked file.
    pub fn linked(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.len()];
        self.section.write(&mut bytes, At::on(self.address, &self.pool), Key::address)?;
        Ok(bytes)
    }

    /// Calls `read` with the table in `bytes`, with the file's addresses.
    ///
    /// `bytes` come from [`linked`](Self::linked) or [`relocatable`](Self::relocatable), or are empty.
    ///
    /// # Errors
    /// The table cannot be read, or `read` fails.
    pub fn with_table<T>(
        &self,
        file: &File<'_>,
        bytes: &[u8],
        read: impl FnOnce(&[sframe::Section<'_>]) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if bytes.is_empty() {
            return read(&[]);
        }
        let relocated = (file.kind() == Kind::Relocatable).then(|| self.relocated(bytes, file.arch()));
        read(&[sframe::Section::parse(relocated.as_deref().unwrap_or(bytes), self.address)?])
    }

    /// Counts the code that the table covers.
    ///
    /// Returns `None` for a linked file if no limit needs the number, and its functions are so much of the code that no
    /// warning is due. Then the code, which can be most of the file, is not read.
    ///
    /// # Errors
    /// The table or a section of code cannot be read.
    pub fn code(&self, file: &File<'_>, bytes: &[u8], limits: &Limits) -> anyhow::Result<Option<CodeBytes>> {
        let is_linked = file.kind() == Kind::Linked;
        let code = file.code_sections()?.iter().map(|section| section.bytes.len().to_u64()).sum();
        if is_linked && !limits.count_code() && !Limits::may_be_little(self.section.code_len(), code) {
            return Ok(None);
        }
        self.with_table(file, bytes, |tables| Ok(CodeBytes::of_tables(file, tables)?)).map(Some)
    }

    /// Counts the rows of outermost frames in a table of version 2. glibc 2.43 reads such tables, and fails at these
    /// rows.
    pub fn outermost_rows(&self, bytes: &[u8]) -> anyhow::Result<u64> {
        if bytes.is_empty() || self.version != Version::V2 {
            return Ok(0);
        }
        Ok(stats(&sframe::Section::parse(bytes, self.address)?).outermost)
    }

    /// Relocates the section of a relocatable object, so that it can be read before the link.
    ///
    /// The section itself is at address 0. Sections of code are where
    /// [`Placement::Apart`](cfipack_container::Placement::Apart) places them.
    pub fn relocated(&self, bytes: &[u8], arch: Arch) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let endian = arch.endian();
        for field in self.section.start_fields() {
            let (field, start) = (field.field, field.address());
            let distance = start.distance_from(Address(field.0.to_u64())).cast_unsigned();
            match self.version.start_size() {
                4 => bytes[field.0..][..4].copy_from_slice(&endian.put_u32(distance as u32)),
                _ => bytes[field.0..][..8].copy_from_slice(&endian.put_u64(distance)),
            }
        }
        bytes
    }

    /// Returns the bytes of the section for a relocatable object, before relocation.
    pub fn relocatable(&self) -> anyhow::Result<Vec<u8>> {
        let mut bytes = vec![0; self.section.relocatable_len()];
        self.section.write_relocatable(&mut bytes)?;
        Ok(bytes)
    }
}

/// Returns the omitted functions that have CFI. `kept` and `synthesized` count the other omitted functions.
fn with_cfi(
    omitted: &[Unsupported],
    kept: &mut Kept,
    mut synthesized: Option<&mut Synthesized>,
) -> Vec<Unsupported> {
    let mut is_synthesized =
        |function: &Unsupported| synthesized.as_mut().is_some_and(|synthesized| synthesized.omit(function));
    omitted.iter().filter(|function| !kept.omit(function) && !is_synthesized(function)).copied().collect()
}
