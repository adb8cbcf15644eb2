//! Makes code of functions for x86-64, with rows to compare it with.

use cfipack_code::{Analysis, Code as FunctionCode, Instructions, Judge, Memory, Rows, State, Ways};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

use super::{Input, Shape};

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Code {
    bytes: Vec<u8>,
    /// Rows: the start, the distance from rsp to the CFA, and the slot of rbx if it is saved.
    rows: Vec<(u32, i64, Option<i64>)>,
    /// The bytes of a jump table at [`TABLE`].
    table: Vec<u8>,
}

/// The addresses of the function and of its jump table.
const START: u64 = 0x10_0000;
const TABLE: u32 = 0x1000;

/// Pieces of code for each part. Code that is followed again and again must be long.
const PIECES: usize = 16;

/// Bytes of CFI for a row: an advance, and a restored state.
const ROW: usize = 3;

/// Shapes whose cost must grow no faster than their size.
pub const CODE: &[Shape] = &[
    ("branches to one long wrong range", |n| {
        let n = PIECES * n;
        let target = 6 * n as u32;
        let mut code = Code::default();
        for index in 0..n as u32 {
            code.branch(target - 6 * index - 6);
        }
        code.nops(6 * n).with_row(target, 16, None).end()
    }),
    ("rows between instructions that do nothing", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        code.nops(n);
        for index in 1..n as u32 {
            code.rows.push((index, 8, (index % 2 == 0).then_some(-16)));
        }
        code.end()
    }),
    ("wrong rows after calls", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        for index in 0..n as u32 {
            code.bytes.extend([0xe8, 0, 1, 0, 0, 0x90]);
            code.rows.push((6 * index + 6, 8 + 8 * i64::from(index % 5), None));
        }
        code.end()
    }),
    ("branches to calls, with slots", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        // push rbx, rbp, r12 to r15, eight times over.
        for _ in 0..8 {
            code.bytes.extend([0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57]);
        }
        for _ in 0..n {
            code.branch(5);
            code.bytes.extend([0xe8, 0, 1, 0, 0]);
        }
        code.end()
    }),
    ("two frames at every branch, and padding after a call", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        let target = 7 * n as u32 + 5 + 4 * n as u32;
        for index in 0..n as u32 {
            code.bytes.push(0x50);
            code.branch(target - 7 * index - 7);
        }
        code.bytes.extend([0xe8, 0, 1, 0, 0]);
        code.nops(4 * n).end()
    }),
    ("aligned frames under rows, and ways out with each", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        for index in 0..n as u32 {
            // and rsp, -16; je far out of the function
            code.bytes.extend([0x48, 0x83, 0xe4, 0xf0]);
            code.branch(1 << 24);
            code.rows.push((10 * index + 4, 8 + 8 * i64::from(index % 3), None));
        }
        code.end()
    }),
    ("a long block before a table of jumps out of the function", |n| {
        let n = PIECES * n;
        let mut code = Code::default();
        // cmp eax, n; ja to the end
        code.bytes.extend([0x3d]);
        code.bytes.extend((n as u32 - 1).to_le_bytes());
        code.bytes.extend([0x0f, 0x87]);
        code.bytes.extend((4 * n as u32 + 7).to_le_bytes());
        code.nops(4 * n);
        // jmp [8 * rax + TABLE]
        code.bytes.extend([0xff, 0x24, 0xc5]);
        code.bytes.extend(TABLE.to_le_bytes());
        code.table.extend((0..n as u64).flat_map(|index| match index {
            0 => (START + 11).to_le_bytes(),
            index => (START / 2 + index).to_le_bytes(),
        }));
        code.end()
    }),
];

