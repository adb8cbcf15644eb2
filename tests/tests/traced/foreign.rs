//! qemu-user steps AArch64 and s390x programs through their linkers' stubs. At each instruction, the row must give the
//! caller's CFA and return address, which are known from the registers at entry.
//!
//! The programs use neither a library nor a dynamic loader. Slots have what the linker put there, so a lazy entry
//! continues in its header. A piece of code ends if it jumps to nowhere.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use cfipack_container::File;
use cfipack_decoder::sframe::{Registers, Section, step};
use cfipack_encoder::sframe::{Builder, Options};
use cfipack_format::{Address, Arch, FunctionOffset, Row};
use cfipack_linker::stubs::{Code, Recognised, Shape, Stubs, moved_by_veneer, recognise};
use cfipack_testkit::needs;
use cfipack_tests::convert::{cfi_of, convert};
use cfipack_tests::reference::Tools;
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

use crate::pieces::pieces;
use crate::qemu::Qemu;

const PLTS: [&str; 3] = [".plt", ".iplt", ".plt.got"];

/// The caller's return address, which no program has, and its stack, where qemu has no memory.
const RETURN_ADDRESS: u64 = 0x5550_1234;
const FRAME_POINTER: u64 = 0x5551_0000;

/// gdb's number of AArch64's register `cpsr`.
const AARCH64_STATUS: usize = 33;

/// No stub and no program here takes as many steps.
const MOST_STEPS: usize = 1000;

/// An architecture, with the tools that make and run its programs.
struct Target {
    arch: Arch,
    triple: &'static str,
    linkers: [&'static [&'static str]; 3],
    qemu: &'static str,
    /// gdb's numbers of program counter, stack pointer, frame pointer and link register.
    registers: [usize; 4],
    /// Calls three library functions, takes the address of one, and calls an indirect function.
    calls: &'static str,
    library: &'static str,
}

const AARCH64: Target = Target {
    arch: Arch::Aarch64,
    triple: "-triple=aarch64-linux-gnu",
    linkers: [
        &["aarch64-linux-gnu-ld.bfd"],
        &["ld.lld-23", "-m", "aarch64linux"],
        &["mold", "-m", "aarch64linux"],
    ],
    qemu: "qemu-aarch64",
    registers: [32, 31, 29, 30],
    calls: "
.globl _start
_start: bl first; bl second; bl third
adrp x0, :got:third; ldr x0, [x0, :got_lo12:third]
bl indirect
ret
.globl indirect
.type indirect, %gnu_indirect_function
indirect: adr x0, _start; ret
",
    library:
        ".globl first, second, third\n.type first, %function\n.type second, %function\n.type third, %function
first: ret\nsecond: ret\nthird: ret\n",
};

const S390X: Target = Target {
    arch: Arch::S390x,
    triple: "-triple=s390x-linux-gnu",
    linkers: [&["s390x-linux-gnu-ld.bfd"], &["ld.lld-23", "-m", "elf64_s390"], &["mold", "-m", "elf64_s390"]],
    qemu: "qemu-s390x",
    registers: [1, 17, 13, 16],
    calls: "
.globl _start
_start: brasl %r14, first@PLT; brasl %r14, second@PLT; brasl %r14, third@PLT
lgrl %r1, third@GOTENT
brasl %r14, indirect@PLT
br %r14
.globl indirect
.type indirect, @gnu_indirect_function
indirect: larl %r2, _start; br %r14
",
    library:
        ".globl first, second, third\n.type first, @function\n.type second, @function\n.type third, @function
first: br %r14\nsecond: br %r14\nthird: br %r14\n",
};

#[test]
#[ignore = "needs the reference tools and qemu"]
fn plts_of_aarch64() {
    plts(&AARCH64, &[&[], &["-z", "now"], &["-z", "force-bti"], &["-z", "pac-plt"]]);
}

#[test]
#[ignore = "needs the reference tools and qemu"]
fn plts_of_s390x() {
    plts(&S390X, &[&[], &["-z", "now"]]);
}

