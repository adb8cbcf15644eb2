//! Compares mode `LlvmMc` with llvm-mc on random directives.

use std::collections::BTreeMap;
use std::fmt::Write;

use cfipack_cfi::Instruction;
use cfipack_decoder::compact_unwind::Section;
use cfipack_encoder::compact_unwind::llvm_mc::{Frame, encode};
use cfipack_format::Reason;
use cfipack_format::compact_unwind::{Encoding, Flags, callee_saved};
use cfipack_format::{Arch, Register};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::reference::Tools;
use object::{Object, ObjectSection};

type Directive = (String, Result<Instruction<'static>, Reason>);

/// Directives of a function, with the CFI instructions that they become.
struct Function {
    frame: Frame,
    directives: Vec<Directive>,
}

/// Names of x86's registers, by their numbers in an FDE of Mach-O.
const AMD64: [&str; 16] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15",
];
const I386: [&str; 8] = ["eax", "ecx", "edx", "ebx", "ebp", "esp", "esi", "edi"];

fn name(arch: Arch, Register(number): Register) -> String {
    let index = usize::from(number);
    match arch {
        Arch::Amd64 => format!("%{}", AMD64[index]),
        Arch::I386 => format!("%{}", I386[index]),
        _ if number >= 64 => format!("b{}", number - 64),
        _ if number == 31 => "wsp".into(),
        _ => format!("w{number}"),
    }
}

impl Function {
    fn random(random: &mut Random, arch: Arch) -> Self {
        let mut function = Self { frame: Frame::default(), directives: Vec::new() };
        match arch {
            Arch::Amd64 | Arch::I386 => function.x86(random, arch),
            _ => function.arm64(random, arch),
        }
        if !function.directives.is_empty() && random.chance(10) {
            function.disturb(random, arch);
        }
        // llvm-mc's result is meaningless if a register is saved twice.
        let mut saved = Vec::new();
        function.directives.retain(|(_, instruction)| match instruction {
            Ok(Instruction::Offset(register, _)) if saved.contains(register) => false,
            Ok(Instruction::Offset(register, _)) => {
                saved.push(*register);
                true
            }
            _ => true,
        });
        if random.chance(2) {
            function.directives.clear();
        }
        function.frame.signal = random.chance(2);
        function.frame.mte_tagged = arch == Arch::Aarch64 && random.chance(2);
        function
    }

    fn x86(&mut self, random: &mut Random, arch: Arch) {
        let word = i64::from(arch.pointer_size());
        let with_frame = random.chance(40);
        if with_frame {
            self.cfa_offset(2 * word);
            self.offset(arch, arch.frame_pointer(), -2 * word);
            self.cfa_register(arch, arch.frame_pointer());
        } else {
            let near = random.chance(70);
            let words = random.below(if near { 300 } else { 100_000 });
            self.cfa_offset(words as i64 * word + random.pick(&[0, 0, 0, 4]));
        }
        let mut registers = callee_saved(arch).unwrap().to_vec();
        let count = random.below(7) as usize;
        let mut place = -(2 + with_frame as i64 + count as i64 - 1) * word;
        for _ in 0..count {
            let register = registers.swap_remove(random.below(registers.len() as u64) as usize);
            self.offset(arch, register, place);
            place += word * random.pick(&[1, 1, 1, 1, 2]);
        }
    }

    fn arm64(&mut self, random: &mut Random, arch: Arch) {
        if random.chance(50) {
            self.cfa_offset(random.pick(&[0, 1, 8, 16]) * random.between(-2, 5000));
        }
        let mut place = 0;
        if random.chance(70) {
            self.cfa(arch, random.pick(&[29, 29, 29, 31]), random.pick(&[16, 16, 32]));
            place = -16 * random.pick(&[1, 1, 1, 2]);
            self.offset(arch, Register(30), place + random.pick(&[8, 8, 8, 8, 16]));
            self.offset(arch, Register(29), place);
        }
        for first in [19, 21, 23, 25, 27, 72, 74, 76, 78] {
            if random.chance(40) {
                self.offset(arch, Register(first), place - random.pick(&[8, 8, 8, 8, 8, 8, 8, 8, 16]));
                let Some((_, Ok(Instruction::Offset(_, offset)))) = self.directives.last() else { continue };
                place = offset - 8;
                self.offset(arch, Register(first + 1), place);
            }
        }
    }