/// Instructions of which a long function consists, with their names, and the most bytes of memory for each byte of code.
pub const LONG: &[(&str, Arch, &[u8], usize)] = &[
    ("nop", Arch::Amd64, &[0x90], 2),
    ("int3", Arch::Amd64, &[0xcc], 2),
    ("xor ecx, eax", Arch::Amd64, &[0x31, 0xc1], 2),
    ("mov [rdi], eax", Arch::Amd64, &[0x89, 0x07], 2),
    // Each instruction changes whether the row is right.
    ("push rax; pop rax", Arch::Amd64, &[0x50, 0x58], 3),
    // Each iteration has a store and a branch back to the iteration before.
    ("loops", Arch::Amd64, &[0x83, 0xc2, 0x01, 0x39, 0xca, 0x48, 0x89, 0x54, 0x24, 0x08, 0x75, 0xe8], 10),
    ("blocks", Arch::Amd64, &[0x39, 0xca, 0x75, 0x00], 20),
    ("blocks with other states", Arch::Amd64, &[0x50, 0x75, 0x00], 20),
    ("call", Arch::Amd64, &[0xe8, 0, 0, 0x20, 0], 20),
    ("nop of AArch64", Arch::Aarch64, &[0x1f, 0x20, 0x03, 0xd5], 2),
    ("ldr x0, [x1]", Arch::Aarch64, &[0x20, 0x00, 0x40, 0xf9], 2),
    ("bl", Arch::Aarch64, &[0x00, 0x00, 0x10, 0x94], 20),
];

/// Follows a long function, and compares it with the row of its entry.
pub fn follow_long(arch: Arch, bytes: &[u8]) {
    let code = FunctionCode { arch, start: Address(START), bytes, relocated: &[] };
    let (mut instructions, mut rows) = (Instructions::default(), Rows::new());
    instructions.decode(&code);
    rows.push(Row::at_entry(arch), &[]);
    let entry = State::at_entry(arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, &cfipack_code::NoMemory, ways);
    let judgement = Judge::new(&analysis, &rows, arch.red_zone()).judge();
    std::hint::black_box(judgement.unconfirmed_calls(&analysis, false).len());
}

impl Code {
    /// Appends a `je` that jumps over `distance` bytes.
    fn branch(&mut self, distance: u32) {
        self.bytes.extend([0x0f, 0x84]);
        self.bytes.extend(distance.to_le_bytes());
    }

    fn nops(&mut self, count: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, 0x90);
        self
    }

    fn with_row(&mut self, start: u32, cfa: i64, rbx: Option<i64>) -> &mut Self {
        self.rows.push((start, cfa, rbx));
        self
    }

    fn end(&mut self) -> Input {
        self.bytes.push(0xc3);
        Input::Code(std::mem::take(self))
    }

    /// Returns the bytes of code, of CFI for the rows, and of the table.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() + ROW * self.rows.len() + self.table.len()
    }

    /// Follows the code, compares it with the rows, and makes rows of it.
    pub(super) fn work(&self) {
        let arch = Arch::Amd64;
        let code = FunctionCode { arch, start: Address(START), bytes: &self.bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(arch);
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, self, ways);
        let judgement = Judge::new(&analysis, &self.rows(), arch.red_zone()).judge();
        let unconfirmed = judgement.unconfirmed_calls(&analysis, false).len();
        let mut exits = 0;
        analysis.for_each_exit(|_, _| exits += 1);
        std::hint::black_box((
            unconfirmed,
            exits,
            analysis.synthesize().is_ok(),
            analysis.describe().is_ok(),
        ));
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        for (start, cfa, rbx) in [(0, 8, None)].iter().chain(&self.rows) {
            let row = Row {
                start: FunctionOffset(*start),
                cfa: Cfa::Register { register: Register(7), offset: *cfa },
                return_address: Rule::Cfa(-8),
                frame_pointer: Rule::SameValue,
                signed: false,
            };
            let saved = rbx.map(|offset| (Register(3), Rule::Cfa(offset)));
            rows.push(row, saved.as_slice());
        }
        rows
    }
}

impl Memory for Code {
    fn at(&self, address: Address) -> &[u8] {
        let offset = address.0.checked_sub(TABLE.into()).and_then(|offset| usize::try_from(offset).ok());
        offset.and_then(|offset| self.table.get(offset..)).unwrap_or_default()
    }
}
