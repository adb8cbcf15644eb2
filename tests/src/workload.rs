//! Does the work that benches measure, and their yardsticks.

use std::collections::HashMap;
use std::env;
use std::path::Path;
use std::process::Command;

use cfipack_cfi as cfi;
use cfipack_container::{CallFrameSection, File};
use cfipack_encoder::sframe::{self, At, Builder, Finish, Options, Parallel};
use cfipack_format::Unsupported;
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key};
use cfipack_testkit::random::Random;
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, EhFrame, EhFrameHdr, EndianSlice, LittleEndian,
    ParsedEhFrameHdr, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};

use crate::machine::toolchain_library;

type Slice = EndianSlice<'static, LittleEndian>;

/// A large library of the toolchain: its CFI and its tables.
#[derive(Debug)]
pub struct Library {
    /// The start of its file name.
    pub name: &'static str,
    call_frames: CallFrameSection<'static>,
    eh_frame_hdr: Option<(u64, &'static [u8])>,
}

/// Returns the libraries that this machine has.
pub fn libraries() -> Vec<Library> {
    ["librustc_driver", "libLLVM"].into_iter().filter_map(Library::load).collect()
}

impl Library {
    /// Loads a library of the toolchain by the start of its file name.
    pub fn load(name: &'static str) -> Option<Self> {
        Self::read(name, &toolchain_library(name)?)
    }

    /// Reads a library for x86-64 with CFI; `None` if it is anything else.
    pub fn read(name: &'static str, path: &Path) -> Option<Self> {
        let bytes: &'static [u8] = std::fs::read(path).ok()?.leak();
        let file = File::parse(bytes).ok()?;
        let call_frames = file.call_frame_sections().ok()?.into_iter().next()?;
        let sections = object::File::parse(bytes).ok()?;
        let header = sections.section_by_name(".eh_frame_hdr");
        let eh_frame_hdr = header.and_then(|header| Some((header.address(), header.data().ok()?)));
        (file.arch() == Arch::Amd64).then_some(Self { name, call_frames, eh_frame_hdr })
    }

    /// Returns the `.eh_frame`.
    pub fn cfi(&self) -> cfi::Section<'_> {
        self.call_frames.cfi()
    }

    /// Returns the address that the table would have.
    pub fn table_address(&self) -> Address {
        let section = &self.call_frames.section;
        Address(section.address.0 + section.bytes.len() as u64)
    }

    /// Converts the `.eh_frame` to a complete section. With [`Fresh::Output`], the section's memory was not touched before.
    pub fn convert(&self, options: Options, threads: usize) -> Vec<u8> {
        let section = build(&self.cfi(), options, threads);
        section
            .into_bytes(At::on(self.table_address(), &Threads(threads)), Key::address)
            .expect("a table in reach")
    }

    /// Converts on one thread. `push` is called for each function.
    pub fn convert_each(
        &self,
        options: Options,
        push: impl for<'a> Fn(&mut Builder<'a>, &cfi::Function<'a>) -> Result<(), Unsupported>,
    ) -> Vec<u8> {
        let cfi = self.cfi();
        let mut builder = Builder::new(cfi.arch, options).unwrap();
        builder.reserve(cfipack_cfi::Functions::new(&cfi).records_left(), None);
        for function in cfipack_cfi::Functions::new(&cfi) {
            if let Ok(function) = &function {
                let _ = push(&mut builder, function);
            }
        }
        builder.finish().into_bytes(self.table_address(), Key::address).expect("a table in reach")
    }

    /// Returns random PCs, uniform over the functions.
    pub fn pcs(&self, count: usize) -> Vec<Address> {
        let cfi = self.cfi();
        let functions: Vec<_> =
            cfipack_cfi::Functions::new(&cfi).flatten().filter(|function| function.size > 0).collect();
        let mut random = Random::new(1);
        let mut pc = || {
            let function = &functions[random.below(functions.len() as u64) as usize];
            Address(function.key.0 + random.below(function.size))
        };
        (0..count).map(|_| pc()).collect()
    }

    /// Returns the first function's start, and all starts relative to it, sorted.
    pub fn starts(&self) -> (u64, Vec<u32>) {
        let mut starts: Vec<_> =
            cfipack_cfi::Functions::new(&self.cfi()).flatten().map(|function| function.key.0).collect();
        starts.sort_unstable();
        (starts[0], starts.iter().map(|start| (start - starts[0]) as u32).collect())
    }

