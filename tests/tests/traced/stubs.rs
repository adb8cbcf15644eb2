//! Steps programs of every linker through their PLTs. At each instruction the row's CFA must be the caller's, known
//! from the machine alone. Code outside reaches a stub by a call, or by a jump with the stack pointer at a return
//! address. So the CFA is the stack pointer there plus 8 until the stubs are left.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_decoder::sframe::{Registers, Section, step};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Register};
use cfipack_linker::stubs::{Shape, StubKind, Stubs, recognise};
use cfipack_testkit::child::Child;
use cfipack_testkit::process::Process;
use cfipack_tests::linkers::{Linker, LinkerKind, linkers};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use object::{Object, ObjectSection, ObjectSegment};

use crate::pieces::pieces;

const SECTIONS: [&str; 5] = [".plt", ".plt.got", ".plt.sec", ".plt.bnd", ".iplt"];

/// Ways to link programs, with the linkers that support them.
const FLAVOURS: [(&str, &[&str], &[LinkerKind]); 8] = [
    ("lazy", &["-Wl,-z,lazy"], &[]),
    ("ibt", &["-Wl,-z,lazy", "-Wl,-z,ibtplt"], &[LinkerKind::Bfd]),
    ("ibt", &["-Wl,-z,lazy", "-Wl,-z,force-ibt", "-fcf-protection"], &[LinkerKind::Lld]),
    ("static", &["-static"], &[]),
    ("retpoline", &["-Wl,-z,lazy", "-Wl,-z,retpolineplt"], &[LinkerKind::Lld]),
    ("retpoline now", &["-Wl,-z,now", "-Wl,-z,retpolineplt"], &[LinkerKind::Lld]),
    // The PLT of a static program is only a header.
    ("retpoline static", &["-static", "-Wl,-z,retpolineplt"], &[LinkerKind::Lld]),
    // Only read: the C library resolves no descriptor lazily.
    (
        "tlsdesc",
        &["-Wl,-z,lazy", "-shared", "-fPIC", "-mtls-dialect=gnu2"],
        &[LinkerKind::Bfd, LinkerKind::Gold],
    ),
];

#[test]
#[ignore = "needs ptrace, the reference tools and gcc"]
fn every_instruction_of_a_stub_has_a_true_row() {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stubs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced/stubs.c");
    let source = source.to_str().expect("the repository's path is text");
    for linker in linkers(&scratch) {
        for (flavour, options, of) in FLAVOURS {
            if !of.is_empty() && !of.contains(&linker.kind) {
                continue;
            }
            let what = format!("{}, {flavour}", linker.name);
            let program = scratch.join("program");
            let output = program.to_str().expect("the target's path is text");
            let linked = linker.cc(&[options, &["-O1", "-fno-builtin", "-o", output, source]].concat());
            let linked = linked.expect("cc runs");
            if !linked.status.success() {
                println!("refused: {what}: {}", String::from_utf8_lossy(&linked.stderr));
                continue;
            }
            trace(&what, &linker, flavour, &program);
        }
    }
}

/// A section of stubs in a file.
struct StubSection {
    name: &'static str,
    address: u64,
    bytes: Vec<u8>,
    shape: Shape<'static>,
    entries: u32,
}

fn trace(what: &str, linker: &Linker, flavour: &str, program: &Path) {
    let bytes = fs::read(program).expect("it was linked");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let sections: Vec<_> = SECTIONS.into_iter().filter_map(|name| stub_section(what, &file, name)).collect();
    for section in &sections {
        let expected = expected(linker.kind, flavour, section.name);
        assert!(expected.contains(&section.shape), "{what}: {}: {:x?}", section.name, section.shape);
    }
    assert!(!sections.is_empty(), "{what}");
    for version in [Version::V3, Version::V2] {
        let table = table(&sections, version);
        let table = Section::parse(&table, Address(0)).expect("our own table");
        check_statically(what, &sections, &table);
    }
    if flavour == "tlsdesc" {
        return;
    }
    let table = table(&sections, Version::V3);
    let table = Section::parse(&table, Address(0)).expect("our own table");
    let mut child = Child::start(Command::new(program)).expect("tracing is permitted");
    let lowest = file.segments().map(|segment| segment.address()).min().expect("it is linked");
    let bias = mapped_at(&child, program).wrapping_sub(lowest & !0xfff);
    let stepped = step_through(what, &mut child, bias, &sections, &table);
    let entries: usize = sections.iter().map(|section| section.entries as usize).sum();
    println!("{what}: {} places in stubs, {entries} entries", stepped.len());
    // A static program has stubs for functions that only the C library calls.
    if flavour.ends_with("static") {
        assert!(stepped.len() > 3, "{what}: {stepped:x?}");
        return;
    }
    for section in &sections {
        let missed: Vec<_> = instructions(section)
            .flat_map(|(_, list)| list)
            .filter(|instruction| !stepped.contains(&instruction.address))
            .map(|instruction| instruction.address)
            .collect();
        assert!(missed.is_empty(), "{what}: {} not stepped through: {missed:x?}", section.name);
    }
}

