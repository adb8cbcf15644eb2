//! Reads the files that a process has mapped, each with its CFI and its table: the table that `PT_GNU_SFRAME` leads to,
//! or one made of the CFI.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

use cfipack_container::File;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Options;
use cfipack_format::Address;
use cfipack_testkit::by_cfi::Cfi;
use cfipack_testkit::process::Process;
use gimli::{EhFrame, EndianSlice, RunTimeEndian};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSegment, elf};

use crate::convert::{cfi_of, convert};

/// A mapped file (or the kernel's vDSO).
#[derive(Debug)]
pub struct Image {
    /// The file name.
    pub name: String,
    /// The distance from an address in the file to its place in memory.
    pub bias: u64,
    /// The CFI.
    pub cfi: Cfi<'static, EhFrame<EndianSlice<'static, RunTimeEndian>>>,
    /// The table.
    pub table: Section<'static>,
    /// The bytes of the table.
    pub table_bytes: &'static [u8],
    /// Whether the file has the table itself.
    pub is_embedded: bool,
    /// Functions that the table omits.
    pub omitted: Vec<u64>,
}

/// The images that a process has mapped.
#[derive(Debug, Default)]
pub struct Images {
    /// Mappings by their ends.
    mappings: BTreeMap<u64, Mapping>,
    list: Vec<Image>,
}

/// A mapping of code.
#[derive(Clone, Debug)]
struct Mapping {
    range: Range<u64>,
    /// The number of its image, or `None` for a mapping without CFI.
    image: Option<usize>,
    /// The code, if it is in a file.
    code: &'static [u8],
}

impl Images {
    /// Returns the image that contains an address. If the address is not known, the mappings are read again.
    pub fn find(&mut self, address: u64, process: &dyn Process) -> Option<&mut Image> {
        if self.mapping(address).is_none() {
            self.read(process);
        }
        let number = self.mapping(address).flatten()?;
        Some(&mut self.list[number])
    }

    /// The images that have CFI.
    pub fn list(&self) -> &[Image] {
        &self.list
    }

    /// Returns the mappings of code in ascending order, with the code of those that are in files.
    pub fn mappings(&self) -> impl Iterator<Item = (Range<u64>, Option<&Image>, &'static [u8])> {
        self.mappings.values().map(|mapping| {
            (mapping.range.clone(), mapping.image.map(|image| &self.list[image]), mapping.code)
        })
    }

    fn mapping(&self, address: u64) -> Option<Option<usize>> {
        let mapping = self.mappings.range((Excluded(address), Unbounded)).next()?.1;
        mapping.range.contains(&address).then_some(mapping.image)
    }

    /// Reads the mappings that are not known yet.
    pub fn read(&mut self, process: &dyn Process) {
        let mut first: Option<(String, u64)> = None;
        for line in process.maps().lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(range), Some(flags), Some(offset)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let name = fields.nth(2).unwrap_or_default();
            let hexadecimal =
                |text: &str| u64::from_str_radix(text, 16).expect("the kernel writes hexadecimal");
            let (start, end) = range.split_once('-').expect("a range");
            let (start, end) = (hexadecimal(start), hexadecimal(end));
            if hexadecimal(offset) == 0 {
                first = Some((name.to_string(), start));
            }
            let is_known = self.mappings.get(&end).is_some_and(|mapping| mapping.range.start == start);
            if !flags.contains('x') || is_known {
                continue;
            }
            // A loader may first map a whole file as code, and then other segments over it.
            self.mappings.retain(|_, mapping| mapping.range.end <= start || end <= mapping.range.start);
            let (_, base) = first.clone().filter(|(file, _)| file == name).unwrap_or((String::new(), start));
            let (image, bytes) = self.image(name, base, start..end, process).unzip();
            let from = bytes.and_then(|bytes: &'static [u8]| bytes.get(hexadecimal(offset) as usize..));
            let code = from.unwrap_or_default();
            let code = &code[..code.len().min((end - start) as usize)];
            self.mappings.insert(end, Mapping { range: start..end, image, code });
        }
    }

    fn image(
        &mut self,
        name: &str,
        base: u64,
        range: Range<u64>,
        process: &dyn Process,
    ) -> Option<(usize, &'static [u8])> {
        let bytes = match name {
            "[vdso]" => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                process.read(range.start, &mut bytes);
                bytes
            }
            _ => fs::read(name).ok()?,
        };
        // Images live as long as the test's process, so their bytes are leaked.
        let bytes: &'static [u8] = bytes.leak();
        let segments = object::File::parse(bytes).ok()?;
        let first = segments.segments().map(|segment| segment.address()).min()?;
        let file = File::parse(bytes).ok()?;
        let sections = Vec::leak(file.call_frame_sections().ok()?);
        let of = sections.first()?;
        let cfi = cfi_of(sections);
        let place = Address(of.section.address.0 + of.section.bytes.len() as u64);
        let converted = Box::leak(Box::new(convert(&cfi, file.arch(), place, Options::default())));
        let (address, text, data) = (of.section.address.0, of.text.0, of.data.0);
        let own = own_table(bytes);
        self.list.push(Image {
            name: name.to_string(),
            bias: base.wrapping_sub(first & !0xfff),
            cfi: Cfi::eh_frame(&of.section.bytes, address, text, data, file.arch()).ok()?,
            table: own.map_or_else(|| converted.table(), |own| own.0),
            table_bytes: own.map_or(&converted.bytes, |own| own.1),
            is_embedded: own.is_some(),
            omitted: converted.omitted.iter().map(|unsupported| unsupported.function.0).collect(),
        });
        Some((self.list.len() - 1, bytes))
    }
}

/// Returns the table that the file's `PT_GNU_SFRAME` leads to.
fn own_table(bytes: &'static [u8]) -> Option<(Section<'static>, &'static [u8])> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let mut headers = file.elf_program_headers().iter();
    let header = headers.find(|header| header.p_type(file.endian()) == elf::PT_GNU_SFRAME)?;
    let table = header.data(file.endian(), bytes).ok()?;
    let section = Section::parse(table, Address(header.p_vaddr(file.endian())));
    Some((section.expect("the file's own table"), table))
}
