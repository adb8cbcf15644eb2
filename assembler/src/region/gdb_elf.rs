//! The ELF file in memory that gdb's JIT interface takes: a section that stands for the code, the functions' symbols and
//! `.eh_frame`.
//!
//! gdb's manual, "JIT Compilation Interface"; the System V ABI for the structures. Measured with gdb 13.1 and 18.1.

use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Endian};

use super::out::Out;
use super::{Error, Pointers, Region};

const EHDR: usize = 64;
const SHDR: usize = 64;
const SYM: usize = 24;
const SECTION_NAMES: &[u8] = b"\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab\0";

/// A section header.
struct Header {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: usize,
    size: u64,
    link: u32,
    info: u32,
    entry_size: u64,
}

/// Returns the offset of a section's name in [`SECTION_NAMES`].
fn name_offset(name: &[u8]) -> u32 {
    SECTION_NAMES.windows(name.len()).position(|window| window == name).unwrap_or(0) as u32
}

impl Region {
    /// Returns the file. It may lie at any address. You must not change it until you unregister it with gdb.
    /// Make a file for a region, not for each function, because gdb's work at each registration grows with the
    /// number of files.
    ///
    /// # Errors
    /// The errors of [`Region::eh_frame`]. [`Error::Arch`]: the architecture has 32 bits.
    pub fn gdb_elf(&self) -> Result<Vec<u8>, Error> {
        self.needs_64_bit("gdb's file in memory")?;
        let eh_frame = self.eh_frame(Pointers::Absolute)?;
        let eh_frame = eh_frame.bytes();
        let endian = self.arch.endian();
        let symbols = SYM * (self.functions.len() + 1);
        // A zero, and a zero after each name.
        let strings = 1 + self.names.len() + self.functions.len();
        let symtab_at = (EHDR + eh_frame.len()).next_multiple_of(8);
        let strtab_at = symtab_at + symbols;
        let names_at = strtab_at + strings;
        let headers_at = (names_at + SECTION_NAMES.len()).next_multiple_of(8);
        let mut out = Out { bytes: Vec::with_capacity(headers_at + 6 * SHDR), endian };
        out.file_header(self.arch, headers_at);
        out.bytes.extend_from_slice(eh_frame);
        out.bytes.resize(symtab_at, 0);
        self.gdb_symbols(&mut out, strings)?;
        out.bytes.extend_from_slice(SECTION_NAMES);
        out.bytes.resize(headers_at + SHDR, 0);
        let header = |name, kind, offset, size| Header {
            name: name_offset(name),
            kind,
            flags: 0,
            address: 0,
            offset,
            size,
            link: 0,
            info: 0,
            entry_size: 0,
        };
        let (base, length) = (self.base.0, self.length);
        // SHT_NOBITS, ALLOC and EXECINSTR; SHT_PROGBITS, ALLOC; SHT_SYMTAB; SHT_STRTAB.
        out.section(&Header { flags: 6, address: base, ..header(b".text\0", 8, EHDR, length) });
        out.section(&Header { flags: 2, ..header(b".eh_frame\0", 1, EHDR, eh_frame.len().to_u64()) });
        let symtab = header(b".symtab\0", 2, symtab_at, symbols.to_u64());
        out.section(&Header { link: 4, info: 1, entry_size: SYM.to_u64(), ..symtab });
        out.section(&header(b".strtab\0", 3, strtab_at, strings.to_u64()));
        out.section(&header(b".shstrtab\0", 3, names_at, SECTION_NAMES.len().to_u64()));
        Ok(out.bytes)
    }

    /// Writes the symbols and their names.
    fn gdb_symbols(&self, out: &mut Out, strings: usize) -> Result<(), Error> {
        let too_large = Error::TooLarge {
            what: "bytes of names in gdb's file",
            value: strings.to_u64(),
            most: u32::MAX.into(),
        };
        u32::try_from(strings).map_err(|_| too_large)?;
        out.bytes.resize(out.bytes.len() + SYM, 0);
        let mut name_at = 1;
        for function in self.placed() {
            out.u32(name_at);
            // STB_GLOBAL and STT_FUNC, of section 1.
            out.bytes.extend_from_slice(&[0x12, 0]);
            out.u16(1);
            out.u64(self.start_of(function).0);
            out.u64(function.size);
            name_at += function.name.len() as u32 + 1;
        }
        out.bytes.push(0);
        for function in self.placed() {
            out.bytes.extend_from_slice(&self.names.as_bytes()[function.name.clone()]);
            out.bytes.push(0);
        }
        Ok(())
    }
}

impl Out {
    /// Writes the header of an executable file without program headers. Its symbols have addresses.
    fn file_header(&mut self, arch: Arch, headers_at: usize) {
        let data = match self.endian {
            Endian::Little => 1,
            Endian::Big => 2,
        };
        self.bytes.extend_from_slice(&[0x7f, b'E', b'L', b'F', 2, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        self.u16(2);
        self.u16(arch.elf_machine());
        self.u32(1);
        self.u64(0);
        self.u64(0);
        self.u64(headers_at.to_u64());
        self.u32(0);
        for half in [EHDR as u16, 0, 0, SHDR as u16, 6, 5] {
            self.u16(half);
        }
    }

    fn section(&mut self, header: &Header) {
        self.u32(header.name);
        self.u32(header.kind);
        for word in [header.flags, header.address, header.offset.to_u64(), header.size] {
            self.u64(word);
        }
        self.u32(header.link);
        self.u32(header.info);
        self.u64(1);
        self.u64(header.entry_size);
    }
}
