//! Makes as many functions as a bench wants, like those of compilers: some leaves, some that save registers, some with
//! a frame pointer. Their lengths differ, so that few have equal rows.

use std::fmt::Write;

use cfipack_cfi::write::{Cie, InstructionWriter, Writer};
use cfipack_cfi::{Instruction, PointerEncoding, SectionKind};
use cfipack_format::{Address, Arch, Register};
use cfipack_testkit::random::Random;

/// Writes `count` functions as assembler text.
pub fn source(random: &mut Random, count: usize) -> String {
    let mut text = String::from("\t.text\n");
    for number in 0..count {
        write!(text, "\t.p2align 4\nf{number}:\n\t.cfi_startproc\n").unwrap();
        let saved = random.below(5) as usize;
        let has_frame = random.chance(25);
        let mut offset = 8;
        if has_frame {
            text += "\tpush %rbp\n\t.cfi_def_cfa_offset 16\n\t.cfi_offset 6,-16\n\tmov %rsp,%rbp\n\t.cfi_def_cfa_register 6\n";
        }
        let registers = [("%rbx", 3), ("%r12", 12), ("%r13", 13), ("%r14", 14), ("%r15", 15)];
        for (name, register) in &registers[..saved] {
            offset += 8;
            if has_frame {
                write!(text, "\tpush {name}\n\t.cfi_offset {register},{}\n", -offset - 8).unwrap();
            } else {
                write!(text, "\tpush {name}\n\t.cfi_def_cfa_offset {offset}\n").unwrap();
                writeln!(text, "\t.cfi_offset {register},{}", -offset).unwrap();
            }
        }
        writeln!(text, "\t.skip {},0x90", 8 + random.below(300)).unwrap();
        if saved > 0 && !has_frame {
            text += "\t.cfi_remember_state\n";
            for (name, _) in registers[..saved].iter().rev() {
                offset -= 8;
                write!(text, "\tpop {name}\n\t.cfi_def_cfa_offset {offset}\n").unwrap();
            }
            text += "\tret\n\t.cfi_restore_state\n\tud2\n";
        } else if has_frame {
            text += "\tleave\n\t.cfi_def_cfa 7,8\n\tret\n";
        } else {
            text += "\tret\n";
        }
        text += "\t.cfi_endproc\n";
    }
    text
}

/// Writes `count` functions as an `.eh_frame` for x86-64 at `address`. The first function is at `text`.
pub fn eh_frame(random: &mut Random, count: usize, address: Address, text: Address) -> Vec<u8> {
    let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, address);
    // At entry the CFA is rsp+8, and the return address is at CFA-8.
    let cie = Cie::new(Arch::Amd64, &[0x0c, 7, 8, 0x90, 1])
        .with_augmentation(b"zR")
        .with_fde_encoding(PointerEncoding(0x1b));
    let cie = writer.cie(&cie).expect("a CIE of the usual form");
    let mut start = text;
    for _ in 0..count {
        let mut function = Function { out: InstructionWriter::for_cie(&cie), at: 0 };
        function.instructions(random);
        let size = function.at + 1 + random.below(16);
        writer.fde(&cie, start, size, None, function.out.as_bytes()).expect("a function in reach");
        start = Address((start.0 + size).next_multiple_of(16));
    }
    writer.into_bytes()
}

/// The CFI instructions of a function, and the location they have reached.
struct Function {
    out: InstructionWriter,
    at: u64,
}

impl Function {
    fn after(&mut self, bytes: u64, instructions: &[Instruction<'_>]) {
        self.at += bytes;
        self.out.put(Instruction::Advance(bytes)).expect("a short advance");
        for &instruction in instructions {
            self.out.put(instruction).expect("an instruction of the usual form");
        }
    }

    fn instructions(&mut self, random: &mut Random) {
        use Instruction::{DefCfa, DefCfaOffset, DefCfaRegister, Offset, RememberState, RestoreState};
        let [rbx, rbp, rsp] = [3, 6, 7].map(Register);
        if random.chance(25) {
            self.after(1, &[DefCfaOffset(16), Offset(rbp, -16)]);
            self.after(3, &[DefCfaRegister(rbp)]);
            self.after(2, &[Offset(rbx, -24)]);
            let body = 8 + random.below(300);
            return self.after(body, &[DefCfa(rsp, 8)]);
        }
        let saved = &[rbp, rbx, Register(12), Register(13), Register(14)][..random.below(5) as usize];
        let mut offset = 8;
        for &register in saved {
            offset += 8;
            self.after(1 + u64::from(register.0 > 7), &[DefCfaOffset(offset), Offset(register, -offset)]);
        }
        let locals = 8 * random.between(0, 40);
        self.after(4 + random.below(20), &[DefCfaOffset(offset + locals)]);
        let body = 8 + random.below(300);
        self.after(body, &[RememberState, DefCfaOffset(offset)]);
        for _ in saved {
            offset -= 8;
            self.after(2, &[DefCfaOffset(offset)]);
        }
        self.after(1, &[RestoreState]);
        self.at += random.below(40);
    }
}