    /// Inserts a directive, removes one, or exchanges two.
    fn disturb(&mut self, random: &mut Random, arch: Arch) {
        let count = self.directives.len() as u64;
        let at = random.below(count + 1) as usize;
        let fp = arch.frame_pointer();
        match random.below(10) {
            0 => drop(self.directives.remove(at.min(count as usize - 1))),
            1 => self.directives.swap(at.min(count as usize - 1), random.below(count) as usize),
            2 => self.cfa_offset(16),
            3 => self.cfa(arch, fp.0, 16),
            4 => self.cfa_register(arch, random.pick(&[fp, arch.stack_pointer()])),
            5 => self.offset(arch, Register(random.below(8) as u16), -24),
            kind => {
                let register = name(arch, fp);
                let directive = match kind {
                    6 => (".cfi_remember_state".into(), Ok(Instruction::RememberState)),
                    7 => (format!(".cfi_restore {register}"), Ok(Instruction::Restore(fp))),
                    8 => (format!(".cfi_same_value {register}"), Ok(Instruction::SameValue(fp))),
                    _ => (".cfi_adjust_cfa_offset 8".into(), Err(Reason::LlvmMcDirectives)),
                };
                self.directives.insert(at, directive);
            }
        }
    }

    fn cfa_offset(&mut self, offset: i64) {
        self.directives
            .push((format!(".cfi_def_cfa_offset {offset}"), Ok(Instruction::DefCfaOffset(offset))));
    }

    fn cfa_register(&mut self, arch: Arch, register: Register) {
        let text = format!(".cfi_def_cfa_register {}", name(arch, register));
        self.directives.push((text, Ok(Instruction::DefCfaRegister(register))));
    }

    fn cfa(&mut self, arch: Arch, register: u16, offset: i64) {
        let register = Register(register);
        let text = format!(".cfi_def_cfa {}, {offset}", name(arch, register));
        self.directives.push((text, Ok(Instruction::DefCfa(register, offset))));
    }

    fn offset(&mut self, arch: Arch, register: Register, offset: i64) {
        let text = format!(".cfi_offset {}, {offset}", name(arch, register));
        self.directives.push((text, Ok(Instruction::Offset(register, offset))));
    }

    fn write(&self, source: &mut String, number: usize) {
        let _ = writeln!(source, "_f{number}:\n.cfi_startproc");
        if self.frame.signal {
            source.push_str(".cfi_signal_frame\n");
        }
        if self.frame.mte_tagged {
            source.push_str(".cfi_mte_tagged_frame\n");
        }
        self.directives.iter().for_each(|(text, _)| source.extend([text, "\n"]));
        source.push_str("nop\n.cfi_endproc\n");
    }
}

fn compare(tools: &Tools, arch: Arch, triple: &str) {
    let (seed, count) = cases(triple, 3000);
    let mut random = Random::new(seed);
    let functions: Vec<_> = (0..count).map(|_| Function::random(&mut random, arch)).collect();
    let mut source = String::from(".text\n");
    functions.iter().enumerate().for_each(|(number, function)| function.write(&mut source, number));
    tools.write("f.s", &source);
    tools.run_well(&["llvm-mc-23", "-filetype=obj", "-triple", triple, "f.s", "-o", "f.o"]);
    let bytes = tools.read("f.o");
    let object = object::File::parse(&*bytes).unwrap();
    let section = object.section_by_name("__compact_unwind").unwrap();
    let rows = Section::parse(section.data().unwrap(), arch.pointer_size()).unwrap();
    let rows: BTreeMap<_, _> = rows.entries().map(|(_, row)| (row.function, row.encoding)).collect();
    let nop = if arch == Arch::Aarch64 { 4 } else { 1 };
    let mut dwarf = 0;
    for (number, Function { frame, directives }) in functions.iter().enumerate() {
        let instructions = directives.iter().map(|(_, instruction)| *instruction);
        let ours = encode(arch, *frame, instructions).unwrap_or(Encoding::dwarf(arch, 0));
        let theirs = rows.get(&(number as u64 * nop)).copied().unwrap_or(Encoding::NONE);
        assert_eq!(theirs.flags(), Flags::empty());
        let text: Vec<_> = directives.iter().map(|(text, _)| text).collect();
        assert_eq!(ours, theirs, "{triple}, CFIPACK_SEED={seed}: {frame:?} {text:#?}");
        dwarf += u32::from(ours == Encoding::dwarf(arch, 0));
    }
    println!("{triple}: {count} functions, {dwarf} of them DWARF");
}

#[test]
#[ignore = "needs the reference tools"]
fn random_directives() {
    let tools = Tools::find();
    compare(&tools, Arch::Amd64, "x86_64-apple-macosx10.15");
    compare(&tools, Arch::I386, "i386-apple-macosx10.13");
    compare(&tools, Arch::Aarch64, "arm64-apple-macosx12.0");
}
