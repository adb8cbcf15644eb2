//! Reads a recorded file and its unwind tables: the table that `PT_GNU_SFRAME` leads to, or a table made of its CFI.

use std::error::Error;
use std::fs;
use std::ops::Range;

use cfipack_cfi::Functions;
use cfipack_container::{self as container, Symbols};
use cfipack_decoder::sframe::{Index, Section};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Address, starts_stacks, switches_stacks};
use object::elf;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf::ProgramHeader64};

use super::cfi::Cfi;

/// The bytes of a file, and of the table made for it.
pub struct File {
    /// The path.
    pub path: String,
    bytes: Vec<u8>,
    /// If the file has no table: the bytes of a table for address 0.
    packed: Option<Vec<u8>>,
    index: Vec<u32>,
}

/// Everything that a profiler uses of a file.
pub struct Image<'f> {
    /// The path.
    pub path: &'f str,
    /// Whether the file has a table of its own.
    pub is_embedded: bool,
    /// The table, with an index for lookups.
    pub table: Index<'f, 'f>,
    /// The functions that are the first of a stack.
    pub starts: Vec<Range<Address>>,
    /// The functions that call others on another stack.
    pub switches: Vec<Range<Address>>,
    /// The call frame information.
    pub cfi: Option<Cfi<'f>>,
    symbols: Symbols<'f>,
    loaded: Vec<Segment<'f>>,
}

/// A loaded part of a file.
#[derive(Clone, Copy)]
struct Segment<'f> {
    address: u64,
    offset: u64,
    bytes: &'f [u8],
    is_code: bool,
}

impl File {
    /// Reads a file, and makes a table of its CFI if it has none. `[vdso]` is read from this process, because the
    /// kernel gives the same one to every process.
    pub fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let bytes = match path {
            "[vdso]" => vdso()?,
            path if fs::metadata(path)?.is_file() => fs::read(path)?,
            path => return Err(format!("{path}: no regular file").into()),
        };
        let has_table = Headers::parse(&bytes)?.table().is_some();
        let packed = if has_table { None } else { Some(pack(&bytes)?) };
        Ok(Self { path: path.to_string(), bytes, packed, index: Vec::new() })
    }

    /// Finds the table and builds its index, which makes lookups twice as fast.
    pub fn image(&mut self) -> Result<Image<'_>, Box<dyn Error>> {
        let headers = Headers::parse(&self.bytes)?;
        let section = match &self.packed {
            Some(bytes) => Section::parse(bytes, Address(0))?,
            None => headers.table().ok_or("no table")?,
        };
        self.index = vec![0; Index::len_for(&section)];
        let table = Index::build(&section, &mut self.index)?;
        let loaded: Vec<_> = headers.segments(elf::PT_LOAD).collect();
        let eh_frame_hdr = headers.segment(elf::PT_GNU_EH_FRAME);
        let cfi = eh_frame_hdr.and_then(|header| {
            Cfi::parse(header.address, header.bytes, |address| {
                let segment = loaded.iter().find(|segment| segment.has(address))?;
                segment.bytes.get((address - segment.address) as usize..)
            })
        });
        let symbols = container::File::parse(&self.bytes)?.symbols()?;
        let mut starts = functions_named(&symbols, starts_stacks);
        // A loader without symbols still has an entry point, for which there are no rows.
        if headers.entry.0 != 0 && table.find(headers.entry)?.is_none() {
            starts.push(headers.entry..Address(headers.entry.0.saturating_add(LONGEST_ENTRY)));
        }
        let mut switches = functions_named(&symbols, switches_stacks);
        starts.iter_mut().chain(&mut switches).for_each(|function| cut(function, &symbols, &table));
        starts.sort_by_key(|start| start.start);
        let (path, is_embedded) = (&*self.path, self.packed.is_none());
        Ok(Image { path, is_embedded, table, starts, switches, cfi, symbols, loaded })
    }
}

/// The most bytes of code that belong to an entry point without a symbol.
const LONGEST_ENTRY: u64 = 256;