fn plts(target: &Target, flavours: &[&[&str]]) {
    let tools = Tools::find();
    assemble(&tools, target, "calls", target.calls);
    assemble(&tools, target, "library", target.library);
    for linker in target.linkers {
        tools.run_well(&[linker, &["-shared", "library.o", "-o", "library.so"]].concat());
        for options in flavours {
            let inputs = ["--no-dynamic-linker", "calls.o", "library.so", "-o", "linked"];
            tools.run_well(&[linker, *options, &inputs].concat());
            let what = format!("{} {options:?}", linker[0]);
            let program = tools.read("linked");
            let file = object::File::parse(&*program).expect("an ELF file");
            let sections = PLTS.iter().filter_map(|name| file.section_by_name(name));
            let stubs: Vec<_> = sections
                .map(|section| {
                    let bytes = section.data().expect("the section's bytes").to_vec();
                    StubCode::new(&what, target.arch, section.address(), bytes)
                })
                .collect();
            let mut run = Run::start(&what, target, &tools, &stubs, &[]);
            // Each piece of code is entered as if it were called.
            let pieces: Vec<_> = stubs.iter().flat_map(StubCode::pieces).collect();
            for &piece in &pieces {
                run.call(piece, false);
            }
            println!("{what}: {} pieces, {} places", pieces.len(), run.stepped.len());
            // At least three library entries and the header must be there.
            assert!(pieces.len() >= 4 && run.stepped.len() >= 3 * pieces.len(), "{what}");
            assert!(pieces.iter().all(|piece| run.stepped.contains(piece)), "{what}");
        }
    }
}

/// A function that calls two others and jumps to a third. All three are too far away for a branch.
const FAR: &str = "
.globl _start, far, near, mid
.type _start, %function
_start: mov x19, x30; bl far; bl near; bl mid; mov x30, x19; b far
.size _start, . - _start
.section .mid, \"ax\"
.type mid, %function
mid: b far
.size mid, . - mid
.section .far, \"ax\"
.type far, %function
far: ret
.size far, . - far
.type near, %function
near: mov x20, x30; bl mid; ret x20
.size near, . - near
";

/// The object asks for landing pads: `GNU_PROPERTY_AARCH64_FEATURE_1_BTI`.
const LANDING_PADS: &str = "
.section .note.gnu.property, \"a\", %note
.balign 8
.long 4, 16, 5
.asciz \"GNU\"
.long 0xc0000000, 4, 1, 0
";

