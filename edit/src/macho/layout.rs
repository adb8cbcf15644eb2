//! Moves the changed section, and updates everything that depends on its place.

use cfipack_container::raw::macho::{Headers, Target};
use cfipack_container::{Error, SectionName};
use cfipack_format::widen::{ToU64, ToUsize};
use object::LittleEndian as LE;
use object::macho::Section64;

use super::compact_unwind::{CompactUnwindEditor, ROW, RowBytes};
use super::splices::Splices;

/// Fields of `struct section_64` of `mach-o/loader.h`, from its start.
const ADDRESS: usize = 32;
const SIZE: usize = 40;
const OFFSET: usize = 48;
const ALIGN: usize = 52;
const RELOFF: usize = 56;
const FLAGS: usize = 64;
const HEADER: usize = size_of::<Section64<LE>>();

/// `S_ATTR_DEBUG`: linkers do not copy the section.
const DEBUG: u32 = 0x0200_0000;

/// The alignment of rows in memory and in the file.
const ALIGNMENT: u64 = 8;

impl CompactUnwindEditor<'_, '_> {
    /// Changes rows in their places. The number of relocations may grow.
    pub(super) fn change_in_place(
        mut self,
        splices: &mut Splices,
        rows: &[(usize, RowBytes)],
    ) -> Result<(), Error> {
        let Some(index) = self.section_index() else { return Ok(()) };
        let header = self.commands.section_header(index);
        self.commands.release(header + RELOFF);
        let relocations = self.replace_relocations(splices, self.after_contents())?;
        self.commands.update(splices)?;
        let fields = header + RELOFF..header + RELOFF + relocations.len();
        splices.replace(fields, "section __compact_unwind: relocations", relocations);
        let start = self.contents().start;
        for (at, row) in rows {
            splices.replace(start + at..start + at + ROW, "__compact_unwind: row", &row[..ROW]);
        }
        Ok(())
    }

    /// Moves the section to the highest addresses of the object, with more rows. Adds the section if it is missing.
    pub(super) fn move_to_end(
        mut self,
        splices: &mut Splices,
        rows: &[(usize, RowBytes)],
        len: usize,
    ) -> Result<(), Error> {
        let after = self.after_contents();
        let mut header = new_header();
        let reserved = match self.section_index() {
            Some(index) => {
                check_unreferenced(self.file, index)?;
                let at = self.commands.section_header(index);
                header.copy_from_slice(&self.file.bytes[at..at + HEADER]);
                self.commands.release(at + OFFSET);
                self.commands.release(at + RELOFF);
                splices.replace(self.contents(), "__compact_unwind: old rows", []);
                None
            }
            None => {
                self.commands.check_more_sections()?;
                check_unclaimed(self.file)?;
                let end = self.commands.segment.end;
                Some(splices.reserve(end, "header of section __compact_unwind", HEADER))
            }
        };
        let start = splices.moved(after.to_u64());
        let offset = start.next_multiple_of(ALIGNMENT);
        splices.replace(after..after, "padding", vec![0; (offset - start) as usize]);
        splices.replace(after..after, "__compact_unwind: rows", self.new_contents(rows, len));
        let relocations = self.replace_relocations(splices, after)?;
        let address = self.end_of_addresses(len.to_u64())?;
        put(&mut header, ADDRESS, &address.to_le_bytes());
        put(&mut header, SIZE, &len.to_u64().to_le_bytes());
        put(&mut header, OFFSET, &file_offset(offset)?.to_le_bytes());
        put(&mut header, RELOFF, &relocations);
        self.commands.update(splices)?;
        self.commands.resize_segment(splices, offset + len.to_u64(), address + len.to_u64());
        if let Some(reserved) = reserved {
            splices.fill(reserved, &header);
            self.commands.add_section(splices);
        } else {
            self.move_header(splices, &header);
            self.move_symbols(splices, address);
        }
        Ok(())
    }

    fn section_index(&self) -> Option<usize> {
        self.section.as_ref()?.index
    }

    /// Returns the range of the old rows in the file.
    fn contents(&self) -> std::ops::Range<usize> {
        let len = self.section.as_ref().map_or(0, |section| section.bytes.len());
        let header = self.section_index().map(|index| &self.file.sections[index]);
        let start = header.and_then(|header| header.offset).unwrap_or(0).to_usize();
        start..start + len
    }

    /// Returns the start of the first part of the file after the contents of all sections, or the end of the file.
    fn after_contents(&self) -> usize {
        let sections = self.file.sections.iter();
        let ends = sections.filter_map(|header| Some(header.offset?.saturating_add(header.size)));
        self.commands.next_part(ends.max().unwrap_or(0), self.file.bytes.len())
    }

