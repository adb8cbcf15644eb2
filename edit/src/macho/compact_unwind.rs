//! Replaces and adds rows in `__LD,__compact_unwind` of a 64-bit object.
//!
//! Rows that replace other rows are written in their place. If there are more rows than before, the section moves to
//! the highest addresses of the object. Then only its own symbols move, and no field of another section changes.

use std::borrow::Cow;

use cfipack_container::raw::macho::Headers;
use cfipack_container::{Error, File, Kind, Section, SectionName};
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};

use super::headers::{Commands, word};
use super::relocate::Relocations;
use super::splices::Splices;
use crate::rewrite::Rewrite;

/// The size of a pointer in bytes.
const POINTER: u8 = 8;
pub(super) const ROW: usize = Row::size(POINTER);

/// The bytes of a row.
pub(super) type RowBytes = [u8; Row::MAX_SIZE];

/// Writes rows of `__compact_unwind` into an object for x86-64 or arm64.
#[derive(Debug)]
pub struct CompactUnwindEditor<'f, 'a> {
    pub(super) file: &'f Headers<'a>,
    pub(super) commands: Commands,
    /// The section, if the object has it.
    pub(super) section: Option<Section<'a>>,
    pub(super) relocations: Relocations,
}

/// The unwinding of a function, as a row of `__compact_unwind` should describe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactUnwindEdit {
    /// The row to replace, by its offset in the section, or `None` for a new row. A replaced row keeps its function.
    pub row: Option<SectionOffset>,
    /// The start of the function.
    pub function: Address,
    /// The length of the function in bytes.
    pub length: u32,
    /// The encoding, without flags and personality.
    pub encoding: Encoding,
    /// The index of the personality in the symbol table.
    pub personality: Option<usize>,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

impl<'f, 'a> CompactUnwindEditor<'f, 'a> {
    /// Prepares to edit the `__compact_unwind` of a relocatable Mach-O object for x86-64 or arm64. Returns `None` for
    /// other formats.
    ///
    /// # Errors
    /// Returns an error if the file is linked, is for another architecture, or has load commands that objects do not
    /// have.
    pub fn of(file: &'f File<'a>) -> Result<Option<Self>, Error> {
        file.as_macho().map(|file| Self::new(file.headers())).transpose()
    }

    fn new(file: &'f Headers<'a>) -> Result<Self, Error> {
        if file.kind != Kind::Relocatable {
            let value = word(file.bytes, 12).unwrap_or(0).into();
            return Err(Error::Unsupported { what: "file type", offset: 12, value, name: None });
        }
        if !file.arch.has_compact_unwind() || file.arch.pointer_size() != 8 {
            let value = word(file.bytes, 4).unwrap_or(0).into();
            return Err(Error::Unsupported { what: "CPU type", offset: 4, value, name: None });
        }
        let commands = Commands::read(file.bytes)?;
        let section = file.find(b"__compact_unwind").map(|index| file.section(index)).transpose()?;
        if let Some(section) = &section
            && section.bytes.len() % ROW != 0
        {
            let (offset, value) = (section.address.0, section.bytes.len().to_u64());
            return Err(Error::Table { what: "__compact_unwind", offset, value });
        }
        let relocations = Relocations::read(file, section.as_ref().and_then(|section| section.index))?;
        Ok(Self { file, commands, section, relocations })
    }

    /// Returns whether a symbol is the same as symbols of its name in other objects.
    pub fn is_shared(&self, index: usize) -> bool {
        self.file.symbols.get(index).is_some_and(|symbol| symbol.is_shared)
    }

