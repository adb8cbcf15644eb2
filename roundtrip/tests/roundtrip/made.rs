//! CFI and tables made by hand, byte by byte, from the layouts in the specifications.

use cfipack_format::cfi::{Section, SectionKind};
use cfipack_format::{Address, Arch, Endian};

/// Where the CFI is said to lie.
pub const CFI_ADDRESS: Address = Address(0x80_0000);
/// Where the table is said to lie.
pub const TABLE_ADDRESS: Address = Address(0x90_0000);

/// A section of CFI in the making.
pub struct Cfi {
    arch: Arch,
    kind: SectionKind,
    bytes: Vec<u8>,
}

impl Cfi {
    pub fn new(arch: Arch, kind: SectionKind) -> Self {
        Self { arch, kind, bytes: Vec::new() }
    }

    /// What x86-64 compilers write: `zR` with absolute pointers, CFA = rsp+8, RA at CFA-8.
    pub fn amd64() -> (Self, usize) {
        let mut cfi = Self::new(Arch::Amd64, SectionKind::EhFrame);
        let cie = cfi.cie(b"zR", &[1, 0], &[0x0c, 7, 8, 0x90, 1]);
        (cfi, cie)
    }

    pub fn section(&self) -> Section<'_> {
        Section::new(self.kind, &self.bytes, CFI_ADDRESS, self.arch)
    }

    fn endian(&self) -> Endian {
        self.arch.endian()
    }

    fn record(&mut self, id: u32, body: &[u8]) -> usize {
        let start = self.bytes.len();
        let length = self.endian().put_u32(4 + body.len() as u32);
        self.bytes.extend(length);
        self.bytes.extend(self.endian().put_u32(id));
        self.bytes.extend(body);
        start
    }

    /// A CIE of version 1 with code alignment 1, data alignment -8 and the architecture's return column.
    /// `data` stands behind the return column: augmentation data with its length.
    pub fn cie(&mut self, augmentation: &[u8], data: &[u8], instructions: &[u8]) -> usize {
        let mut body = vec![1];
        body.extend(augmentation);
        body.push(0);
        if augmentation == b"eh" {
            body.extend([0xee; 8]);
        }
        body.extend([1, 0x78, self.arch.return_address().0 as u8]);
        body.extend(data);
        body.extend(instructions);
        self.record(if self.kind == SectionKind::EhFrame { 0 } else { u32::MAX }, &body)
    }

    /// An FDE of a CIE with absolute pointers; with `data` empty one without augmentation data.
    pub fn fde_with(&mut self, cie: usize, start: u64, size: u64, data: &[u8], instructions: &[u8]) {
        let mut body = Vec::new();
        body.extend(self.endian().put_u64(start));
        body.extend(self.endian().put_u64(size));
        body.extend(data);
        body.extend(instructions);
        let pointer = match self.kind {
            SectionKind::EhFrame => self.bytes.len() + 4 - cie,
            SectionKind::DebugFrame => cie,
        };
        self.record(pointer as u32, &body);
    }

    /// An FDE of a CIE with augmentation `z`.
    pub fn fde(&mut self, cie: usize, start: u64, size: u64, instructions: &[u8]) {
        self.fde_with(cie, start, size, &[0], instructions);
    }

    pub fn terminator(&mut self) {
        self.bytes.extend([0; 4]);
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }
}

/// A function of a table in the making.
#[derive(Clone)]
pub struct Made {
    pub start: u64,
    pub size: u32,
    pub info: u8,
    pub flex: bool,
    pub rep_size: u8,
    /// Start, info byte, data words of one byte.
    pub rows: Vec<(u8, u8, Vec<u8>)>,
}

/// Info bytes of rows with 1-byte words: based on SP, based on FP, flex with so many words.
pub const SP1: u8 = 0x03;
pub const SP2: u8 = 0x05;
pub const FP2: u8 = 0x04;
pub fn flex(words: u8) -> u8 {
    words << 1
}

impl Made {
    pub fn new(start: u64, size: u32, rows: &[(u8, u8, &[u8])]) -> Self {
        let rows = rows.iter().map(|&(start, info, words)| (start, info, words.to_vec())).collect();
        Self { start, size, info: 0, flex: false, rep_size: 0, rows }
    }
}

/// A version 3 table: sorted, starts relative to their fields.
pub fn table(arch: Arch, functions: &[Made]) -> Vec<u8> {
    let mut functions = functions.to_vec();
    functions.sort_by_key(|function| function.start);
    table_at(TABLE_ADDRESS, arch, SORTED, &functions)
}

/// What the header says of the index.
pub const SORTED: u8 = 1;
pub const UNSORTED: u8 = 0;

/// The same elsewhere, with the functions in this order, which the header says is sorted or not.
pub fn table_at(address: Address, arch: Arch, sorted: u8, functions: &[Made]) -> Vec<u8> {
    let endian = arch.endian();
    let (abi, fixed_ra) = match arch {
        Arch::Amd64 => (3, -8i8),
        Arch::Aarch64 => (2, 0),
        Arch::Aarch64Be => (1, 0),
        _ => (4, 0),
    };
    let (mut index, mut fres) = (Vec::new(), Vec::new());
    for function in functions {
        let field = address.0 + 28 + index.len() as u64;
        index.extend(endian.put_u64(function.start.wrapping_sub(field)));
        index.extend(endian.put_u32(function.size));
        index.extend(endian.put_u32(fres.len() as u32));
        fres.extend(endian.put_u16(function.rows.len() as u16));
        fres.extend([function.info, function.flex as u8, function.rep_size]);
        for (start, info, words) in &function.rows {
            fres.extend([*start, *info]);
            fres.extend(words);
        }
    }
    let mut bytes = endian.put_u16(0xdee2).to_vec();
    bytes.extend([3, 4 | sorted, abi, 0, fixed_ra as u8, 0]);
    let rows: usize = functions.iter().map(|function| function.rows.len()).sum();
    for word in [functions.len(), rows, fres.len(), 0, index.len()] {
        bytes.extend(endian.put_u32(word as u32));
    }
    bytes.extend(index);
    bytes.extend(fres);
    bytes
}
