//! Prints the stacks of a recording for flame graphs. It walks the stacks with `.sframe` tables.
//!
//! ```sh
//! perf record -e cpu-clock --call-graph dwarf PROGRAM
//! cargo run --release --example profile -- perf.data | inferno-flamegraph > graph.svg
//! ```
//!
//! It makes a table for a file that has none. The recording must be of x86-64 and of this machine, because it
//! reads the mapped files. It trusts linux-perf-data, so do not give it a stranger's recording.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::io::Cursor;

use cfipack::cfi::Functions;
use cfipack::container::{File, Symbols};
use cfipack::decoder::sframe::{Registers, Section};
use cfipack::decoder::walk::{Cache, CacheEntry, Module, Modules, StackFrame, Walk};
use cfipack::encoder::sframe::{Builder, Options};
use cfipack::format::{Address, Arch, Register, starts_stacks};
use linux_perf_data::linux_perf_event_reader::{EventRecord, Mmap2Record, SampleRecord};
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader as _};

/// perf's numbers of the registers with DWARF numbers 0 to 15, and perf's number of the instruction pointer.
const REGISTERS: [u64; 16] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
const INSTRUCTION_POINTER: u64 = 8;

/// A file that code was mapped from. It stays in memory until the program ends.
struct Image {
    bytes: &'static [u8],
    table: Section<'static>,
    symbols: Symbols<'static>,
    /// The functions where stacks start.
    starts: Vec<std::ops::Range<Address>>,
}

