//! Lists the tables that `PT_GNU_SFRAME` leads to in linked ELF files. Only the crate `object` reads them.
//!
//! Standard input has a path on each line. For each it prints a line with the path, a tab, and one of:
//!
//! - `ADDRESS SIZE HASH`: the table is whole, in one read-only loaded segment, and at the place of its section, if the
//!   file has sections;
//! - `none`: there is no such program header;
//! - `broken: ` and a description of the fault.

use std::error::Error;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, Write};
use std::{fs, process::ExitCode};

use object::elf::{self, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endian, Endianness};

/// The magic number of a table.
const MAGIC: u16 = 0xdee2;

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    for path in io::stdin().lock().lines() {
        let written = path.and_then(|path| {
            let line = match fs::read(&path).map_err(Into::into).and_then(|bytes| table(&bytes)) {
                Ok(Some(table)) => table,
                Ok(None) => "none".to_owned(),
                Err(error) => format!("broken: {error}"),
            };
            writeln!(out, "{path}\t{line}")
        });
        if let Err(error) = written {
            eprintln!("tables: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn table(bytes: &[u8]) -> Result<Option<String>, Box<dyn Error>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, bytes)?;
    let mut tables = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_GNU_SFRAME);
    let Some(table) = tables.next() else { return Ok(None) };
    if tables.next().is_some() {
        return Err("two PT_GNU_SFRAME".into());
    }
    let (address, offset, size) = (table.p_vaddr(endian), table.p_offset(endian), table.p_filesz(endian));
    let content = table.data(endian, bytes).map_err(|()| "the segment is outside the file")?;
    let magic = if endian.is_big_endian() { MAGIC.to_be_bytes() } else { MAGIC.to_le_bytes() };
    if content.len() < 28 || !content.starts_with(&magic) {
        return Err("no table in the segment".into());
    }

    let loaded = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
    let around: Vec<_> = loaded
        .filter(|load| {
            let (start, size_in_file) = (load.p_vaddr(endian), load.p_filesz(endian));
            start <= address && address + size <= start + size_in_file
        })
        .collect();
    let [load] = around[..] else { return Err(format!("in {} loaded segments", around.len()).into()) };
    if load.p_flags(endian) != elf::PF_R {
        return Err(format!("in a segment with flags {:#x}", load.p_flags(endian)).into());
    }
    if address - load.p_vaddr(endian) != offset - load.p_offset(endian) {
        return Err("address and offset disagree".into());
    }

    let sections = header.sections(endian, bytes)?;
    if !sections.is_empty() {
        let section = sections.iter().find(|section| section.sh_type(endian) == elf::SHT_GNU_SFRAME);
        let section = section.ok_or("no section of type SHT_GNU_SFRAME")?;
        let of_section = (section.sh_addr(endian), section.sh_offset(endian), section.sh_size(endian));
        if of_section != (address, offset, size) {
            return Err("section and segment disagree".into());
        }
    }
    let mut hash = DefaultHasher::new();
    hash.write(content);
    Ok(Some(format!("{address:#x} {size} {:016x}", hash.finish())))
}
