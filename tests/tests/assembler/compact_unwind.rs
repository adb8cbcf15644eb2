//! Compares `__compact_unwind` with llvm-mc 23's, byte for byte and relocations included.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cfipack_assembler::{Assembly, CompactOptions, Dialect, Directives, Encodings, MachOTarget, Target};
use cfipack_cfi::{Functions, PointerEncoding, Section, SectionKind};
use cfipack_encoder::compact_unwind;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch, Key, Register, RegisterName, SectionOffset};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::reference::Tools;
use gimli::{CfaRule, UnwindSection as _};
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget, SymbolIndex,
};

const FUNCTIONS_PER_FILE: u64 = 100;
const PERSONALITIES: [&str; 2] = ["___gxx_personality_v0", "_other_personality"];

/// A function, as assembler text and as directives.
struct Function {
    arch: Arch,
    text: String,
    directives: Directives,
    at: u64,
}

impl Function {
    fn random(random: &mut Random, arch: Arch, number: u64) -> Self {
        let size = 64 * 4;
        let text = format!("_f{number}:\n\t.cfi_startproc\n");
        let mut function = Self { arch, text, directives: Directives::new(arch, size), at: 0 };
        if random.chance(20) {
            let routine = random.below(2);
            // i386 has no relocation for the distance of an undefined symbol.
            let encoding = if arch == Arch::I386 { 0 } else { 0x9b };
            writeln!(function.text, "\t.cfi_personality {encoding}, {}", PERSONALITIES[routine as usize])
                .unwrap();
            function.directives.personality(PointerEncoding(encoding), Key(routine));
            if random.chance(50) {
                writeln!(function.text, "\t.cfi_lsda 0x10, Llsda").unwrap();
                function.directives.lsda(PointerEncoding(0x10), Key(0));
            }
        }
        if random.chance(3) {
            function.say("signal_frame", |directives| _ = directives.signal_frame());
        }
        let word = i64::from(arch.pointer_size());
        match arch {
            Arch::Amd64 | Arch::I386 => function.x86(random, word),
            _ => function.arm64(random),
        }
        if random.chance(15) {
            function.disturb(random);
        }
        let (unit, at) = (function.unit(), function.at);
        writeln!(function.text, "\t.space {}\n\t.cfi_endproc", size - at * unit).unwrap();
        function
    }

    fn unit(&self) -> u64 {
        if matches!(self.arch, Arch::Amd64 | Arch::I386) { 1 } else { 4 }
    }

    /// Adds an instruction, and a directive after it.
    fn say(&mut self, text: &str, directive: impl FnOnce(&mut Directives)) {
        let unit = self.unit();
        self.at += 1;
        write!(self.text, "\t.space {unit}\n\t.cfi_{text}\n").unwrap();
        directive(self.directives.at(self.at * unit));
    }

    fn name(&self, register: Register) -> String {
        let name = RegisterName(self.arch, register).to_string();
        match self.arch {
            Arch::Amd64 | Arch::I386 => format!("%{name}"),
            _ => name,
        }
    }

    fn offset(&mut self, register: Register, offset: i64) {
        let text = format!("offset {}, {offset}", self.name(register));
        self.say(&text, |directives| _ = directives.offset(register, offset));
    }

    fn x86(&mut self, random: &mut Random, word: i64) {
        let frame_pointer = self.arch.frame_pointer();
        let mut registers = cfipack_format::compact_unwind::callee_saved(self.arch).unwrap().to_vec();
        let has_frame = random.chance(40);
        let limit = random.pick(&[300, 3, 90_000]);
        let size = if has_frame { 2 } else { random.between(1, limit) } * word;
        if !random.chance(5) {
            self.say(&format!("def_cfa_offset {size}"), |directives| _ = directives.def_cfa_offset(size));
        }
        if has_frame {
            self.offset(frame_pointer, -2 * word);
            let text = format!("def_cfa_register {}", self.name(frame_pointer));
            self.say(&text, |directives| _ = directives.def_cfa_register(frame_pointer));
            registers.retain(|&register| register != frame_pointer);
        }
        let count = random.below(registers.len() as u64 + 1) as i64;
        let mut place = -(1 + i64::from(has_frame) + count) * word;
        for _ in 0..count {
            let register = registers.swap_remove(random.below(registers.len() as u64) as usize);
            self.offset(register, place);
            place += word;
        }
    }