/// Returns the code of functions with certain names.
fn functions_named(symbols: &Symbols<'_>, is_wanted: fn(&str) -> bool) -> Vec<Range<Address>> {
    let named = symbols.iter().filter(|(_, name)| is_wanted(name));
    named.filter_map(|(address, _)| symbols.extent(address)).collect()
}

/// Ends a function where the table's next function or the next symbol starts, because symbols may have no size.
fn cut(function: &mut Range<Address>, symbols: &Symbols<'_>, table: &Index<'_, '_>) {
    let starts = table.section().functions().filter_map(Result::ok).map(|function| function.start());
    let next = starts.filter(|next| *next > function.start).chain(symbols.next_after(function.start)).min();
    function.end = next.map_or(function.end, |next| next.min(function.end));
}

impl Image<'_> {
    /// Returns the address in the file of a mapping of code at an offset. A mapping starts with a page. The segment may
    /// start within that page, and the page may have the end of another segment too.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let has = |segment: &&Segment<'_>| {
            let end = segment.offset + segment.bytes.len() as u64;
            segment.is_code && (segment.offset & !(PAGE - 1)..end).contains(&offset)
        };
        let segment = self.loaded.iter().find(has)?;
        Some(segment.address.wrapping_sub(segment.offset).wrapping_add(offset))
    }

    /// Returns the end of what is loaded, by addresses of the file. `None` if that is beyond the last address.
    pub fn end(&self) -> Option<u64> {
        let ends = self.loaded.iter().map(|segment| segment.address.checked_add(segment.bytes.len() as u64));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Returns the function at an address of the file, or the file's name in brackets.
    pub fn name_at(&self, address: u64) -> String {
        match self.symbols.lookup(Address(address)) {
            Some(symbol) => symbol.name.into_owned(),
            None => format!("[{}]", self.name()),
        }
    }

    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

impl Segment<'_> {
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.bytes.len() as u64
    }
}

/// The program headers of a file, which are all that a loader and a profiler need.
struct Headers<'f> {
    headers: &'f [ProgramHeader64<Endianness>],
    entry: Address,
    bytes: &'f [u8],
    endian: Endianness,
}

impl<'f> Headers<'f> {
    fn parse(bytes: &'f [u8]) -> Result<Self, object::Error> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let entry = Address(file.elf_header().e_entry(file.endian()));
        Ok(Self { headers: file.elf_program_headers(), entry, bytes, endian: file.endian() })
    }

    fn segments(&self, kind: elf::ProgramType) -> impl Iterator<Item = Segment<'f>> {
        let found = self.headers.iter().filter(move |header| header.p_type(self.endian) == kind);
        found.filter_map(|header| {
            let (address, offset) = (header.p_vaddr(self.endian), header.p_offset(self.endian));
            let is_code = header.p_flags(self.endian).contains(elf::PF_X);
            Some(Segment { address, offset, bytes: header.data(self.endian, self.bytes).ok()?, is_code })
        })
    }

    fn segment(&self, kind: elf::ProgramType) -> Option<Segment<'f>> {
        self.segments(kind).find(|segment| !segment.bytes.is_empty())
    }

    /// Returns the file's own table. After sections were removed, the program header may lead to no bytes or to others.
    fn table(&self) -> Option<Section<'f>> {
        let segment = self.segment(elf::PT_GNU_SFRAME)?;
        Section::parse(segment.bytes, Address(segment.address)).ok()
    }
}

/// Makes a table of a file's CFI, for address 0.
fn pack(bytes: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let file = container::File::parse(bytes)?;
    let sections = file.call_frame_sections()?;
    let mut builder = Builder::new(file.arch(), Options::default())?;
    for section in &sections {
        builder.push_all(Functions::new(&section.cfi()), |_omitted| ());
    }
    Ok(builder.finish().into_bytes(Address(0), |function| Address(function.0))?)
}

/// Reads the vDSO, the kernel's library of fast system calls, from this process.
fn vdso() -> Result<Vec<u8>, Box<dyn Error>> {
    use std::os::unix::fs::FileExt as _;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or("no vdso")?;
    let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).ok_or("no range")?;
    let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
    let mut bytes = vec![0; (end - start) as usize];
    fs::File::open("/proc/self/mem")?.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}
