//! Tests PLTs and thunks of AArch64 and s390x, as bfd 2.47 and lld 23 link them. The reference objdump disassembles
//! each instruction, and we compute its effect on stack pointer and return address. `tests/traced/foreign.rs` steps the
//! same stubs with qemu; `tests/traced/stubs.rs` steps those of x86-64.

use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Rule};
use cfipack_linker::stubs::{Recognised, StubKind, Stubs, recognise};
use cfipack_tests::reference::Tools;
use object::{Object, ObjectSection};

/// Calls two functions of other files, stores the address of one, and uses a thread-local variable.
const SOURCE: &str = "
extern int first(int), second(int);
extern __thread int elsewhere;
int (*pointer)(int) = first;
int variable(void) { return elsewhere; }
int caller(int a) { return a ? first(a) + second(a) : first(2); }
";

/// A target, with tools and sources for its stubs.
struct Target {
    clang: &'static str,
    linkers: [&'static str; 2],
    objdump: &'static str,
}

const AARCH64: Target = Target {
    clang: "--target=aarch64-linux-gnu",
    linkers: ["aarch64-linux-gnu-ld.bfd", "ld.lld-23"],
    objdump: "aarch64-linux-gnu-objdump",
};

const S390X: Target = Target {
    clang: "--target=s390x-linux-gnu",
    linkers: ["s390x-linux-gnu-ld.bfd", "ld.lld-23"],
    objdump: "s390x-linux-gnu-objdump",
};

#[test]
#[ignore = "needs the reference tools"]
fn plts_of_aarch64() {
    let tools = Tools::find();
    let plain = StubKind::Aarch64Plt.shape();
    let bti = StubKind::Aarch64BtiPlt.shape();
    for (options, shapes) in [
        (&[][..], [plain.with_trailer(StubKind::Aarch64TlsDesc.entry()), plain]),
        (
            &["-z", "force-bti"],
            [bti.with_entry_size(16).with_trailer(StubKind::Aarch64BtiTlsDesc.entry()), bti],
        ),
        (
            &["-z", "pac-plt"],
            [
                plain.with_entry_size(24).with_trailer(StubKind::Aarch64TlsDesc.entry()),
                plain.with_entry_size(24),
            ],
        ),
        (&["-z", "force-bti", "-z", "pac-plt"], [bti.with_trailer(StubKind::Aarch64BtiTlsDesc.entry()), bti]),
    ] {
        for (linker, shape) in AARCH64.linkers.into_iter().zip(shapes) {
            let plt = Plt::link(&tools, &AARCH64, linker, options);
            let Recognised { shape: found, entries, .. } = plt.recognised();
            assert_eq!((found, entries >= 2), (shape, true), "{linker} {options:?}");
            plt.check(&tools, &AARCH64, Aarch64State::default());
        }
    }
}

#[test]
#[ignore = "needs the reference tools"]
fn plts_of_s390x() {
    let tools = Tools::find();
    for linker in S390X.linkers {
        let plt = Plt::link(&tools, &S390X, linker, &[]);
        let Recognised { shape, entries, .. } = plt.recognised();
        assert_eq!((shape, entries), (StubKind::S390xPlt.shape(), 3), "{linker}");
        plt.check(&tools, &S390X, S390xState);
    }
}

/// lld puts thunks between calls and functions that are too far away.
#[test]
#[ignore = "needs the reference tools"]
fn thunks_of_aarch64() {
    let tools = Tools::find();
    tools.write(
        "far.s",
        "bl far\nbl near\nret\n.section .far, \"ax\"\n.globl far, near\nfar: ret\nnear: ret\n",
    );
    tools.write("far.lds", "SECTIONS { .text 0x10000 : { *(.text) } .far 0x40000000 : { *(.far) } }");
    tools.run_well(&["aarch64-linux-gnu-as", "far.s", "-o", "far.o"]);
    for (options, size, at) in [(&[][..], 16, 0x10010), (&["-pie"], 12, 0x1000c)] {
        tools.run_well(&[&["ld.lld-23", "-T", "far.lds", "far.o", "-o", "linked"], options].concat());
        let mut thunks = Plt::read(&tools, ".text");
        thunks.bytes.drain(..(at - thunks.address) as usize);
        thunks.address = at;
        let Recognised { shape, entries, .. } = thunks.recognised();
        let expected = StubKind::Aarch64Jump.shape().with_entry_size(size);
        assert_eq!((shape, entries), (expected, 2), "{options:?}");
        thunks.check(&tools, &AARCH64, Aarch64State::default());
    }
}

/// A section of stubs in the file `linked`.
struct Plt {
    arch: Arch,
    name: &'static str,
    address: u64,
    bytes: Vec<u8>,
}

/// The effect of the code since a stub was entered.
trait State: Clone {
    /// Returns where the caller's frame is now.
    fn expected(&self) -> (Cfa, Rule);