fn stub_section(what: &str, file: &object::File<'_>, name: &'static str) -> Option<StubSection> {
    let section = file.section_by_name(name)?;
    let bytes = section.data().expect("the section's bytes").to_vec();
    let found = recognise(Arch::Amd64, &bytes).unwrap_or_else(|| panic!("{what}: {name}: {bytes:02x?}"));
    Some(StubSection { name, address: section.address(), bytes, shape: found.shape, entries: found.entries })
}

/// Returns what a section of a linker's stubs may be, by documentation and disassembly.
fn expected(linker: LinkerKind, flavour: &str, section: &str) -> Vec<Shape<'static>> {
    let jump = Shape::from(StubKind::Amd64Jump);
    let lazy = StubKind::Amd64LazyPlt.shape();
    let retpoline = StubKind::Amd64RetpolinePlt.shape();
    match (linker, flavour, section) {
        (LinkerKind::Bfd | LinkerKind::Gold | LinkerKind::Lld, "lazy", ".plt") => vec![lazy],
        (LinkerKind::Bfd, "lazy" | "tlsdesc", ".plt.got") => vec![jump.with_entry_size(8)],
        (LinkerKind::Bfd | LinkerKind::Lld, "ibt", ".plt") => vec![StubKind::Amd64IbtPlt.shape()],
        (LinkerKind::Bfd | LinkerKind::Lld, "ibt", ".plt.sec" | ".plt.got") => vec![jump],
        (LinkerKind::Bfd, "tlsdesc", ".plt") => vec![lazy.with_trailer(StubKind::Amd64IbtTlsDesc.entry())],
        (LinkerKind::Gold, "tlsdesc", ".plt") => vec![lazy.with_trailer(StubKind::Amd64TlsDesc.entry())],
        (LinkerKind::Bfd, "static", ".plt") => vec![jump.with_entry_size(8), jump],
        (LinkerKind::Gold, "static", ".plt") => vec![lazy],
        (LinkerKind::Lld, "static", ".iplt") => vec![lazy.with_header(Default::default())],
        (LinkerKind::Lld, "retpoline", ".plt") => vec![retpoline],
        (LinkerKind::Lld, "retpoline now", ".plt") => vec![StubKind::Amd64RetpolineNowPlt.shape()],
        (LinkerKind::Lld, "retpoline static", ".plt") => vec![retpoline.with_entry(Default::default())],
        (LinkerKind::Lld, "retpoline static", ".iplt") => vec![retpoline.with_header(Default::default())],
        (LinkerKind::Mold, _, ".plt") => vec![StubKind::Amd64MoldPlt.shape()],
        (LinkerKind::Mold, _, ".plt.got") => vec![jump, jump.with_entry_size(8)],
        (LinkerKind::Wild, _, ".plt.got") => vec![jump],
        _ => vec![],
    }
}

/// Returns a table of these stubs alone, for address 0.
fn table(sections: &[StubSection], version: Version) -> Vec<u8> {
    let options = Options::new().with_version(version);
    let mut builder = Builder::new(Arch::Amd64, options).expect("the format has the architecture");
    for section in sections {
        let stubs = Stubs::at(Address(section.address), section.shape).with_entries(section.entries);
        assert_eq!(stubs.len(), section.bytes.len() as u64);
        stubs.push(&mut builder).expect("the format has these rows");
    }
    builder.finish().into_bytes(Address(0), |key| key.address()).expect("all is near")
}

/// Runs the program to its end. Returns which places of the file's stubs it reached.
fn step_through(
    what: &str,
    child: &mut Child,
    bias: u64,
    sections: &[StubSection],
    table: &Section<'_>,
) -> BTreeSet<u64> {
    let mut stepped = BTreeSet::new();
    // While the program is in stubs: the CFA and return address of their caller.
    let mut caller = None;
    let all = || sections.iter().flat_map(instructions).flat_map(|(_, list)| list).map(|found| found.address);
    let byte = |pc: u64| {
        let section = sections.iter().find(|section| (section.address..section.end()).contains(&pc))?;
        section.bytes.get((pc - section.address) as usize)
    };
    let set_breakpoints = |child: &Child| all().for_each(|pc| child.write(pc.wrapping_add(bias), &[0xcc]));
    set_breakpoints(child);
    loop {
        let stopped = child.registers();
        let pc = stopped.pc.wrapping_sub(bias);
        if byte(pc).is_none() {
            caller = None;
            if !child.resume() {
                return stepped;
            }
            // The PC after a breakpoint is one byte further.
            let hit = child.registers().pc.wrapping_sub(1);
            if byte(hit.wrapping_sub(bias)).is_some() {
                child.set_pc(hit);
            }
            continue;
        }
        let sp = stopped.registers[7].expect("all registers are known");
        let word = |address| {
            let mut bytes = [0; 8];
            (child.read(address, &mut bytes) == 8).then_some(u64::from_le_bytes(bytes))
        };
        let (cfa, return_address) = *caller.get_or_insert_with(|| (sp + 8, word(sp).expect("a stack")));
        let row = table.lookup(Address(pc)).expect("our own table");
        let is_gap = sections.iter().any(|section| section.retpoline_tail().contains(&pc));
        assert_eq!(row.is_none(), is_gap, "{what}: {pc:#x}: {row:?}");
        let Some(row) = row else {
            child.write(stopped.pc, &[*byte(pc).expect("it was there")]);
            if !child.step() {
                return stepped;
            }
            continue;
        };
        let registers = Registers { sp, fp: stopped.registers[6], lr: None, others: &[] };
        let found = step(Arch::Amd64, &row, &registers, |address| word(address.0));
        let found = found.expect("registers and memory");
        assert_eq!((found.cfa.0, found.pc.0), (cfa, return_address), "{what}: {pc:#x}");
        assert_eq!((found.sp, found.fp), (cfa, stopped.registers[6]), "{what}: {pc:#x}");
        stepped.insert(pc);
        child.write(stopped.pc, &[*byte(pc).expect("it was there")]);
        let goes_on = child.step();
        if !goes_on {
            return stepped;
        }
        child.write(stopped.pc, &[0xcc]);
    }
}

