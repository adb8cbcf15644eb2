//! Writes a random function.

use std::fmt::Write;

use cfipack_format::Arch;
use cfipack_testkit::random::Random;

use super::state::{Base, Here, Place, State};
use super::{Mode, Target};

pub(super) struct Writer<'r> {
    random: &'r mut Random,
    target: Target,
    mode: Mode,
    text: String,
    state: State,
    remembered: Vec<State>,
    here: Here,
    /// Bytes of code so far.
    at: u64,
    /// True if directives precede the first instruction. gas moves them into a CIE, so `restore` goes back to their rules.
    starts_with_directives: bool,
}

impl<'r> Writer<'r> {
    /// Writes the text of a function.
    pub(super) fn function(random: &'r mut Random, target: Target, mode: Mode, number: usize) -> String {
        let offset = if target.arch == Arch::Amd64 { 8 } else { -target.arch.stack_pointer_from_cfa() };
        let state =
            State { base: Base::Register, offset, frame_pointer: Place::Entry, return_address: Place::Entry };
        let mut writer = Self {
            random,
            target,
            mode,
            text: String::new(),
            state,
            remembered: Vec::new(),
            here: Here::default(),
            at: 0,
            starts_with_directives: false,
        };
        writer.header(number);
        writer.body();
        writer.text.push_str("\t.cfi_endproc\n");
        writer.text
    }

    fn emit(&mut self, directive: std::fmt::Arguments<'_>) {
        writeln!(self.text, "\t.cfi_{directive}").expect("a String takes everything");
        self.here.anything = true;
        self.starts_with_directives |= self.at == 0;
    }

    fn header(&mut self, number: usize) {
        let section = match self.random.below(12) {
            0 => ".text.unlikely,\"ax\",@progbits".into(),
            1 => format!(".text.f{number},\"axG\",@progbits,f{number},comdat"),
            2 => format!(".text.s{number},\"ax\",@progbits"),
            _ => ".text".to_string(),
        };
        let alignment = if self.mode == Mode::Directives { "\t.p2align 4\n" } else { "" };
        write!(self.text, "\t.section {section}\n{alignment}\t.type f{number},@function\nf{number}:\n")
            .expect("a String takes everything");
        let simple = self.random.chance(3);
        self.text.push_str(if simple { "\t.cfi_startproc simple\n" } else { "\t.cfi_startproc\n" });
        if self.random.chance(6) {
            let encoding = self.random.pick(&["0x3", "0x1b", "0x9b"]);
            writeln!(self.text, "\t.cfi_personality {encoding},__gxx_personality_v0").unwrap();
            if self.random.chance(50) {
                writeln!(self.text, "\t.cfi_lsda 0x1b,lsda").unwrap();
            }
        }
        if self.random.chance(4) {
            self.text.push_str("\t.cfi_signal_frame\n");
        }
        if self.target.arch.is_aarch64() && self.random.chance(10) {
            self.text.push_str("\t.cfi_b_key_frame\n");
        }
        if self.random.chance(1) {
            let other = self.target.callee_saved[0];
            writeln!(self.text, "\t.cfi_return_column {other}").unwrap();
        }
        if simple {
            let stack_pointer = self.target.arch.stack_pointer().0;
            self.state.offset = self.cfa_offset();
            let offset = self.state.offset;
            self.emit(format_args!("def_cfa {stack_pointer},{offset}"));
        } else if self.random.chance(8) {
            self.directive();
        }
    }