    /// Executes an instruction as objdump prints it.
    fn run(&mut self, mnemonic: &str, operands: &str);
}

impl Plt {
    fn link(tools: &Tools, target: &Target, linker: &str, options: &[&str]) -> Self {
        tools.write("stubs.c", SOURCE);
        tools.run_well(&["clang-23", target.clang, "-O1", "-fPIC", "-c", "stubs.c", "-o", "stubs.o"]);
        tools.run_well(&[&[linker, "-shared", "stubs.o", "-o", "linked"], options].concat());
        Self::read(tools, ".plt")
    }

    fn read(tools: &Tools, name: &'static str) -> Self {
        let bytes = tools.read("linked");
        let file = object::File::parse(&*bytes).unwrap();
        let arch = if file.is_little_endian() { Arch::Aarch64 } else { Arch::S390x };
        let section = file.section_by_name(name).unwrap();
        Self { arch, name, address: section.address(), bytes: section.data().unwrap().to_vec() }
    }

    fn recognised(&self) -> Recognised {
        recognise(self.arch, &self.bytes).unwrap_or_else(|| panic!("{}: {:02x?}", self.name, self.bytes))
    }

    /// Compares the row of each instruction with the effect of the instructions before it.
    fn check(&self, tools: &Tools, target: &Target, entered: impl State) {
        let Recognised { shape, entries, .. } = self.recognised();
        let sizes = [shape.header().size(), shape.entry().size() * entries];
        let [header, entry_bytes] = sizes.map(u64::from);
        let text = tools.run_well(&[target.objdump, "-d", "-j", self.name, "linked"]);
        for version in [Version::V3, Version::V2] {
            let mut builder = Builder::new(self.arch, Options::new().with_version(version)).unwrap();
            Stubs::at(Address(self.address), shape).with_entries(entries).push(&mut builder).unwrap();
            let table = builder.finish().into_bytes(Address(0), |key| key.address()).unwrap();
            let table = Section::parse(&table, Address(0)).unwrap();
            let (mut state, mut checked, mut is_over) = (entered.clone(), 0, false);
            for (address, mnemonic, operands) in instructions(&text).filter(|found| found.0 >= self.address) {
                let offset = address - self.address;
                let in_entries = offset.checked_sub(header).filter(|offset| *offset < entry_bytes);
                let is_first = match in_entries {
                    Some(offset) => offset % u64::from(shape.entry().size()) == 0,
                    None => offset == 0 || offset == header + entry_bytes,
                };
                if is_first {
                    (state, is_over) = (entered.clone(), false);
                }
                let row = table.lookup(Address(address)).unwrap().expect("a row");
                assert!(row.frame_pointer == Rule::SameValue && !row.signed);
                if !is_over {
                    assert_eq!((row.cfa, row.return_address), state.expected(), "{address:#x} {mnemonic}");
                    checked += 1;
                    // After a final jump come padding, an address or a length.
                    is_over = mnemonic == "jg" || mnemonic == "br" && self.arch == Arch::Aarch64;
                    state.run(mnemonic, operands);
                }
            }
            assert!(checked >= 2 * entries, "{text}");
        }
    }
}

/// Returns address, mnemonic and operands of each line. The bytes, which come second, are skipped.
fn instructions(text: &str) -> impl Iterator<Item = (u64, &str, &str)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let address = u64::from_str_radix(fields.next()?.trim().strip_suffix(':')?, 16).ok()?;
        let mnemonic = fields.nth(1)?.trim();
        Some((address, mnemonic, fields.next().unwrap_or("").trim()))
    })
}

/// Bytes stored below the stack pointer at the stub's entry, and where `x30` is among them.
#[derive(Clone, Default)]
struct Aarch64State {
    pushed: i64,
    return_address: Option<i64>,
}

