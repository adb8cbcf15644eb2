//! Makes random functions with compilers' prologues and epilogues, as code and as asynchronous CFI. Some have steps
//! that no compact encoding can represent.

use cfipack_cfi::SectionKind;
use cfipack_cfi::write::{self, Cie, leb128};
use cfipack_format::{Address, Arch};
use cfipack_testkit::random::Random;

mod arm64;

/// A function: its code, and an `.eh_frame` that has its FDE.
#[derive(Debug)]
pub struct Function {
    /// The architecture.
    pub arch: Arch,
    /// The code, from the function's start on.
    pub code: Vec<u8>,
    /// The section.
    pub eh_frame: Vec<u8>,
    /// Reasons why it may have no encoding. If the list is empty it must have an encoding, else the encoder must give
    /// one of these reasons.
    pub obstacles: Vec<&'static str>,
}

impl Function {
    /// The address of the `.eh_frame`.
    pub const SECTION: Address = Address(0x10_0000);
    /// The address of the function.
    const START: u64 = 0x1000;

    /// Makes a function for x86-64 or arm64.
    pub fn random(random: &mut Random, arch: Arch) -> Self {
        let mut writer = Writer::default();
        match arch {
            Arch::Amd64 if random.chance(40) => writer.x86_with_frame(random),
            Arch::Amd64 => writer.x86_without_frame(random),
            _ => writer.arm64(random),
        }
        let eh_frame = writer.eh_frame(arch);
        Self { arch, code: writer.code, eh_frame, obstacles: writer.obstacles }
    }
}

/// rbx, r12, r13, r14, r15, rbp.
const X86_SAVED: [u8; 6] = [3, 12, 13, 14, 15, 6];
/// Instructions that are no calls: nop; mov eax, ebp (has a byte E8); mov rax, -1 (has bytes FF).
const X86_OTHERS: [&[u8]; 3] = [&[0x90], &[0x89, 0xe8], &[0x48, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff]];
const X86_CALLS: [&[u8]; 3] = [&[0xe8, 0, 0, 0, 0], &[0xff, 0xd0], &[0xff, 0x15, 0, 0, 0, 0]];

#[derive(Default)]
struct Writer {
    code: Vec<u8>,
    /// The instructions of the FDE.
    cfi: Vec<u8>,
    /// The location that the CFI describes up to now.
    location: usize,
    /// The CFA's offset from the stack pointer.
    cfa: u64,
    obstacles: Vec<&'static str>,
}

impl Writer {
    fn x86_without_frame(&mut self, random: &mut Random) {
        let mut order = X86_SAVED.to_vec();
        shuffle(random, &mut order);
        order.truncate(random.below(7) as usize);
        let saves_late = random.chance(50);
        let mut saved = Vec::new();
        self.cfa = 8;
        if random.chance(5) {
            self.x86_call(random);
        }
        let hole = if random.chance(10) { random.below(order.len() as u64 + 1) as usize } else { usize::MAX };
        for (place, register) in order.iter().enumerate() {
            if place == hole {
                self.x86_push(0);
                self.obstacles.push("saved-place");
            }
            self.x86_push(*register);
            saved.push((*register, self.cfa));
            if !saves_late {
                self.offset(*register, self.cfa);
            }
            self.x86_others(random, 1);
        }
        if random.chance(20) {
            self.x86_push(0);
        }
        let size = match random.below(4) {
            0 => 0,
            1 => 8 * random.below(16),
            2 => 8 * random.below(200),
            _ => 8 * random.below(100_000),
        };
        let in_code = random.chance(80);
        self.x86_sub(size, in_code);
        // The encoding has three bits for the words of stack beside the immediate.
        let encodable = size > 127 && in_code && self.cfa - size <= 7 * 8;
        if self.cfa > 2040 && !encodable {
            self.obstacles.push("stack-size-in-code");
        }
        if saves_late {
            saved.iter().for_each(|(register, cfa)| self.offset(*register, *cfa));
        }
        if random.chance(5) {
            self.offset(2, self.cfa);
            self.obstacles.push("saved-register");
        }
        let body = self.cfa;
        if body == 8 {
            // Without a prologue, no call can be in it.
            self.obstacles.retain(|obstacle| *obstacle != "call-outside-body");
        }
        self.x86_body(random);
        for _ in 0..random.below(3) {
            if random.chance(5) {
                // Push an argument for a call.
                self.x86_push(0);
                self.x86_call(random);
                self.code.extend([0x58]);
                self.cfa_offset(self.cfa - 8);
                // A body that includes the argument can be checked only if a `sub` ends the prologue.
                self.obstacles.extend(["not-a-step", "stack-size-in-code"]);
            }
            self.cfi.push(0x0a);
            if size != 0 {
                self.code.extend([0x48, 0x81, 0xc4]);
                self.code.extend((size as u32).to_le_bytes());
                self.cfa_offset(self.cfa - size);
            }
            let is_merged = random.chance(10);
            while self.cfa > if is_merged { 16 } else { 8 } {
                self.x86_others(random, 1);
                self.code.push(0x58);
                self.cfa_offset(self.cfa - 8);
            }
            // The end of the epilogue is in another epilogue, which a jump leads to.
            self.code.extend(if is_merged { &[0xeb, 0][..] } else { &[0xc3] });
            self.advance();
            self.cfi.push(0x0b);
            self.cfa = body;
            self.x86_body(random);
        }
    }