    /// Returns the name of a symbol by its index. Bytes that are not UTF-8 are replaced. A name longer than 4096 bytes
    /// is cut and ends with `…`.
    pub fn symbol_name(&self, index: usize) -> Option<Cow<'a, str>> {
        self.file.symbols.get(index).map(|symbol| symbol.text())
    }

    /// Returns the object with these rows. Without edits, it is the same object.
    ///
    /// # Errors
    /// Returns an error if a row has no function, personality or LSDA in the object, if parts of the file overlap so
    /// that no part can move, or if anything other than symbols refers to a section that has to move.
    pub fn rewrite(mut self, edits: &[CompactUnwindEdit]) -> Result<Rewrite<'a>, Error> {
        let (mut splices, file_len) = (Splices::default(), self.file.bytes.len());
        if !edits.is_empty() {
            let (rows, len) = self.rows(edits)?;
            let old = self.section.as_ref().map_or(0, |section| section.bytes.len());
            if len == old {
                self.change_in_place(&mut splices, &rows)?;
            } else {
                self.move_to_end(&mut splices, &rows, len)?;
            }
        }
        splices.rewrite(file_len)
    }

    /// Returns the changed and new rows with their offsets, and the new size of the section. Adds their relocations.
    fn rows(&mut self, edits: &[CompactUnwindEdit]) -> Result<(Vec<(usize, RowBytes)>, usize), Error> {
        let old = self.section.as_ref().map_or(0, |section| section.bytes.len());
        let (mut rows, mut end) = (Vec::new(), old);
        let mut removed = Vec::new();
        for edit in edits {
            let at = match edit.row {
                Some(SectionOffset(at)) if at % ROW == 0 && at < old => {
                    removed.push(at + Row::personality_at(POINTER));
                    removed.push(at + Row::lsda_at(POINTER));
                    at
                }
                Some(SectionOffset(at)) => {
                    let (offset, value) = (at.to_u64(), old.to_u64());
                    return Err(Error::Table { what: "__compact_unwind: place of a row", offset, value });
                }
                None => {
                    end += ROW;
                    end - ROW
                }
            };
            rows.push((at, edit));
        }
        removed.sort_unstable();
        self.relocations.remove(&removed);
        let rows = rows.into_iter().map(|(at, edit)| Ok((at, self.row(at, edit)?)));
        Ok((rows.collect::<Result<_, Error>>()?, end))
    }

    /// Returns the bytes of a row at an offset of the section. Adds the relocations of the row.
    fn row(&mut self, at: usize, edit: &CompactUnwindEdit) -> Result<RowBytes, Error> {
        let old = self.section.as_ref().and_then(|section| section.bytes.get(at..at + ROW));
        let mut row = match old.and_then(|old| Row::read(old, POINTER)) {
            Some(row) => row,
            None => {
                self.add_pointer(at + Row::FUNCTION_AT, edit.function)?;
                Row { function: edit.function.0, ..Row::default() }
            }
        };
        if let Some(symbol) = edit.personality {
            let offset = at + Row::personality_at(POINTER);
            let known = u32::try_from(symbol).ok().filter(|_| self.file.symbols.get(symbol).is_some());
            let known = known.ok_or(no_symbol(offset, symbol.to_u64()))?;
            self.relocations.add_symbol(offset as u32, known);
        }
        if let Some(lsda) = edit.lsda {
            self.add_pointer(at + Row::lsda_at(POINTER), lsda)?;
        }
        let flags = if edit.lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        row.encoding = edit.encoding.with_flags(flags);
        row.length = edit.length;
        row.personality = 0;
        row.lsda = edit.lsda.map_or(0, |lsda| lsda.0);
        Ok(row.write(POINTER))
    }

    /// Adds the relocation of a pointer to an address in a section.
    fn add_pointer(&mut self, offset: usize, to: Address) -> Result<(), Error> {
        let place = self.file.locate(to).ok_or(no_symbol(offset, to.0))?;
        self.relocations.add_section(offset as u32, place.section);
        Ok(())
    }
}

fn no_symbol(offset: usize, value: u64) -> Error {
    let section = SectionName::new("__compact_unwind");
    Error::RelocationSymbol { section, offset: offset.to_u64(), value }
}
