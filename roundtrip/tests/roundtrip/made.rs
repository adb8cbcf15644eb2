//! Makes CFI with instructions and augmentation data given by hand, and tables byte by byte, by the layouts in the
//! specifications.

use cfipack_cfi::PointerEncoding;
use cfipack_cfi::write::{Cie, Writer, WrittenCie};
use cfipack_format::cfi::{Section, SectionKind};
use cfipack_format::{Address, Arch, Register};

/// The address of the CFI.
pub const CFI_ADDRESS: Address = Address(0x80_0000);
/// The address of the table.
pub const TABLE_ADDRESS: Address = Address(0x90_0000);

/// A section of CFI in the making, without padding.
pub struct Cfi(Writer);

impl Cfi {
    pub fn new(arch: Arch, kind: SectionKind) -> Self {
        let mut writer = Writer::new(kind, arch, CFI_ADDRESS);
        writer.alignment = 1;
        Self(writer)
    }

    /// Starts with the CIE of x86-64 compilers: `zR` with absolute pointers, CFA = rsp+8, return address at CFA-8.
    pub fn amd64() -> (Self, WrittenCie) {
        let mut cfi = Self::new(Arch::Amd64, SectionKind::EhFrame);
        let cie = cfi.cie(b"zR", &[1, 0], &[0x0c, 7, 8, 0x90, 1]);
        (cfi, cie)
    }

    pub fn section(&self) -> Section<'_> {
        self.0.section()
    }

    /// Appends a CIE of version 1 with code alignment 1, data alignment -8 and the architecture's return column. `data`
    /// is the augmentation data with its length, after the return column.
    pub fn cie(&mut self, augmentation: &[u8], data: &[u8], instructions: &[u8]) -> WrittenCie {
        self.cie_with(augmentation, data, instructions, self.section().arch.return_address())
    }

    /// Appends a CIE like [`cie`](Self::cie), with another return column.
    pub fn cie_with(
        &mut self,
        augmentation: &[u8],
        data: &[u8],
        instructions: &[u8],
        column: Register,
    ) -> WrittenCie {
        let cie = Cie::new(self.section().arch, instructions).with_alignment(1, -8);
        let cie = cie.with_augmentation(augmentation).with_augmentation_data(data);
        let mut cie = cie.with_fde_encoding(PointerEncoding::ABSOLUTE);
        cie.return_address = column;
        self.0.cie(&cie).unwrap()
    }

    /// A CIE of the given version.
    pub fn cie_of_version(&mut self, version: u8, augmentation: &[u8], data: &[u8]) -> WrittenCie {
        let cie = Cie::new(self.section().arch, &[0x0c, 7, 8, 0x90, 1]).with_alignment(1, -8);
        let cie = cie.with_augmentation(augmentation).with_augmentation_data(data);
        let mut cie = cie.with_fde_encoding(PointerEncoding::ABSOLUTE);
        cie.version = version;
        self.0.cie(&cie).unwrap()
    }

    /// Appends an FDE of a CIE with absolute pointers. If `data` is empty, the FDE has no augmentation data.
    pub fn fde_with(&mut self, cie: WrittenCie, start: u64, size: u64, data: &[u8], instructions: &[u8]) {
        self.0.fde_with_augmentation_data(&cie, Address(start), size, data, instructions).unwrap();
    }

    /// Appends an FDE of a CIE with augmentation `z`.
    pub fn fde(&mut self, cie: WrittenCie, start: u64, size: u64, instructions: &[u8]) {
        self.fde_with(cie, start, size, &[0], instructions);
    }

    pub fn terminator(&mut self) {
        self.0.terminator();
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.raw(bytes);
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

/// Makes a version 3 table. It is sorted, and starts are relative to their fields.
pub fn table(arch: Arch, functions: &[Made]) -> Vec<u8> {
    let mut functions = functions.to_vec();
    functions.sort_by_key(|function| function.start);
    table_at(TABLE_ADDRESS, arch, SORTED, &functions)
}

/// The header's flag for a sorted index.
pub const SORTED: u8 = 1;
pub const UNSORTED: u8 = 0;

/// Makes a version 3 table at another address, with the functions in this order. `sorted` is the header's flag.
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