    fn x86_with_frame(&mut self, random: &mut Random) {
        let mut others = X86_SAVED[..5].to_vec();
        shuffle(random, &mut others);
        others.truncate(random.below(6) as usize);
        self.cfa = 8;
        self.x86_push(6);
        self.offset(6, 16);
        self.code.extend([0x48, 0x89, 0xe5]);
        self.advance();
        self.cfi.extend([0x0d, 6]);
        // Slots below the frame pointer: the first anywhere, the others among the four above it.
        let lowest = if random.chance(10) { 250 + random.below(20) } else { 5 + random.below(100) };
        for (place, register) in others.iter().enumerate() {
            let words = lowest - place as u64;
            self.code.extend(X86_OTHERS[1]);
            self.advance();
            self.offset(*register, 16 + 8 * words);
            if words > 255 {
                self.obstacles.push("saved-place");
            }
        }
        if random.chance(5) && others.len() > 1 {
            // This slot is not among the five.
            self.offset(others[0], 16 + 8 * (lowest + 5));
            self.obstacles.extend(["saved-place", "not-a-step"]);
        }
        self.x86_body(random);
        for _ in 0..random.below(3) {
            self.cfi.push(0x0a);
            self.code.push(0xc9);
            self.advance();
            self.cfi.extend([0x0c, 7, 8]);
            if random.chance(5) {
                self.x86_call(random);
            }
            self.code.push(0xc3);
            self.advance();
            self.cfi.push(0x0b);
            self.x86_body(random);
        }
    }

    /// Writes a `push`, and the CFA after it.
    fn x86_push(&mut self, register: u8) {
        if register >= 8 {
            self.code.push(0x41);
        }
        // DWARF numbers rdx and rcx, and rsi to rsp, in another order than instructions.
        let number = [0, 2, 1, 3, 6, 7, 5, 4].get(usize::from(register)).copied();
        self.code.push(0x50 | number.unwrap_or(register & 7));
        self.cfa_offset(self.cfa + 8);
    }

    /// Writes `sub rsp, size`, or `sub rsp, rax`.
    fn x86_sub(&mut self, size: u64, in_code: bool) {
        if size == 0 {
            return;
        }
        match (in_code, u8::try_from(size)) {
            (false, _) => self.code.extend([0x48, 0x29, 0xc4]),
            (true, Ok(small @ ..=127)) => self.code.extend([0x48, 0x83, 0xec, small]),
            (true, _) => {
                self.code.extend([0x48, 0x81, 0xec]);
                self.code.extend((size as u32).to_le_bytes());
            }
        }
        self.cfa_offset(self.cfa + size);
    }

    /// Writes a call at a place where the frame is not the body's.
    fn x86_call(&mut self, random: &mut Random) {
        self.code.extend(random.pick(&X86_CALLS));
        self.obstacles.push("call-outside-body");
    }

    fn x86_others(&mut self, random: &mut Random, at_most: u64) {
        for _ in 0..random.below(at_most + 1) {
            self.code.extend(random.pick(&X86_OTHERS));
        }
    }

    fn x86_body(&mut self, random: &mut Random) {
        self.x86_others(random, 10);
        self.code.extend(random.pick(&X86_CALLS));
        self.x86_others(random, 10);
    }

    /// Advances the CFI to the end of the code.
    fn advance(&mut self) {
        match self.code.len() - self.location {
            0 => {}
            delta @ 1..0x40 => self.cfi.push(0x40 | delta as u8),
            delta => {
                self.cfi.push(0x03);
                self.cfi.extend((delta as u16).to_le_bytes());
            }
        }
        self.location = self.code.len();
    }

    fn cfa_offset(&mut self, offset: u64) {
        self.advance();
        self.cfa = offset;
        self.cfi.push(0x0e);
        leb128::unsigned(&mut self.cfi, offset);
    }

    /// Writes that a register is saved so many bytes below the CFA.
    fn offset(&mut self, register: u8, below: u64) {
        if register < 0x40 {
            self.cfi.push(0x80 | register);
        } else {
            self.cfi.extend([0x05, register]);
        }
        leb128::unsigned(&mut self.cfi, below / 8);
    }

    fn eh_frame(&self, arch: Arch) -> Vec<u8> {
        let initial: &[u8] = match arch {
            Arch::Amd64 => &[0x0c, 7, 8, 0x90, 1],
            _ => &[0x0c, 31, 0],
        };
        let mut section = write::Writer::new(SectionKind::EhFrame, arch, Function::SECTION);
        section.alignment = 8;
        let cie = section.cie(&Cie::new(arch, initial).with_alignment(1, -8)).unwrap();
        let size = self.code.len() as u64;
        section.fde(&cie, Address(Function::START), size, None, &self.cfi).unwrap();
        section.terminator();
        section.into_bytes()
    }
}

fn shuffle(random: &mut Random, items: &mut [u8]) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}
