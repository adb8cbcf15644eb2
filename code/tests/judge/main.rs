//! Small functions with right and wrong rows. GNU as has assembled the functions.

use cfipack_code::{
    Analysis, CallSite, Code, Instructions, Judge, Judgement, Kind, NoMemory, Rows, State, Ways,
};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

mod calls;
mod frames;
mod joins;
mod outermost;
mod registers;

const START: Address = Address(0x1000);
const RBX: Register = Register(3);
const RBP: Register = Register(6);
const RSP: Register = Register(7);
const X29: Register = Register(29);
const X30: Register = Register(30);
const SP: Register = Register(31);

/// push rbx; xor ebx, ebx; call rdi; pop rbx; ret
const SAVES_RBX: [u8; 7] = [0x53, 0x31, 0xdb, 0xff, 0xd7, 0x5b, 0xc3];

/// A row: its offset, the register and the offset of the CFA, and the rules of saved registers.
type Described<'d> = (u32, (Register, i64), &'d [(Register, Rule)]);

/// A function with its rows.
struct Function<'f> {
    arch: Arch,
    bytes: &'f [u8],
    /// The offsets of a call and of its landing pad.
    pad: Option<(u32, u32)>,
    /// The stack pointer at the landing pad, in bytes from the CFA.
    stack: Option<i32>,
    red_zone: u32,
}

impl<'f> Function<'f> {
    fn new(arch: Arch, bytes: &'f [u8]) -> Self {
        Self { arch, bytes, pad: None, stack: None, red_zone: arch.red_zone() }
    }

    fn judged(&self, described: &[Described<'_>]) -> Judgement {
        self.with_judge(described, |judge| judge.judge())
    }

    fn with_judge<R>(&self, described: &[Described<'_>], look: impl FnOnce(&Judge<'_, '_>) -> R) -> R {
        self.with_rows(described, |_| {}, look)
    }

    /// Judges the rows after `change` has changed them.
    fn with_rows<R>(
        &self,
        described: &[Described<'_>],
        change: impl FnOnce(&mut Rows),
        look: impl FnOnce(&Judge<'_, '_>) -> R,
    ) -> R {
        self.with_analysis(described, change, |_, judge| look(judge))
    }

    fn with_analysis<R>(
        &self,
        described: &[Described<'_>],
        change: impl FnOnce(&mut Rows),
        look: impl FnOnce(&Analysis<'_>, &Judge<'_, '_>) -> R,
    ) -> R {
        let mut rows = Rows::new();
        for (start, (register, offset), rules) in described {
            let of = |register: Register, other| {
                rules.iter().find(|rule| rule.0 == register).map_or(other, |rule| rule.1)
            };
            let entry = Row::at_entry(self.arch);
            let row = Row {
                start: FunctionOffset(*start),
                cfa: Cfa::Register { register: *register, offset: *offset },
                return_address: of(self.arch.return_address(), entry.return_address),
                frame_pointer: of(self.arch.frame_pointer(), entry.frame_pointer),
                ..entry
            };
            let named = [self.arch.return_address(), self.arch.frame_pointer()];
            let saved: Vec<_> = rules.iter().filter(|rule| !named.contains(&rule.0)).copied().collect();
            rows.push(row, &saved);
        }
        change(&mut rows);
        let code = Code { arch: self.arch, start: START, bytes: self.bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(self.arch);
        let site = self.pad.map(|(call, pad)| CallSite {
            start: call,
            end: call + 1,
            landing_pad: START.offset(pad.into()),
            stack: self.stack,
        });
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: site.as_slice(), noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &NoMemory, ways);
        look(&analysis, &Judge::new(&analysis, &rows, self.red_zone))
    }

    /// Returns the kinds of the findings with the offsets where the wrong rows start.
    fn found(&self, described: &[Described<'_>]) -> Vec<(Kind, u32)> {
        let findings = self.judged(described).findings.into_iter().filter(|finding| !finding.continues);
        findings.map(|finding| (finding.kind, finding.wrong.0)).collect()
    }
}