    /// Returns gimli's reader of the same section.
    pub fn gimli(&'static self) -> Gimli {
        let section = &self.call_frames.section;
        let mut gimli = Gimli::new(&section.bytes, section.address);
        if let Some((address, bytes)) = self.eh_frame_hdr {
            gimli.bases = gimli.bases.set_eh_frame_hdr(address);
            gimli.header = EhFrameHdr::new(bytes, LittleEndian).parse(&gimli.bases, 8).ok();
        }
        gimli
    }
}

/// Encodes a section on one or more threads.
pub fn build<'a>(section: &cfi::Section<'a>, options: Options, threads: usize) -> sframe::Section<'a> {
    let mut builder = Builder::new(section.arch, options).expect("an architecture of the format");
    let pool = Threads(threads);
    builder.push_all(Parallel::new(section, &pool), |_| ());
    builder.finish_with(Finish::on(&pool))
}

/// Which memory comes fresh from the kernel, as all first allocations of a program do. glibc would reuse freed memory,
/// which is already mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// The section's memory. Working memory was used before.
    Output,
    /// Every large allocation.
    Everything,
}

impl Fresh {
    const VARIABLE: &str = "MALLOC_MMAP_THRESHOLD_";

    /// Returns the size from which allocations come directly from the kernel, and go back to it.
    fn threshold(self) -> &'static str {
        match self {
            Self::Output => "3500000",
            Self::Everything => "131072",
        }
    }

    /// Returns whether this process runs with this memory.
    pub fn is_here(self) -> bool {
        env::var(Self::VARIABLE).is_ok_and(|value| value == self.threshold())
    }

    /// Starts this program again with this memory, and waits for it.
    pub fn run(self) {
        let program = env::current_exe().expect("this program");
        let status = Command::new(program)
            .args(env::args_os().skip(1))
            .env(Self::VARIABLE, self.threshold())
            .env("MALLOC_TRIM_THRESHOLD_", "1000000000")
            .status();
        assert!(status.is_ok_and(|status| status.success()), "the program, started again");
    }
}

/// gimli's reader, with one context for all functions.
#[derive(Debug)]
pub struct Gimli {
    section: EhFrame<Slice>,
    bases: BaseAddresses,
    header: Option<ParsedEhFrameHdr<Slice>>,
    context: UnwindContext<usize>,
}

impl Gimli {
    /// Reads an `.eh_frame` at an address.
    pub fn new(eh_frame: &'static [u8], address: Address) -> Self {
        Self {
            section: EhFrame::new(eh_frame, LittleEndian),
            bases: BaseAddresses::default().set_eh_frame(address.0),
            header: None,
            context: UnwindContext::new(),
        }
    }

    /// The yardstick of conversions: evaluates every row of every function, and parses each CIE once. Returns the
    /// number of rows.
    pub fn walk(&mut self) -> u64 {
        let mut cies: HashMap<usize, CommonInformationEntry<Slice>> = HashMap::new();
        let mut entries = self.section.entries(&self.bases);
        let mut count = 0;
        while let Some(entry) = entries.next().expect("a whole section") {
            let CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|section, bases, offset| match cies.get(&offset.0) {
                Some(cie) => Ok(cie.clone()),
                None => {
                    let cie = section.cie_from_offset(bases, offset)?;
                    cies.insert(offset.0, cie.clone());
                    Ok(cie)
                }
            });
            let Ok(fde) = fde else { continue };
            let Ok(mut rows) = fde.rows(&self.section, &self.bases, &mut self.context) else { continue };
            while let Ok(Some(_)) = rows.next_row() {
                count += 1;
            }
        }
        count
    }

    /// The yardstick of lookups: the search table of `.eh_frame_hdr`, the FDE, its row. Returns whether there is a row.
    pub fn lookup(&mut self, pc: Address) -> bool {
        let table = self.header.as_ref().and_then(ParsedEhFrameHdr::table).expect("a search table");
        let fde = table.fde_for_address(&self.section, &self.bases, pc.0, EhFrame::cie_from_offset);
        fde.is_ok_and(|fde| {
            fde.unwind_info_for_address(&self.section, &self.bases, &mut self.context, pc.0).is_ok()
        })
    }

    /// Returns whether there is an `.eh_frame_hdr`.
    pub fn has_search_table(&self) -> bool {
        self.header.is_some()
    }
}