impl State for Aarch64State {
    fn expected(&self) -> (Cfa, Rule) {
        let cfa = Cfa::Register { register: Arch::Aarch64.stack_pointer(), offset: self.pushed };
        (cfa, self.return_address.map_or(Rule::SameValue, Rule::Cfa))
    }

    fn run(&mut self, mnemonic: &str, operands: &str) {
        match mnemonic {
            "stp" => {
                let stored = operands.strip_suffix(", [sp, #-16]!").expect("registers are pushed");
                self.pushed += 16;
                if stored.ends_with(", x30") {
                    self.return_address = Some(8 - self.pushed);
                }
            }
            "adrp" | "ldr" | "add" => {
                let written = operands.split(',').next();
                assert!(matches!(written, Some("x16" | "x17" | "x2" | "x3")), "{mnemonic} {operands}");
            }
            "br" | "nop" | "bti" | "autia1716" => {}
            other => panic!("{other} {operands}"),
        }
    }
}

/// Stubs use only `%r1` and the area in which the ABI lets a callee save registers.
#[derive(Clone)]
struct S390xState;

impl State for S390xState {
    fn expected(&self) -> (Cfa, Rule) {
        let cfa = Cfa::Register { register: Arch::S390x.stack_pointer(), offset: 160 };
        (cfa, Rule::SameValue)
    }

    fn run(&mut self, mnemonic: &str, operands: &str) {
        match mnemonic {
            "larl" | "lg" | "lgf" | "basr" => assert!(operands.starts_with("%r1,"), "{mnemonic} {operands}"),
            "stg" | "mvc" | "br" | "jg" | "nopr" => {}
            other => panic!("{other} {operands}"),
        }
    }
}

/// ld 2.47 makes rows for the PLTs that it knows. In layout `gnu` our bytes are the same except for `.plt.got`: ld
/// describes its bare jumps as code that has pushed something.
#[test]
#[ignore = "needs the reference tools"]
fn layout_gnu_has_the_rows_of_ld() {
    let tools = Tools::find();
    let mut compared = 0;
    // With 15 functions the PLT has 256 bytes, and ld writes starts of two bytes.
    for (count, options) in [(2, &["-z", "lazy"][..]), (15, &["-z", "lazy"]), (3, &["-z", "ibtplt"])] {
        let declared: String = (0..count).map(|n| format!("int f{n}(int);")).collect();
        let called: String = (0..count).map(|n| format!("a += f{n}(a);")).collect();
        tools.write("calls.c", format!("{declared} int calls(int a) {{ {called} return a; }}"));
        tools.run_well(&["gcc", "-O1", "-fPIC", "-c", "-Wa,--gsframe", "calls.c", "-o", "calls.o"]);
        tools.run_well(&[&["ld.bfd", "-shared", "calls.o", "-o", "linked"], options].concat());
        let bytes = tools.read("linked");
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name(".sframe").unwrap();
        let (table, address) = (section.data().unwrap(), Address(section.address()));
        let ours = {
            let options = Options::new().with_layout(Layout::Gnu);
            let mut builder = Builder::new(Arch::Amd64, options).unwrap();
            for section in file.sections().filter(|section| matches!(section.name(), Ok(".plt" | ".plt.sec")))
            {
                let found = recognise(Arch::Amd64, section.data().unwrap()).unwrap();
                let stubs = Stubs::at(Address(section.address()), found.shape).with_entries(found.entries);
                stubs.push(&mut builder).unwrap();
            }
            builder.finish().into_bytes(address, |key| key.address()).unwrap()
        };
        let [ours, table] = [&ours, table].map(|bytes| Section::parse(bytes, address).unwrap());
        let functions = |table: &Section<'_>| -> Vec<_> {
            let functions = table.functions().map(Result::unwrap);
            functions
                .map(|function| (function.start(), function.size(), function.fre_bytes().unwrap().to_vec()))
                .collect()
        };
        let (ours, all) = (functions(&ours), functions(&table));
        assert!(
            all.len() > ours.len() && ours.iter().all(|function| all.contains(function)),
            "{ours:x?}\n{all:x?}"
        );
        compared += ours.len();
    }
    assert_eq!(compared, 2 + 2 + 3);
}