    fn arm64(&mut self, random: &mut Random) {
        let limit = random.pick(&[4, 40, 5000]);
        let size = 16 * random.between(0, limit);
        if random.chance(90) {
            self.say(&format!("def_cfa_offset {size}"), |directives| _ = directives.def_cfa_offset(size));
        }
        let mut place = 0;
        if random.chance(70) {
            let frame_pointer = self.arch.frame_pointer();
            let text = format!("def_cfa {}, 16", self.name(frame_pointer));
            self.say(&text, |directives| _ = directives.def_cfa(frame_pointer, 16));
            self.offset(Register(30), -8);
            self.offset(Register(29), -16);
            place = -16;
        }
        for first in [19, 21, 23, 25, 27, 72, 74, 76, 78] {
            if random.chance(40) {
                self.offset(Register(first), place - 8);
                self.offset(Register(first + 1), place - 16);
                place -= 16;
            }
        }
    }

    /// Adds directives that llvm-mc cannot encode, or encodes by the directive's name rather than by its meaning.
    fn disturb(&mut self, random: &mut Random) {
        let register = self.arch.frame_pointer();
        let name = self.name(register);
        match random.below(8) {
            0 => self.say("adjust_cfa_offset 16", |directives| _ = directives.adjust_cfa_offset(16)),
            1 => {
                let offset = -32 + self.directives.placed().last().map_or(0, |placed| placed.cfa_offset);
                let text = format!("rel_offset {name}, {offset}");
                self.say(&text, |directives| _ = directives.rel_offset(register, offset));
            }
            2 => self.say("remember_state", |directives| _ = directives.remember_state()),
            3 => self.say(&format!("restore {name}"), |directives| _ = directives.restore(register)),
            4 => self.say(&format!("same_value {name}"), |directives| _ = directives.same_value(register)),
            5 => self.say("escape 0x2e, 0", |directives| _ = directives.escape(&[0x2e, 0])),
            6 => self.say(&format!("undefined {name}"), |directives| _ = directives.undefined(register)),
            _ => self.say("def_cfa_offset 48", |directives| _ = directives.def_cfa_offset(48)),
        }
    }
}

/// Architectures with their triples for llvm-mc.
const TARGETS: [(Arch, &str); 4] = [
    (Arch::Amd64, "x86_64-apple-macos11"),
    (Arch::I386, "i386-apple-macos11"),
    (Arch::Aarch64, "arm64-apple-macos11"),
    (Arch::Arm64_32, "arm64_32-apple-watchos"),
];

/// Hands random functions, and the object that llvm-mc makes of them, to `check`. `lsda` is the text of a section with
/// the label `Llsda`. Returns how many files each target has.
fn each_file(
    (what, count): (&str, usize),
    targets: &[(Arch, &str)],
    options: &[&str],
    lsda: &str,
    mut check: impl FnMut(Arch, &[Function], &[u8]) -> Result<(), String>,
) -> usize {
    let tools = Tools::find();
    let (seed, count) = cases(what, count);
    let mut random = Random::new(seed);
    for &(arch, triple) in targets {
        let triple = format!("-triple={triple}");
        let first = ["llvm-mc-23", "-filetype=obj", triple.as_str(), "f.s", "-o", "f.o"];
        let command = [&first[..], options].concat();
        for number in 0..count {
            let functions: Vec<_> =
                (0..FUNCTIONS_PER_FILE).map(|number| Function::random(&mut random, arch, number)).collect();
            let texts: String = functions.iter().map(|function| function.text.as_str()).collect();
            let text = format!("\t.text\n{texts}\t.section __TEXT,__lsda\n{lsda}");
            tools.write("f.s", &text);
            tools.run_well(&command);
            if let Err(why) = check(arch, &functions, &tools.read("f.o")) {
                panic!("{arch}, file {number}: {why}\n{text}");
            }
        }
    }
    count
}

