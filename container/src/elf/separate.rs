//! Separate debug files: reads the name of a file's debug file, and reads symbols and addresses from the debug file.

use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

use super::file::Elf;
use super::headers::Headers;
use super::placement::Addresses;
use crate::error::Error;
use crate::kind::Kind;
use crate::symbols::Symbols;

impl<'a> Elf<'a> {
    /// Returns the build-id, which linkers store in a note (`NT_GNU_BUILD_ID`). A file and its debug file have the same
    /// build-id.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        let Headers { endian, bytes, .. } = self.headers;
        let sections = self.headers.sections.iter().map(|section| section.notes(endian, bytes));
        // In a debug file, the program headers lead to bytes that the file does not have.
        let segments = self.headers.segments.iter().filter(|_| self.headers.sections.is_empty());
        let mut notes = sections.chain(segments.map(|segment| segment.notes(endian, bytes)));
        notes.find_map(|notes| {
            let mut notes = notes.ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
            None
        })
    }

    /// Returns the name and the CRC-32 of the debug file in `.gnu_debuglink`. The name is as in the file, which can be
    /// hostile: check that it is no path before you open it.
    ///
    /// The section has a name that ends with a zero byte, padding up to a multiple of 4, and the CRC (gdb's manual,
    /// "Debugging Information in Separate Files").
    pub fn debug_link(&self) -> Option<(&'a [u8], u32)> {
        let headers = &self.headers;
        let is_link = |header: &_| headers.name(header) == b".gnu_debuglink";
        let (index, _) = headers.sections.enumerate().find(|(_, header)| is_link(header))?;
        let bytes = headers.section_bytes(index.0).ok()?;
        let name = bytes.split(|&byte| byte == 0).next()?;
        let checksum = bytes.get((name.len() + 1).next_multiple_of(4)..)?.first_chunk()?;
        Some((name, headers.arch.endian().u32(*checksum)))
    }

    /// Sets the separate debug file. See [`File::with_debug_file`](crate::File::with_debug_file).
    pub(crate) fn with_debug_file(self, debug_file: Box<Self>) -> Result<Self, Error> {
        let is_for = self.headers.arch == debug_file.headers.arch;
        if !is_for || self.headers.kind != Kind::Linked || debug_file.headers.kind != Kind::Linked {
            let machine = debug_file.headers.file.e_machine(debug_file.headers.endian);
            return Err(Error::DebugFile { machine: machine.0 });
        }
        Ok(Self { debug_file: Some(debug_file), ..self })
    }

    /// Reads the symbols of functions. If only the debug file has `.symtab`, they are read from it.
    pub(crate) fn symbols(&self) -> Result<Symbols<'a>, Error> {
        let debug_file = self.debug_file.as_deref().filter(|debug_file| debug_file.has_symtab());
        Symbols::read(debug_file.filter(|_| !self.has_symtab()).unwrap_or(self))
    }

    fn has_symtab(&self) -> bool {
        let headers = &self.headers;
        headers.sections.iter().any(|header| header.sh_type(headers.endian) == elf::SHT_SYMTAB)
    }

    /// Returns the addresses of the sections. If the file has no section headers, they are read from its debug file.
    pub(super) fn section_addresses(&self) -> &Addresses {
        let debug_file = self.debug_file.as_ref().filter(|_| self.addresses.is_ambiguous());
        debug_file.map_or(&self.addresses, |debug_file| &debug_file.addresses)
    }
}