    /// Returns the first address after all other sections. Refuses an object if `len` bytes do not fit there.
    fn end_of_addresses(&self, len: u64) -> Result<u64, Error> {
        let own = self.section_index();
        let others = self.file.sections.iter().enumerate().filter(|(index, _)| Some(*index) != own);
        let mut end = self.commands.vmaddr;
        for (_, header) in others {
            let section = header.address.checked_add(header.size);
            end = end.max(section.ok_or(does_not_fit(header.address, header.size))?);
        }
        let start = end.checked_next_multiple_of(ALIGNMENT).filter(|start| start.checked_add(len).is_some());
        start.ok_or(does_not_fit(end, len))
    }

    fn new_contents(&self, rows: &[(usize, RowBytes)], len: usize) -> Vec<u8> {
        let mut contents = self.section.as_ref().map_or(Vec::new(), |section| section.bytes.to_vec());
        contents.resize(len, 0);
        for (at, row) in rows {
            put(&mut contents, *at, &row[..ROW]);
        }
        contents
    }

    /// Replaces the table of relocations. A new table comes at `after`. Returns the new `reloff` and `nreloc`.
    fn replace_relocations(&self, splices: &mut Splices, after: usize) -> Result<[u8; 8], Error> {
        let header = self.section_index().map(|index| &self.file.sections[index]);
        let own = header.filter(|header| header.relocations_count != 0).map(|header| {
            let start = header.relocations_off.to_usize();
            start..start + header.relocations_count.to_usize() * 8
        });
        let place = own.unwrap_or(after..after);
        let table = self.relocations.write();
        let offset = file_offset(splices.moved(place.start.to_u64()))?;
        let count = (table.len() / 8) as u32;
        splices.replace(place, "__compact_unwind: relocations", table);
        Ok((u64::from(offset) | u64::from(count) << 32).to_le_bytes())
    }

    fn move_header(&self, splices: &mut Splices, header: &[u8; HEADER]) {
        let Some(index) = self.section_index() else { return };
        let at = self.commands.section_header(index);
        for (part, what) in [
            (ADDRESS..ALIGN, "section __compact_unwind: address, size and offset"),
            (RELOFF..FLAGS, "section __compact_unwind: relocations"),
        ] {
            splices.replace(at + part.start..at + part.end, what, &header[part]);
        }
    }

    /// Moves the symbols of the section together with the section.
    fn move_symbols(&self, splices: &mut Splices, address: u64) {
        let Some(index) = self.section_index() else { return };
        let distance = address.wrapping_sub(self.file.sections[index].address);
        if distance == 0 {
            return;
        }
        let symbols = self.file.symbols;
        let own = symbols.iter().enumerate().filter(|(_, symbol)| symbol.section == Some(index));
        for (number, symbol) in own {
            let (at, name) = (symbols.value_offset(number), SectionName::new(&symbol.text()));
            let value = symbol.value.wrapping_add(distance).to_le_bytes();
            splices.replace(at..at + 8, format!("symbol {name}: value"), value);
        }
    }
}

/// Returns the header of a section without rows, as llvm-mc 23 writes it.
fn new_header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    put(&mut header, 0, b"__compact_unwind");
    put(&mut header, 16, b"__LD");
    put(&mut header, ALIGN, &ALIGNMENT.trailing_zeros().to_le_bytes());
    put(&mut header, FLAGS, &DEBUG.to_le_bytes());
    header
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn file_offset(offset: u64) -> Result<u32, Error> {
    let what = "layout: a part moves beyond 4 GiB";
    u32::try_from(offset).map_err(|_| Error::Table { what, offset: 0, value: offset })
}

/// Refuses to move a section if fields of other sections hold its addresses.
fn check_unreferenced(file: &Headers<'_>, section: usize) -> Result<(), Error> {
    for index in 0..file.sections.len() {
        for fixup in file.fixups(index)? {
            if fixup.target == Target::Section(Some(section)) {
                let (section, offset) = (file.name_for_error(index), fixup.offset.into());
                return Err(Error::RelocationSymbol { section, offset, value: index.to_u64() });
            }
        }
    }
    Ok(())
}

/// Refuses a new section after the others if a symbol or a field already has its number, without a section for it.
fn check_unclaimed(file: &Headers<'_>) -> Result<(), Error> {
    let new = file.sections.len();
    check_unreferenced(file, new)?;
    let Some(symbol) = file.symbols.iter().position(|symbol| symbol.section == Some(new)) else {
        return Ok(());
    };
    let offset = file.symbols.section_offset(symbol).to_u64();
    Err(Error::Table { what: "section of a symbol, which there is not", offset, value: new.to_u64() + 1 })
}

fn does_not_fit(offset: u64, value: u64) -> Error {
    Error::Table { what: "addresses of sections", offset, value }
}