#[test]
#[ignore = "needs the reference tools"]
fn random_functions_have_what_llvm_mc_writes() {
    let what = ("__compact_unwind of directives against llvm-mc", 5);
    each_file(what, &TARGETS[..3], &[], "Llsda:\n\t.byte 0\n", compare);
}

/// Makes llvm-mc write a record for each function.
const ALWAYS: &[&str] = &["--emit-dwarf-unwind=always"];

/// The checked encoder must give the same encodings for directives and for the FDEs that llvm-mc writes of them. The
/// CFA of a body must be the one that gimli reads from the FDE.
#[test]
#[ignore = "needs the reference tools"]
fn checked_encodings_are_those_of_llvm_mc_s_fdes() {
    let what = ("checked __compact_unwind of directives against llvm-mc's __eh_frame", 3);
    let mut encoded = 0;
    let lsda = "Llsda:\n\t.byte 0\n";
    let count = each_file(what, &TARGETS[..3], ALWAYS, lsda, |arch, functions, object| {
        encoded += compare_checked(arch, functions, object);
        Ok(())
    });
    assert!(encoded > 10 * count, "{encoded}");
}

/// Compares `__eh_frame`.
#[test]
#[ignore = "needs the reference tools"]
fn eh_frames_are_those_of_llvm_mc() {
    let what = ("__eh_frame of directives against llvm-mc", 3);
    each_file(what, &TARGETS, ALWAYS, "\t.byte 0\nLlsda:\n\t.byte 0\n", compare_eh_frame);
}

fn compare_eh_frame(arch: Arch, functions: &[Function], object: &[u8]) -> Result<(), String> {
    let file = object::File::parse(object).unwrap();
    let symbol = |name: &str| file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name);
    let eh_frame = file.section_by_name("__eh_frame").unwrap();
    // For arm64, llvm-mc puts a symbol at the start of each section.
    let start_of = |section: &object::Section<'_, '_>| {
        let is_start = |symbol: &object::Symbol<'_, '_>| {
            symbol.section_index() == Some(section.index()) && symbol.address() == section.address()
        };
        file.symbols().find(is_start).map_or(0, |symbol| symbol.index().0 as u32)
    };
    let lsda = file.section_by_name("__lsda").unwrap();
    let mut assembly = Assembly::new(arch).with_dialect(Dialect::LlvmMachO);
    for (number, function) in functions.iter().enumerate() {
        assembly.push(Key(number as u64), &function.directives).map_err(|error| error.to_string())?;
    }
    let target_of = |target| match target {
        Target::Function(Key(number)) => {
            let symbol = symbol(&format!("_f{number}"));
            let address = Address(symbol.address());
            MachOTarget::Defined { address, symbol: symbol.index().0 as u32, symbol_address: address }
        }
        Target::Personality(Key(routine)) => {
            MachOTarget::Undefined { symbol: symbol(PERSONALITIES[routine as usize]).index().0 as u32 }
        }
        _ => {
            let (symbol, symbol_address) = (start_of(&lsda), Address(lsda.address()));
            MachOTarget::Defined { address: Address(lsda.address() + 1), symbol, symbol_address }
        }
    };
    let frames = assembly.eh_frame().map_err(|error| error.to_string())?;
    let ours = frames.to_mach_o(Address(eh_frame.address()), start_of(&eh_frame), target_of);
    let ours = ours.map_err(|error| error.to_string())?;
    let theirs = eh_frame.data().unwrap();
    if ours.bytes != theirs {
        let at = ours.bytes.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
        return Err(format!("{} bytes, theirs {}; they differ at {at:x?}", ours.bytes.len(), theirs.len()));
    }
    let theirs: Vec<_> = eh_frame
        .relocations()
        .flat_map(|(offset, relocation)| {
            let RelocationFlags::MachO { r_type, r_pcrel, r_length } = relocation.flags() else {
                panic!("{relocation:?}")
            };
            let RelocationTarget::Symbol(symbol) = relocation.target() else { panic!("{relocation:?}") };
            let of = |kind: u8, symbol: SymbolIndex| (offset, kind, r_pcrel, 1 << r_length, symbol.0 as u32);
            // ARM64_RELOC_SUBTRACTOR is the first relocation of a pair.
            let subtractor = relocation.subtractor().map(|symbol| of(1, symbol));
            subtractor.into_iter().chain([of(r_type.0, symbol)])
        })
        .collect();
    let ours: Vec<_> = ours
        .relocations
        .iter()
        .map(|it| (it.offset.0 as u64, it.kind, it.is_pc_relative, it.size, it.symbol))
        .collect();
    if ours == theirs { Ok(()) } else { Err(format!("relocations {ours:x?}, theirs {theirs:x?}")) }
}