    /// Writes code and directives by turns. The code ends near a size where a wider field is needed.
    fn body(&mut self) {
        let unit = self.target.unit;
        for _ in 0..self.random.pick(&[0, 1, 2, 4, 8, 16, 32]) {
            let longest = self.random.pick(&[1, 2, 8, 300]);
            let instructions = 1 + self.random.below(longest);
            self.code(instructions * unit);
            for _ in 0..self.random.pick(&[1, 1, 1, 2, 3]) {
                if self.mode == Mode::Directives && self.random.chance(20) {
                    self.align();
                }
                self.directive();
            }
        }
        if self.clean() && self.random.chance(3) {
            // A directive at the function's end has a row without a PC. Wild functions lack it, because nothing could
            // show that the row is wrong.
            return;
        }
        let border = self.random.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 254, 255, 256, 257, 65535, 65536, 65537]);
        let missing = (border / unit * unit).saturating_sub(self.at);
        self.code(missing.max(unit));
    }

    /// Writes an alignment, which often adds no byte.
    fn align(&mut self) {
        let power = self.random.pick(&[0, 2, 2, 3, 4]);
        let alignment = 1 << power;
        let end = self.at.next_multiple_of(alignment);
        writeln!(self.text, "\t.p2align {power}").expect("a String takes everything");
        if power != 0 {
            (self.at, self.here) = (end, Here::default());
        }
    }

    fn code(&mut self, bytes: u64) {
        writeln!(self.text, "\t.skip {bytes}").expect("a String takes everything");
        self.at += bytes;
        self.here = Here::default();
    }

    fn clean(&self) -> bool {
        self.mode != Mode::Wild
    }

    fn cfa_offset(&mut self) -> i64 {
        let limit = self.random.pick(&[64, 64, 64, 256, 1024, 70_000, 0x4000_0000]);
        let multiple =
            if self.target.arch == Arch::S390x && self.clean() { 8 } else { self.random.pick(&[8, 8, 8, 1]) };
        let offset = self.random.between(0, limit) / multiple * multiple;
        // gas divides negative offsets by the data alignment and drops the remainder.
        let offset = if self.random.chance(3) { self.random.pick(&[-8, -1024]) } else { offset };
        offset - self.target.arch.stack_pointer_from_cfa()
    }

    fn slot(&mut self) -> i64 {
        let limit = self.random.pick(&[8, 8, 8, 17, 20, 4097, 5000]);
        -8 * self.random.between(1, limit)
    }

    fn directive(&mut self) {
        let choice = self.random.below(100);
        match choice {
            0..30 => self.move_cfa(choice),
            30..40 => self.save_pair(),
            40..55 => self.save_one(),
            55..65 => self.restore(),
            65..69 => self.undefine(),
            69..77 => self.remember(),
            77..85 => self.recall(),
            85..91 => self.sign(),
            91..97 => self.flex(),
            97..99 => self.escape(),
            _ if self.mode == Mode::Directives => self.escape(),
            _ => self.unusual(),
        }
    }

    fn move_cfa(&mut self, choice: u64) {
        let arch = self.target.arch;
        let offset = self.cfa_offset();
        let pointer = self.random.pick(&[arch.stack_pointer(), arch.frame_pointer()]).0;
        match (self.state.base, choice) {
            (Base::Register, 0..12) => self.emit(format_args!("def_cfa_offset {offset}")),
            (Base::Register, 12..18) => {
                let by = offset - self.state.offset;
                self.emit(format_args!("adjust_cfa_offset {by}"));
            }
            (Base::Register, 18..25) => {
                // gas takes the offset of the previous row, not of the previous directive.
                if self.clean() && (self.here.cfa || self.at == 0) {
                    return;
                }
                self.emit(format_args!("def_cfa_register {pointer}"));
                self.here.cfa = true;
                return;
            }
            _ => {
                self.emit(format_args!("def_cfa {pointer},{offset}"));
                self.state.base = Base::Register;
            }
        }
        self.state.offset = offset;
        self.here.cfa = true;
    }

    /// Saves the return address, then the frame pointer. In the other order gas drops an AArch64 function.
    fn save_pair(&mut self) {
        if self.target.arch != Arch::Amd64 {
            self.save_return_address();
        }
        self.save_frame_pointer();
    }

    fn save_frame_pointer(&mut self) {
        let (frame_pointer, slot) = (self.target.arch.frame_pointer().0, self.slot());
        if self.random.chance(20) && self.state.base == Base::Register {
            let from_pointer = slot + self.state.offset;
            self.emit(format_args!("rel_offset {frame_pointer},{from_pointer}"));
        } else {
            self.emit(format_args!("offset {frame_pointer},{slot}"));
        }
        self.state.frame_pointer = Place::Stack;
    }

    fn save_return_address(&mut self) {
        let amd64 = self.target.arch == Arch::Amd64;
        // In gas's table on amd64, an undefined return address stays undefined.
        if amd64 && self.clean() && self.state.return_address == Place::Undefined {
            return;
        }
        let slot = match (amd64, self.random.chance(60)) {
            (true, true) => -8,
            // gas's words are too narrow for other offsets.
            (true, false) if self.clean() => -8 * self.random.between(2, 16),
            _ => self.slot(),
        };
        let return_address = self.target.arch.return_address().0;
        self.emit(format_args!("offset {return_address},{slot}"));
        self.state.return_address = Place::Stack;
    }

    fn save_one(&mut self) {
        match self.random.below(5) {
            0 => self.save_frame_pointer(),
            1 => self.save_return_address(),
            _ => {
                let (register, slot) = (self.random.pick(self.target.callee_saved), self.slot());
                self.emit(format_args!("offset {register},{slot}"));
            }
        }
    }

    fn restore(&mut self) {
        // gas moves it into the CIE. We can judge that only if no directive precedes it.
        if !self.clean() && self.at == 0 && self.here.anything {
            return;
        }
        let arch = self.target.arch;
        let verb = self.random.pick(&["restore", "restore", "restore", "same_value"]);
        match self.random.below(4) {
            0 | 1 => {
                // gas restores the place but not the register, and takes the first row instead of the CIE.
                let wrong = self.starts_with_directives || self.state.frame_pointer == Place::Elsewhere;
                if self.clean() && wrong {
                    return;
                }
                self.emit(format_args!("{verb} {}", arch.frame_pointer().0));
                self.state.frame_pointer = Place::Entry;
            }
            2 => {
                // A CIE of amd64 has a rule that the function can return to.
                if self.at == 0 && arch == Arch::Amd64 {
                    return;
                }
                // gas ignores it on amd64.
                let wrong = self.starts_with_directives
                    || self.state.return_address == Place::Elsewhere
                    || arch == Arch::Amd64
                        && (self.state.return_address != Place::Entry || verb == "same_value");
                if self.clean() && wrong {
                    return;
                }
                self.emit(format_args!("{verb} {}", arch.return_address().0));
                self.state.return_address = Place::Entry;
            }
            _ => {
                let register = self.random.pick(self.target.callee_saved);
                self.emit(format_args!("{verb} {register}"));
            }
        }
    }

    fn undefine(&mut self) {
        if self.random.chance(40) {
            self.emit(format_args!("undefined {}", self.target.arch.return_address().0));
            self.state.return_address = Place::Undefined;
        } else {
            let register = self.random.pick(self.target.callee_saved);
            self.emit(format_args!("undefined {register}"));
        }
    }

    fn remember(&mut self) {
        // gas remembers only one state.
        if self.clean() && !self.remembered.is_empty() {
            return;
        }
        self.emit(format_args!("remember_state"));
        self.remembered.push(self.state);
    }

    fn recall(&mut self) {
        // No other directive may be at its place.
        if self.here.anything || self.at == 0 {
            return;
        }
        let Some(state) = self.remembered.pop() else { return };
        self.emit(format_args!("restore_state"));
        self.state = state;
        self.here.cfa = true;
    }

    fn sign(&mut self) {
        if !self.target.arch.is_aarch64() {
            return self.move_cfa(0);
        }
        let verb = self.random.pick(&["negate_ra_state", "negate_ra_state", "window_save"]);
        self.emit(format_args!("{verb}"));
    }

    /// Adds a directive that needs a flex FDE.
    fn flex(&mut self) {
        let arch = self.target.arch;
        if arch.is_aarch64() && self.random.chance(90) {
            return self.save_pair(); // gas has no flex FDEs there and drops the function
        }
        let register = self.random.pick(self.target.scratch);
        match self.random.below(4) {
            0 | 1 => {
                let offset = self.cfa_offset();
                self.emit(format_args!("def_cfa {register},{offset}"));
                self.state = State { base: Base::Register, offset, ..self.state };
                self.here.cfa = true;
            }
            2 => {
                self.emit(format_args!("register {},{register}", arch.frame_pointer().0));
                self.state.frame_pointer = Place::Elsewhere;
            }
            _ => {
                self.emit(format_args!("register {},{register}", arch.return_address().0));
                self.state.return_address = Place::Elsewhere;
            }
        }
    }

    fn escape(&mut self) {
        let offset = self.random.between(0, 63);
        if self.mode == Mode::Directives && self.random.chance(40) {
            let other = self.target.callee_saved[0];
            return match self.random.below(8) {
                0 => self.emit(format_args!("escape 0x2e,uleb128({offset})")),
                1 => self.emit(format_args!("escape 0,0x2e,{offset}")),
                2 => self.emit(format_args!("escape 0x2e,0x80,1")),
                3 => self.emit(format_args!("escape 0x10,{other},2,0x76,sleb128({offset})")),
                4 => self.emit(format_args!("escape 0x10,{other},uleb128(2),0x76,{offset}")),
                5 => self.emit(format_args!("escape 0x14,{other},{offset}")),
                6 => self.emit(format_args!("escape 0x07,{other}")),
                _ => {
                    let number = self.random.below(u64::MAX);
                    self.emit(format_args!("label l{number}"));
                }
            };
        }
        match self.random.below(5) {
            0 => self.emit(format_args!("escape 0")),
            1 => self.emit(format_args!("escape 0x2e,{offset}")),
            2 => self.emit(format_args!("escape 0x10,{},2,0x76,{offset}", self.target.callee_saved[0])),
            3 if self.target.arch == Arch::Amd64 => {
                self.emit(format_args!("escape 0x10,6,2,0x76,{offset}"));
                self.state.frame_pointer = Place::Elsewhere;
            }
            _ if self.target.arch == Arch::Amd64 => {
                self.emit(format_args!("escape 0xf,3,0x76,{offset},6"));
                self.state.base = Base::Expression;
                self.here.cfa = true;
            }
            _ => {}
        }
    }

    /// Adds a directive for which gas drops the function, or that needs care.
    fn unusual(&mut self) {
        let arch = self.target.arch;
        let [stack, frame, link] = [arch.stack_pointer().0, arch.frame_pointer().0, arch.return_address().0];
        match self.random.below(8) {
            0 => self.emit(format_args!("undefined {frame}")),
            1 => self.emit(format_args!("undefined {stack}")),
            2 => self.emit(format_args!("val_offset {frame},-16")),
            3 => self.emit(format_args!("val_offset {stack},{}", arch.stack_pointer_from_cfa())),
            4 if arch != Arch::S390x => {
                self.emit(format_args!("register {stack},{}", self.target.scratch[0]))
            }
            5 if arch != Arch::Amd64 => self.emit(format_args!("val_offset {link},-8")),
            6 => self.emit(format_args!("val_offset {},-16", self.target.callee_saved[1])),
            7 if !self.clean() => self.emit(format_args!("same_value {stack}")),
            _ => {}
        }
    }
}