/// Linkers put thunks between calls and functions that are too far for a branch, or for two more instructions.
#[test]
#[ignore = "needs the reference tools and qemu"]
fn thunks_of_aarch64() {
    let target = &AARCH64;
    let tools = Tools::find();
    assemble(&tools, target, "plain", FAR);
    assemble(&tools, target, "pads", &format!("{FAR}{LANDING_PADS}"));
    let [bfd, lld, _] = target.linkers;
    for (linker, far, options) in [
        (bfd, 0x2000_0000_u64, &[][..]),
        (bfd, 0x3_2000_0000, &[]),
        (lld, 0x2000_0000, &[]),
        (lld, 0x2000_0000, &["-pie"]),
        (lld, 0xf00_0000, &["-pie"]),
    ] {
        // Each part has its own segment, because the file has no room for the distance between them.
        let script = format!(
            "PHDRS {{ d PT_LOAD; a PT_LOAD; b PT_LOAD; c PT_LOAD; }}
SECTIONS {{ .dynamic 0x1000 : {{ *(.dynamic) }} :d .text 0x10000 : {{ *(.text) }} :a
.mid 0x7000000 : {{ *(.mid) }} :b .far {far:#x} : {{ *(.far) }} :c }}"
        );
        tools.write("far.lds", script);
        for object in ["plain.o", "pads.o"] {
            let inputs = ["--no-dynamic-linker", "-T", "far.lds", object, "-o", "linked"];
            tools.run_well(&[linker, &inputs, options].concat());
            let what = format!("{} {options:?} {far:#x} {object}", linker[0]);
            let program = tools.read("linked");
            let file = object::File::parse(&*program).expect("an ELF file");
            let stubs = beside_functions(&what, target.arch, &file);
            let functions: Vec<_> = functions(&file).map(|function| function.1).collect();
            let mut run = Run::start(&what, target, &tools, &stubs, &functions);
            run.call(file.entry(), false);
            println!("{what}: {} places in {} regions of thunks", run.stepped.len(), stubs.len());
            assert!(run.stepped.len() >= 6, "{what}: {:x?}", run.stepped);
        }
    }
}

/// A function with a frame, and in it the instructions of each erratum: an `adrp` 8 bytes before the end of a page with
/// two loads, and a load before a multiplication that adds.
const ERRATA: &str = "
.balign 4096
.space 0xff8 - 16
.globl _start
.type _start, %function
_start: .cfi_startproc
stp x29, x30, [sp, #-32]!
.cfi_def_cfa_offset 32
.cfi_offset 29, -32
.cfi_offset 30, -24
adrp x1, number
add x1, x1, :lo12:number
nop
adrp x0, number
ldr x2, [x1]
ldr x0, [x0, :lo12:number]
ldr x5, [x1]
madd x2, x3, x4, x6
ldp x29, x30, [sp], #32
.cfi_def_cfa_offset 0
.cfi_restore 29
.cfi_restore 30
ret
.cfi_endproc
.size _start, . - _start
.data
.balign 8
number: .quad 1
";

/// Veneers have the rows of the function that they belong to.
#[test]
#[ignore = "needs the reference tools and qemu"]
fn veneers_of_aarch64() {
    let target = &AARCH64;
    let tools = Tools::find();
    assemble(&tools, target, "errata", ERRATA);
    tools.write("errata.lds", "SECTIONS { .text 0x10000 : { *(.text) } .data 0x4000000 : { *(.data) } }");
    let [bfd, lld, _] = target.linkers;
    for (linker, option) in
        [(bfd, "--fix-cortex-a53-843419"), (bfd, "--fix-cortex-a53-835769"), (lld, "--fix-cortex-a53-843419")]
    {
        let what = format!("{} {option}", linker[0]);
        let inputs = [option, "-T", "errata.lds", "errata.o", "-o", "linked"];
        tools.run_well(&[linker, &inputs].concat());
        let program = tools.read("linked");
        let file = object::File::parse(&*program).expect("an ELF file");
        let parsed = File::parse(&program).expect("an ELF file");
        let sections = parsed.call_frame_sections().expect("it has CFI");
        let functions_table = convert(&cfi_of(&sections), target.arch, Address(0), Options::new());
        let (_, function) = functions(&file).next().expect("the function");
        let text = file.section_by_name(".text").expect("code");
        let bytes = text.data().expect("the section's bytes");
        let veneers = (0..bytes.len() - 7).step_by(4).filter_map(|offset| {
            let address = text.address() + offset as u64;
            let code: [u8; 8] = bytes[offset..offset + 8].try_into().expect("8 bytes");
            let moved = moved_by_veneer(target.arch, Address(address), code)?;
            let is_served = function.contains(&moved.0) && !function.contains(&address);
            let row = functions_table.table().lookup(moved).expect("our own table");
            is_served.then(|| (address, code, row.expect("the function's row")))
        });
        let veneers: Vec<_> = veneers.collect();
        assert_eq!(veneers.len(), 1, "{what}");
        let rows: Vec<_> =
            veneers.iter().map(|veneer| Row { start: FunctionOffset(0), ..veneer.2 }).collect();
        let veneers = veneers.iter().zip(&rows).map(|((address, code, _), row)| {
            let shape = Shape::new().with_header(Code::new(8, std::slice::from_ref(row)));
            StubCode { address: *address, bytes: code.to_vec(), shape, entries: 0 }
        });
        let stubs: Vec<_> = veneers.collect();
        let functions = [function];
        let mut run = Run::start(&what, target, &tools, &stubs, &functions);
        run.call(functions[0].start, true);
        let expected: Vec<_> = [0, 4].map(|offset| stubs[0].address + offset).into();
        assert_eq!(run.stepped.iter().copied().collect::<Vec<_>>(), expected, "{what}");
    }
}

fn assemble(tools: &Tools, target: &Target, name: &str, source: &str) {
    let (from, to) = (format!("{name}.s"), format!("{name}.o"));
    tools.write(&from, source);
    tools.run_well(&["llvm-mc-23", target.triple, "-filetype=obj", &from, "-o", &to]);
}

/// Returns name and place of each function that has a size. Symbols of thunks have none.
fn functions<'f>(file: &'f object::File<'_>) -> impl Iterator<Item = (String, Range<u64>)> + 'f {
    let is_ours = |name: &str| matches!(name, "_start" | "far" | "near" | "mid");
    file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() != 0).filter_map(
        move |symbol| {
            let name = symbol.name().ok().filter(|name| is_ours(name))?;
            Some((name.to_string(), symbol.address()..symbol.address() + symbol.size()))
        },
    )
}

/// Returns the code of a file before, between and after its functions.
fn beside_functions(what: &str, arch: Arch, file: &object::File<'_>) -> Vec<StubCode<'static>> {
    let mut all = Vec::new();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let bytes = section.data().expect("the section's bytes");
        let end = section.address() + section.size();
        let mut inside: Vec<_> = functions(file)
            .map(|function| function.1)
            .filter(|range| (section.address()..end).contains(&range.start))
            .collect();
        inside.sort_by_key(|range| range.start);
        inside.push(end..end);
        let mut at = section.address();
        for function in inside {
            let part =
                &bytes[(at - section.address()) as usize..(function.start - section.address()) as usize];
            // Between functions there may be nothing, or only padding.
            if part.chunks(4).any(|word| word != [0; 4] && word != [0x1f, 0x20, 0x03, 0xd5]) {
                all.push(StubCode::new(what, arch, at, part.to_vec()));
            }
            at = function.end;
        }
    }
    all
}

/// Stubs in a file.
struct StubCode<'r> {
    address: u64,
    bytes: Vec<u8>,
    shape: Shape<'r>,
    entries: u32,
}

impl StubCode<'static> {
    fn new(what: &str, arch: Arch, address: u64, bytes: Vec<u8>) -> Self {
        let found = recognise(arch, &bytes);
        let Recognised { shape, entries, .. } =
            found.unwrap_or_else(|| panic!("{what}: {address:#x}: {bytes:02x?}"));
        Self { address, bytes, shape, entries }
    }
}

impl StubCode<'_> {
    fn contains(&self, pc: u64) -> bool {
        (self.address..self.address + self.bytes.len() as u64).contains(&pc)
    }

    fn pieces(&self) -> Vec<u64> {
        pieces(self.address, &self.shape, self.entries)
    }
}