/// Returns the address of the program's first mapping.
fn mapped_at(child: &Child, program: &Path) -> u64 {
    let name = program.file_name().expect("a file").to_string_lossy();
    let maps = child.maps();
    let first = maps.lines().find(|line| line.ends_with(&format!("/{name}"))).expect("the program is mapped");
    let start = first.split('-').next().expect("a range");
    u64::from_str_radix(start, 16).expect("the kernel writes hexadecimal")
}

impl StubSection {
    fn end(&self) -> u64 {
        self.address + self.bytes.len() as u64
    }

    /// Returns the code without a row: the tail of a retpoline, whose frame is unknown.
    fn retpoline_tail(&self) -> Range<u64> {
        let start = self.address + u64::from(self.shape.header().size());
        start..start + u64::from(self.shape.gap())
    }

    fn pieces(&self) -> Vec<u64> {
        pieces(self.address, &self.shape, self.entries)
    }
}

/// An instruction of a stub: its address, and the bytes that its piece has pushed before it.
struct Instruction {
    address: u64,
    pushed: i64,
    /// If this is the piece's last instruction and jumps to a named place: that place.
    target: Option<u64>,
}

/// Returns the instructions of each piece that can run, decoded by iced-x86, without padding.
fn instructions(section: &StubSection) -> impl Iterator<Item = (u64, Vec<Instruction>)> {
    let pieces = section.pieces();
    let ends: Vec<_> = pieces.iter().skip(1).copied().chain([section.end()]).collect();
    pieces.into_iter().zip(ends).map(|(start, end)| {
        let is_before_gap = start < section.retpoline_tail().start && !section.retpoline_tail().is_empty();
        let end = if is_before_gap { section.retpoline_tail().start } else { end };
        let range = (start - section.address) as usize..(end - section.address) as usize;
        let decoder = Decoder::with_ip(64, &section.bytes[range], start, DecoderOptions::NONE);
        let (mut pushed, mut list, mut has_jumped, mut has_called) = (0, Vec::new(), false, false);
        for instruction in decoder {
            // A call of a retpoline never returns. The called code goes on, or the place that the slot first leads to:
            // a push, as if the entry were entered there.
            if has_called {
                if !instruction.is_stack_instruction() {
                    continue;
                }
                if instruction.mnemonic() == Mnemonic::Push {
                    pushed = 0;
                }
            }
            // A lazy entry jumps through its slot, which first leads to the push after the jump.
            if has_jumped && !instruction.is_stack_instruction() {
                break;
            }
            let flow = instruction.flow_control();
            let is_direct = flow == FlowControl::UnconditionalBranch;
            let target = is_direct.then(|| instruction.near_branch_target());
            list.push(Instruction { address: instruction.ip(), pushed, target });
            has_jumped = flow == FlowControl::IndirectBranch;
            has_called = flow == FlowControl::Call;
            pushed -= i64::from(instruction.stack_pointer_increment());
            if is_direct || flow == FlowControl::Return {
                break;
            }
        }
        (start, list)
    })
}

/// Compares the rows of all code with the effect of its instructions on the stack pointer, even of code that never runs.
fn check_statically(what: &str, sections: &[StubSection], table: &Section<'_>) {
    // Code that jumps to a header has pushed this. Entries that jump through slots push nothing.
    let from_entry = |header: u64| {
        let all = sections.iter().flat_map(instructions).flat_map(|(_, list)| list);
        all.filter(|last| last.target == Some(header)).map(|last| last.pushed).next().unwrap_or(0)
    };
    for section in sections {
        let has_header = section.shape.header().size() != 0;
        for (start, list) in instructions(section) {
            let is_header = has_header && start == section.address;
            let on_entry = if is_header { from_entry(start) } else { 0 };
            for Instruction { address, pushed, .. } in list {
                let row = table.lookup(Address(address)).expect("our own table").expect("a row");
                let cfa = Cfa::Register { register: Register(7), offset: 8 + on_entry + pushed };
                assert_eq!(row.cfa, cfa, "{what}: {}: {address:#x}", section.name);
            }
        }
    }
}