/// Returns how many functions have an encoding.
fn compare_checked(arch: Arch, functions: &[Function], object: &[u8]) -> usize {
    let file = object::File::parse(object).unwrap();
    let (eh_frame, is_64) = (file.section_by_name("__eh_frame").unwrap(), arch.pointer_size() == 8);
    let data = eh_frame.data().unwrap();
    let number = |name: &str| name.strip_prefix("_f")?.parse::<u64>().ok().map(Key);
    let relocated: BTreeMap<u64, Key> = eh_frame
        .relocations()
        .filter_map(|(offset, relocation)| {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
            Some((offset, number(file.symbol_by_index(symbol).ok()?.name().ok()?)?))
        })
        .collect();
    let addresses: BTreeMap<u64, Key> =
        file.symbols().filter_map(|symbol| Some((symbol.address(), number(symbol.name().ok()?)?))).collect();
    let key_at = |SectionOffset(field)| {
        let distance = if is_64 {
            i64::from_le_bytes(data[field..field + 8].try_into().unwrap())
        } else {
            i32::from_le_bytes(data[field..field + 4].try_into().unwrap()).into()
        };
        let start = (eh_frame.address() + field as u64).wrapping_add_signed(distance);
        relocated.get(&(field as u64)).or_else(|| addresses.get(&start)).copied()
    };
    let mut assembly = Assembly::new(arch).with_dialect(Dialect::Llvm);
    for (number, function) in functions.iter().enumerate() {
        assembly.push(Key(number as u64), &function.directives).unwrap();
    }
    let target = compact_unwind::RelocationTarget::Symbol { number: 0 };
    let rows = assembly.compact_unwind(CompactOptions::new(), |_| None, |_| target).unwrap();
    let (row, at) = if is_64 { (32, 12) } else { (20, 8) };
    let ours: Vec<_> = rows.section.as_bytes().chunks_exact(row).map(|row| &row[at..at + 4]).collect();
    assert_eq!(ours.len(), functions.len());

    let section = Section::new(SectionKind::EhFrame, data, Address(eh_frame.address()), arch);
    let mut encoder = compact_unwind::Encoder::new(arch).unwrap();
    let (mut judged, mut encoded) = (0, 0);
    for function in Functions::keyed(&section, key_at) {
        let function = function.unwrap();
        let expected = encoder.encode(&function, None, compact_unwind::Mode::Checked);
        let expected = expected.unwrap_or(Encoding::dwarf(arch, 0));
        let number = function.key.0 as usize;
        // UNWIND_HAS_LSDA is the row's flag for an LSDA. The encoder does not decide about it.
        let has_lsda = functions[number].directives.frame().lsda.is_some();
        let is_compact = expected != Encoding::dwarf(arch, 0);
        let expected = Encoding(expected.0 | if has_lsda && is_compact { 0x4000_0000 } else { 0 });
        assert_eq!(ours[number], expected.0.to_le_bytes(), "{arch}\n{}", functions[number].text);
        if let Some((register, offset)) = cfa(arch, expected.0) {
            let found = body(arch, data, function.fde);
            assert_eq!(found, CfaRule::RegisterAndOffset { register, offset }, "{}", functions[number].text);
            encoded += 1;
        }
        judged += 1;
    }
    assert_eq!(judged, functions.len());
    encoded
}