/// Mapped code: its start and end, the distance to the addresses in its file, and the file.
#[derive(Clone)]
struct Mapping(u64, u64, u64, Option<&'static Image>);

#[derive(Default)]
struct Profile {
    images: HashMap<Vec<u8>, Option<&'static Image>>,
    /// The mapped code of each process, in ascending order and without overlaps.
    processes: HashMap<i32, Vec<Mapping>>,
    stacks: BTreeMap<String, u64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: profile RECORDING")?;
    let PerfFileReader { mut perf_file, mut record_iter } =
        PerfFileReader::parse_file(Cursor::new(fs::read(path)?))?;
    let mut memory = vec![CacheEntry::EMPTY; 4096];
    let mut cache = Cache::new(&mut memory);
    let mut profile = Profile::default();
    while let Some(record) = record_iter.next_record(&mut perf_file)? {
        let PerfFileRecord::EventRecord { record, .. } = record else { continue };
        match record.parse()? {
            EventRecord::Comm(record) if record.is_execve => drop(profile.processes.remove(&record.pid)),
            EventRecord::Fork(record) if record.pid != record.ppid => {
                let mapped = profile.processes.get(&record.ppid).cloned().unwrap_or_default();
                profile.processes.insert(record.pid, mapped);
            }
            EventRecord::Mmap2(record) => profile.map(&record),
            EventRecord::Sample(record) => drop(profile.sample(&record, &mut cache)),
            _ => {}
        }
    }
    profile.stacks.iter().for_each(|(stack, count)| println!("{stack} {count}"));
    Ok(())
}

impl Profile {
    /// Records a mapping. It replaces all mappings that overlap it.
    fn map(&mut self, record: &Mmap2Record<'_>) {
        const EXECUTE: u32 = 4;
        let (start, end) = (record.address, record.address.saturating_add(record.length));
        if record.protection & EXECUTE == 0 || start == end {
            return;
        }
        let path = record.path.as_slice().into_owned();
        let image = *self.images.entry(path).or_insert_with_key(|path| {
            let path = std::str::from_utf8(path).ok()?;
            let image = Image::read(path).inspect_err(|error| eprintln!("{path}: {error}"));
            Some(Box::leak(Box::new(image.ok()?)))
        });
        let address = image.and_then(|image| image.address_of(record.page_offset));
        let (bias, image) = match address {
            Some(address) => (start.wrapping_sub(address), image),
            None => (0, None),
        };
        let mapped = self.processes.entry(record.pid).or_default();
        mapped.retain(|other| other.1 <= start || end <= other.0);
        mapped.push(Mapping(start, end, bias, image));
        mapped.sort_by_key(|mapping| mapping.0);
    }

    /// Walks the stack of a sample. Returns `None` for a kernel thread, which has no user stack.
    fn sample(&mut self, record: &SampleRecord<'_>, cache: &mut Cache<'_>) -> Option<()> {
        let (user, (stack, len)) = (record.user_regs.as_ref()?, record.user_stack.as_ref()?);
        let mut others = [(Register(0), 0); 16];
        for (number, (other, perf)) in others.iter_mut().zip(REGISTERS).enumerate() {
            *other = (Register(number as u16), user.get(perf)?);
        }
        let registers = Registers { sp: others[7].1, fp: Some(others[6].1), lr: None, others: &others };
        let stack = stack.as_slice();
        let stack = stack.get(..usize::try_from(*len).ok()?)?;
        let memory = |address: Address| {
            let at = usize::try_from(address.0.wrapping_sub(others[7].1)).ok()?;
            Some(u64::from_le_bytes(*stack.get(at..)?.first_chunk()?))
        };
        let mapped = self.processes.get(&record.pid?)?;
        let modules = mapped.iter().map(|Mapping(start, end, bias, image)| {
            let module = Module::new(Address(*start)..Address(*end), *bias);
            match image {
                Some(image) => module.with_table(image.table).with_starts(&image.starts),
                None => module,
            }
        });
        let modules: Vec<_> = modules.collect();
        let modules = Modules::new(Arch::Amd64, &modules[..]).ok()?;
        let pc = Address(user.get(INSTRUCTION_POINTER)?);
        let mut walk = Walk::new(&modules, pc, registers, memory).with_cache(cache);
        let mut names: Vec<String> = walk.by_ref().take(1000).map(|frame| name(mapped, &frame)).collect();
        if !walk.end().is_some_and(|end| end.is_complete()) {
            names.push("[not complete]".to_owned());
        }
        names.reverse();
        *self.stacks.entry(names.join(";")).or_default() += 1;
        Some(())
    }
}

/// Returns the name of a frame's function.
fn name(mapped: &[Mapping], frame: &StackFrame) -> String {
    let address = frame.lookup_address().0;
    let mapping = mapped.iter().find(|mapping| (mapping.0..mapping.1).contains(&address));
    let Some(Mapping(.., bias, Some(image))) = mapping else { return "[no file]".to_owned() };
    let symbol = image.symbols.lookup(Address(address.wrapping_sub(*bias)));
    symbol.map_or("?".to_owned(), |symbol| symbol.name.replace(';', ":"))
}

impl Image {
    fn read(path: &str) -> Result<Self, Box<dyn Error>> {
        let bytes: &'static [u8] = fs::read(path)?.leak();
        let file = File::parse(bytes)?;
        let (table, address) = match file.sframe_sections()?.into_iter().next() {
            Some(section) => (section.bytes.into_owned(), section.address),
            None => (pack(&file)?, Address(0)),
        };
        let symbols = file.symbols()?;
        let named = symbols.iter().filter(|(_, name)| starts_stacks(name));
        let mut starts: Vec<_> = named.filter_map(|(address, _)| symbols.extent(address)).collect();
        starts.sort_by_key(|start| start.start);
        Ok(Self { bytes, table: Section::parse(table.leak(), address)?, symbols, starts })
    }

    /// Returns the address in the file for a mapping of code at this offset. A mapping starts at the start of a page.
    fn address_of(&self, offset: u64) -> Option<u64> {
        let elf = ElfFile64::<object::Endianness>::parse(self.bytes).ok()?;
        let endian = elf.endian();
        let header = elf.elf_program_headers().iter().find(|header| {
            let (start, size) = header.file_range(endian);
            let is_code = header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(PF_X);
            is_code && (start & !0xfff..start + size).contains(&offset)
        })?;
        Some(header.p_vaddr(endian).wrapping_sub(header.p_offset(endian)).wrapping_add(offset))
    }
}

/// Makes a table for address 0 from a file's call frame information.
fn pack(file: &File<'_>) -> Result<Vec<u8>, Box<dyn Error>> {
    let sections = file.call_frame_sections()?;
    let mut builder = Builder::new(file.arch(), Options::default())?;
    for section in &sections {
        builder.push_all(Functions::new(&section.cfi()), |_omitted| ());
    }
    Ok(builder.finish().into_bytes(Address(0), |function| Address(function.0))?)
}