/// A running program.
struct Run<'r> {
    what: String,
    target: &'r Target,
    qemu: Qemu,
    /// The distance of the program from its addresses in the file.
    bias: u64,
    stubs: &'r [StubCode<'r>],
    functions: &'r [Range<u64>],
    /// The rows of the stubs.
    table: Vec<u8>,
    /// The places in stubs that have run, by their addresses in the file.
    stepped: BTreeSet<u64>,
}

impl<'r> Run<'r> {
    fn start(
        what: &str,
        target: &'r Target,
        tools: &Tools,
        stubs: &'r [StubCode<'r>],
        functions: &'r [Range<u64>],
    ) -> Self {
        assert!(!stubs.is_empty(), "{what}");
        let mut builder = Builder::new(target.arch, Options::new()).expect("the format has the architecture");
        for stub in stubs {
            let stubs = Stubs::at(Address(stub.address), stub.shape).with_entries(stub.entries);
            assert_eq!(stubs.len(), stub.bytes.len() as u64, "{what}");
            stubs.push(&mut builder).expect("the format has these rows");
        }
        let table = builder.finish().into_bytes(Address(0), |key| key.address()).expect("V3 reaches all");
        let program = tools.path("linked");
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        fs::create_dir_all(&directory).expect("the target's directory");
        // A socket's name has at most 107 bytes, so it must be short.
        let socket = std::env::temp_dir().join(format!(
            "cfipack-qemu-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        needs::program(target.qemu, "qemu-user");
        let mut qemu =
            Qemu::start(target.qemu, &program, &socket).unwrap_or_else(|error| panic!("{what}: {error}"));
        let bytes = tools.read("linked");
        let entry = object::File::parse(&*bytes).expect("an ELF file").entry();
        let at = value(target, &qemu.registers(), target.registers[0]);
        let bias = at.wrapping_sub(entry);
        let (what, stepped) = (what.to_string(), BTreeSet::new());
        Self { what, target, qemu, bias, stubs, functions, table, stepped }
    }

    /// Runs from a place in the file, as if it was called, until the program leaves the stubs. Rows are judged in
    /// stubs. A stub's caller is the code that jumps to it, or the caller of the function that the stub is a part of.
    fn call(&mut self, place: u64, is_part: bool) {
        let target = self.target;
        let [pc, sp, fp, lr] = target.registers;
        for (register, value) in
            [(pc, place.wrapping_add(self.bias)), (fp, FRAME_POINTER), (lr, RETURN_ADDRESS)]
        {
            self.qemu.set_register(register, &bytes(target, value));
        }
        if target.arch == Arch::Aarch64 {
            // The processor's state after a branch, in which only a landing pad may follow.
            self.qemu.set_register(AARCH64_STATUS, &[0; 4]);
        }
        let table = self.table.clone();
        let table = Section::parse(&table, Address(0)).expect("our own table");
        let entered = self.qemu.registers();
        let caller = |registers: &[u8]| [sp, lr].map(|register| value(target, registers, register));
        let mut expected = is_part.then(|| caller(&entered));
        for _ in 0..MOST_STEPS {
            let registers = self.qemu.registers();
            let at = value(target, &registers, pc).wrapping_sub(self.bias);
            if self.stubs.iter().any(|stub| stub.contains(at)) {
                let [caller_sp, return_address] = *expected.get_or_insert_with(|| caller(&registers));
                let what = format!("{}: {at:#x}", self.what);
                let row = table.lookup(Address(at)).expect("our own table");
                let row = row.unwrap_or_else(|| panic!("{what}: no row"));
                let [sp, fp, lr] = [sp, fp, lr].map(|register| value(target, &registers, register));
                let registers = Registers { sp, fp: Some(fp), lr: Some(lr), others: &[] };
                let found = step(target.arch, &row, &registers, |address| {
                    let word = self.qemu.read(address.0, 8)?;
                    Some(value(target, &word, 0))
                });
                let found = found.expect("registers and memory");
                assert_eq!((found.sp, found.pc.0), (caller_sp, return_address), "{what}");
                assert_eq!(found.fp, Some(FRAME_POINTER), "{what}");
                self.stepped.insert(at);
            } else if !self.functions.iter().any(|function| function.contains(&at)) {
                return;
            } else if !is_part {
                expected = None;
            }
            if let Err(signal) = self.qemu.step() {
                panic!("{}: {at:#x}: {signal}", self.what);
            }
        }
        panic!("{}: {place:#x}: it does not end", self.what);
    }
}

/// Returns the register with this number from the bytes of all registers.
fn value(target: &Target, registers: &[u8], number: usize) -> u64 {
    let bytes: [u8; 8] = registers[8 * number..][..8].try_into().expect("8 bytes");
    match target.arch {
        Arch::S390x => u64::from_be_bytes(bytes),
        _ => u64::from_le_bytes(bytes),
    }
}

fn bytes(target: &Target, value: u64) -> [u8; 8] {
    match target.arch {
        Arch::S390x => value.to_be_bytes(),
        _ => value.to_le_bytes(),
    }
}