/// Returns the CFA of an encoding with a frame pointer or a size (`mach-o/compact_unwind_encoding.h`).
fn cfa(arch: Arch, encoding: u32) -> Option<(gimli::Register, i64)> {
    let word = i64::from(arch.pointer_size());
    let [frame, stack] = [arch.frame_pointer(), arch.stack_pointer()].map(|it| gimli::Register(it.0));
    match (arch, encoding >> 24 & 0xf) {
        (Arch::Aarch64, 4) => Some((frame, 16)),
        (Arch::Aarch64, 2) => Some((stack, i64::from(encoding >> 12 & 0xfff) * 16)),
        (Arch::Amd64 | Arch::I386, 1) => Some((frame, 2 * word)),
        (Arch::Amd64 | Arch::I386, 2) => Some((stack, i64::from(encoding >> 16 & 0xff) * word)),
        _ => None,
    }
}

/// Returns the CFA of an FDE's last row, as gimli reads it.
fn body(arch: Arch, data: &[u8], SectionOffset(fde): SectionOffset) -> CfaRule<usize> {
    let mut section = gimli::EhFrame::new(data, gimli::LittleEndian);
    section.set_address_size(arch.pointer_size());
    let bases = gimli::BaseAddresses::default().set_eh_frame(0);
    let fde = section.fde_from_offset(&bases, fde.into(), gimli::EhFrame::cie_from_offset).unwrap();
    let mut context = gimli::UnwindContext::new();
    let mut rows = fde.rows(&section, &bases, &mut context).unwrap();
    let mut last = None;
    while let Some(row) = rows.next_row().unwrap() {
        last = Some(row.cfa().clone());
    }
    last.unwrap()
}

fn compare(arch: Arch, functions: &[Function], object: &[u8]) -> Result<(), String> {
    let file = object::File::parse(object).unwrap();
    let place = |name: &str| {
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name);
        let number = symbol.section_index().map_or(0, |section| section.0 as u8);
        (number, symbol.address(), symbol.index().0 as u32)
    };
    let mut assembly = Assembly::new(arch).with_dialect(Dialect::Llvm);
    for (number, function) in functions.iter().enumerate() {
        assembly.push(Key(number as u64), &function.directives).map_err(|error| error.to_string())?;
    }
    let lsda = file.section_by_name("__lsda").unwrap();
    let target_of = |target| match target {
        Target::Function(Key(number)) => {
            let (number, address, _) = place(&format!("_f{number}"));
            compact_unwind::RelocationTarget::Section { number, address }
        }
        Target::Personality(Key(routine)) => {
            compact_unwind::RelocationTarget::Symbol { number: place(PERSONALITIES[routine as usize]).2 }
        }
        _ => compact_unwind::RelocationTarget::Section {
            number: lsda.index().0 as u8,
            address: lsda.address(),
        },
    };
    let options =
        CompactOptions::new().with_encodings(Encodings::LlvmMc).with_canonical_personalities(&[Key(0)]);
    let ours = assembly.compact_unwind(options, |_| None, target_of).unwrap();
    let section = file.section_by_name("__compact_unwind").ok_or("llvm-mc wrote no __compact_unwind")?;
    let theirs = section.data().unwrap();
    if ours.section.as_bytes() != theirs {
        let at =
            ours.section.as_bytes().iter().zip(theirs).take_while(|(ours, theirs)| ours == theirs).count();
        return Err(format!(
            "{} bytes, theirs {}; they differ at {at}",
            ours.section.as_bytes().len(),
            theirs.len()
        ));
    }
    let mut relocations: Vec<_> = ours
        .section
        .relocations()
        .map(|relocation| {
            let target = match relocation.target {
                compact_unwind::RelocationTarget::Section { number, .. } => (false, u32::from(number)),
                compact_unwind::RelocationTarget::Symbol { number } => (true, number),
            };
            (relocation.offset, target)
        })
        .collect();
    relocations.sort();
    let mut theirs: Vec<_> = section
        .relocations()
        .map(|(offset, relocation)| {
            assert!(matches!(relocation.flags(), RelocationFlags::MachO { .. }));
            let target = match relocation.target() {
                RelocationTarget::Symbol(symbol) => (true, symbol.0 as u32),
                RelocationTarget::Section(section) => (false, section.0 as u32),
                target => panic!("{target:?}"),
            };
            (offset as u32, target)
        })
        .collect();
    theirs.sort();
    if relocations == theirs {
        Ok(())
    } else {
        Err(format!("relocations {relocations:?}, theirs {theirs:?}"))
    }
}
