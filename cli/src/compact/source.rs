//! The compact unwind tables of an object.

use anyhow::{Context as _, bail};
use cfipack_container::{CompactUnwind, Error, File, Kind, Section};
use cfipack_decoder::{compact_unwind, unwind_info};
use cfipack_format::{Address, Arch, SectionOffset};
use cfipack_roundtrip::unwind_info::{Code, Entry, Table};

use crate::io::input::{Contents, Object};

/// The names of the tables in messages.
pub const TABLES: &str = "__unwind_info or __compact_unwind";

/// Refuses an architecture without compact encodings.
pub fn check_arch(arch: Arch) -> anyhow::Result<()> {
    if !arch.has_compact_unwind() {
        bail!("{arch} has no compact unwind encodings");
    }
    Ok(())
}

/// The tables of a Mach-O file, or a bare `__unwind_info`.
#[derive(Debug)]
pub struct Source<'o, 'a> {
    /// The file, or `None` for a bare section.
    pub file: Option<&'o File<'a>>,
    /// `__unwind_info`.
    pub table: Option<Section<'a>>,
    /// `__compact_unwind`.
    pub rows: Option<CompactUnwind<'a>>,
    code: Vec<Section<'a>>,
}

impl<'o, 'a> Source<'o, 'a> {
    /// Finds the tables of an object. The object may have no table.
    pub fn find(object: &'o Object<'a>) -> anyhow::Result<Self> {
        match &object.contents {
            Contents::File(file) => {
                let rows = rows(file)?.filter(|_| file.kind() == Kind::Relocatable);
                if let Some(CompactUnwind { section, .. }) = &rows {
                    compact_unwind::Section::parse(&section.bytes, file.arch().pointer_size())
                        .with_context(|| format!("section {}", section.name))?;
                }
                let table = file.as_macho().map_or(Ok(None), |macho| macho.unwind_info_section())?;
                Ok(Self { file: Some(file), table, rows, code: file.code_sections()? })
            }
            Contents::UnwindInfo(bytes) => {
                let section = Section::new("__unwind_info".into(), Address(0), (*bytes).into());
                Ok(Self { file: None, table: Some(section), rows: None, code: Vec::new() })
            }
            Contents::Table(_) => bail!("the input is a bare .sframe section"),
        }
    }

    /// Finds the tables of an object. It is an error if the object has no table.
    pub fn with_table(object: &'o Object<'a>) -> anyhow::Result<Self> {
        let source = Self::find(object)?;
        if source.is_empty() {
            bail!("the file has no {TABLES}");
        }
        Ok(source)
    }

    /// Returns whether the object has neither table.
    pub fn is_empty(&self) -> bool {
        self.table.is_none() && self.rows.is_none()
    }

    /// Returns the architecture. A bare section does not contain it, so this is an error for a bare section.
    pub fn arch(&self) -> anyhow::Result<Arch> {
        let file = self.file.context("a bare __unwind_info section does not contain its architecture")?;
        Ok(file.arch())
    }

    /// Returns the address of the Mach-O header, or 0 for a bare section.
    pub fn base(&self) -> Address {
        self.file.map_or(Address(0), image_base)
    }

    pub fn code(&self) -> Code<'_> {
        Code::new(self.code.iter().map(|section| (section.address, &section.bytes[..])))
    }

    /// Returns whether a section of the image ends at this address.
    pub fn is_end_of_section(&self, address: Address) -> bool {
        let macho = self.file.and_then(File::as_macho);
        macho.is_some_and(|macho| macho.is_end_of_section(address))
    }

    /// Parses `__unwind_info`. Returns `None` if there is no such section.
    pub fn parse(&self) -> anyhow::Result<Option<unwind_info::Section<'_>>> {
        let Some(section) = &self.table else { return Ok(None) };
        let parsed = unwind_info::Section::parse(&section.bytes);
        Ok(Some(parsed.with_context(|| format!("section {}", section.name))?))
    }

    /// Returns the entries of an image's table, or of an object's rows.
    pub fn entries<'c>(&self, arch: Arch, base: Address, code: Code<'c>) -> anyhow::Result<Table<'c>> {
        if let Some(section) = self.parse()? {
            return Ok(Table::of_image(arch, base, &section, code));
        }
        let rows = self.object_rows().into_iter().map(|(_, row)| row);
        Ok(Table::of_object(arch, rows.collect(), code))
    }

    /// Returns an object's rows, each with its offset in `__compact_unwind`.
    pub fn object_rows(&self) -> Vec<(SectionOffset, Entry)> {
        self.rows.iter().flat_map(entries_of_rows).collect()
    }
}

/// Returns the rows of `__compact_unwind`, each with its offset there.
pub fn entries_of_rows(compact: &CompactUnwind<'_>) -> impl Iterator<Item = (SectionOffset, Entry)> {
    compact.rows.iter().map(|row| {
        let entry = Entry {
            start: row.function,
            end: row.function.offset(row.length.into()),
            encoding: row.encoding,
            personality: row.personality.map_or(0, |number| number.get().into()),
            lsda: row.lsda,
        };
        (row.offset, entry)
    })
}

/// Returns the rows of a Mach-O object.
pub fn rows<'a>(file: &File<'a>) -> Result<Option<CompactUnwind<'a>>, Error> {
    file.as_macho().map_or(Ok(None), |macho| macho.compact_unwind())
}

/// Returns the address of a file's Mach-O header. Image offsets count from it. Returns 0 for an object and for other
/// formats.
pub fn image_base(file: &File<'_>) -> Address {
    file.as_macho().map_or(Address(0), |macho| macho.image_base())
}

/// Returns the starts of functions from the linker's list in a Mach-O file. The list is empty for objects and other
/// formats.
pub fn function_starts(file: &File<'_>) -> Result<Vec<Address>, Error> {
    file.as_macho().map_or(Ok(Vec::new()), |macho| macho.function_starts())
}
