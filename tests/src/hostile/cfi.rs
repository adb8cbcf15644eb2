//! Makes hostile CFI.

use cfipack_cfi::write::{Cie, Writer, WrittenCie};
use cfipack_cfi::{PointerEncoding, SectionKind};
use cfipack_format::{Address, Arch, SectionOffset};

use super::{Input, Shape};

/// Shapes of `.eh_frame`.
pub const CFI: &[Shape] = &[
    ("a CIE for each FDE", |n| {
        many(n, |cfi, i| {
            let cie = cfi.cie(RULES);
            cfi.fde(&cie, at(i), 16, &[]);
        })
    }),
    ("a long CIE under many FDEs", |n| {
        with_cie(&[RULES, &[0x90, 1].repeat(12 * n)].concat(), n, |cfi, cie, i| {
            cfi.fde(cie, at(i), 16, &[]);
        })
    }),
    ("CIEs in each other", nested_cies),
    ("CIEs with many DW_CFA_restore", |n| {
        many(n, |cfi, i| {
            let cie = cfi.cie(&[RULES, &[0xc3; 40]].concat());
            cfi.fde(&cie, at(i), 16, &[]);
        })
    }),
    ("CIEs with long augmentations", |n| {
        many(n, |cfi, i| {
            let cie = cfi.cie_with(&[&b"zR"[..], &b"BS".repeat(20)].concat(), &[1, 0], RULES);
            cfi.fde(&cie, at(i), 16, &[]);
        })
    }),
    ("personalities", |n| {
        many(n, |cfi, i| {
            let cie = cfi.cie_with(b"zPR", &[&[10, 0][..], &at(i).to_le_bytes(), &[0]].concat(), RULES);
            cfi.fde(&cie, at(i), 16, &[]);
        })
    }),
    ("LSDAs", |n| {
        let mut cfi = Cfi::new();
        let cie = cfi.cie_with(b"zLR", &[2, 0, 0], RULES);
        (0..n).for_each(|i| cfi.fde_with(&cie, at(i), 16, &[&[8][..], &at(i).to_le_bytes()].concat(), &[]));
        cfi.into_input()
    }),
    ("FDEs of one start", |n| with_cie(RULES, n, |cfi, cie, _| cfi.fde(cie, at(0), 16, &[0x41, 0x0e, 16]))),
    ("FDEs of one start that disagree", |n| {
        with_cie(RULES, n, |cfi, cie, i| {
            cfi.fde(cie, at(0), 16, &[0x41, 0x0e, i as u8 & 0x78]);
        })
    }),
    ("functions around each other", |n| {
        with_cie(RULES, n, |cfi, cie, i| {
            cfi.fde(cie, at(i), at(2 * n - i) - at(i), &[0x41, 0x0e, 16, 0x41, 0x0e, 24]);
        })
    }),
    ("functions without code", |n| with_cie(RULES, n, |cfi, cie, i| cfi.fde(cie, at(i), 0, &[]))),
    ("functions that reach the last address", |n| {
        with_cie(RULES, n, |cfi, cie, i| {
            cfi.fde(cie, at(i), u64::MAX - at(i), &[]);
        })
    }),
    ("advances in one function", |n| of_one(&[0x41, 0x0e, 16, 0x41, 0x0e, 8].repeat(4 * n))),
    ("advances of nothing", |n| of_one(&[0x40].repeat(24 * n))),
    ("remembered states", |n| of_one(&[&[0x0a].repeat(12 * n)[..], &[0x41, 0x0b].repeat(12 * n)].concat())),
    ("states remembered and restored", |n| of_one(&[0x0a, 0x41, 0x0b].repeat(8 * n))),
    ("rules of many registers", |n| {
        let rules: Vec<_> = (20..180)
            .flat_map(|register: u16| [7, register as u8 & 0x7f | 0x80, (register >> 7) as u8])
            .collect();
        of_one(&[rules, [0x41, 0x0e, 16, 0x41, 0x0e, 8].repeat(4 * n)].concat())
    }),
    ("a long expression over many rows", |n| {
        let length = 8 * n as u16;
        let expression = [
            &[0x0f, length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8][..],
            &[0x77, 0][..],
            &[0x96].repeat(8 * n - 2),
        ]
        .concat();
        of_one(&[expression, [0x41, 0x90, 1].repeat(4 * n)].concat())
    }),
    ("a long expression of a register over many rows", |n| {
        let length = 8 * n as u16;
        let expression = [
            &[0x10, 6, length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8][..],
            &[0x77, 0][..],
            &[0x96].repeat(8 * n - 2),
        ]
        .concat();
        of_one(&[expression, [0x41, 0x90, 1].repeat(4 * n)].concat())
    }),
    ("many expressions", |n| of_one(&[0x41, 0x0f, 3, 0x77, 8, 6].repeat(4 * n))),
    ("functions that no table can represent", |n| {
        with_cie(RULES, n, |cfi, cie, i| {
            cfi.fde(cie, at(i), 16, &[0x0f, 2, 0x30, 0x96]);
        })
    }),
    ("instructions that do not exist", |n| {
        with_cie(RULES, n, |cfi, cie, i| cfi.fde(cie, at(i), 16, &[0x3f]))
    }),
    ("locations set", |n| {
        of_one(
            &(0..n as u64).flat_map(|i| [&[1][..], &(at(0) + i).to_le_bytes()].concat()).collect::<Vec<_>>(),
        )
    }),
    ("sizes of arguments", |n| of_one(&[0x41, 0x2e, 8].repeat(8 * n))),
    ("terminators", |n| Input::Cfi(vec![0; 24 * n])),
    ("FDEs without a CIE", |n| many(n, |cfi, i| cfi.fde(&cie_at(0), at(i), 16, &[]))),
    ("records of no bytes", |n| Input::Cfi([4, 0, 0, 0, 0, 0, 0, 0].repeat(3 * n))),
    ("calls of DW_CFA_restore", |n| of_one(&[0x41, 0xc3].repeat(12 * n))),
    ("different rows in equal functions", |n| {
        with_cie(RULES, n, |cfi, cie, i| {
            cfi.fde(cie, at(i), 16, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x48, 0x0c, 7, 8]);
        })
    }),
];

/// CFA = rsp+8, return address at CFA-8.
const RULES: &[u8] = &[0x0c, 7, 8, 0x90, 1];

/// Returns the address of function number `i`.
fn at(i: usize) -> u64 {
    0x10_0000 + 16 * i as u64
}

/// A section of x86-64 under construction, without padding and with absolute pointers.
struct Cfi(Writer);

impl Cfi {
    fn new() -> Self {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        writer.alignment = 1;
        Self(writer)
    }

    fn into_input(self) -> Input {
        Input::Cfi(self.0.into_bytes())
    }

    /// Writes a CIE with augmentation `zR`.
    fn cie(&mut self, instructions: &[u8]) -> WrittenCie {
        self.cie_with(b"zR", &[1, 0], instructions)
    }

    /// Writes a CIE with another augmentation. `data` starts with its length.
    fn cie_with(&mut self, augmentation: &[u8], data: &[u8], instructions: &[u8]) -> WrittenCie {
        let cie = Cie::new(Arch::Amd64, instructions).with_augmentation(augmentation);
        let cie = cie.with_fde_encoding(PointerEncoding::ABSOLUTE).with_augmentation_data(data);
        self.0.cie(&cie).unwrap()
    }

    fn fde(&mut self, cie: &WrittenCie, start: u64, size: u64, instructions: &[u8]) {
        self.fde_with(cie, start, size, &[0], instructions);
    }

    fn fde_with(&mut self, cie: &WrittenCie, start: u64, size: u64, data: &[u8], instructions: &[u8]) {
        self.0.fde_with_augmentation_data(cie, Address(start), size, data, instructions).unwrap();
    }
}

/// Makes a section to which `add` adds `n` parts.
fn many(n: usize, add: impl Fn(&mut Cfi, usize)) -> Input {
    let mut cfi = Cfi::new();
    (0..n).for_each(|i| add(&mut cfi, i));
    cfi.into_input()
}

/// Makes a section with one CIE, which `add` gets.
fn with_cie(instructions: &[u8], n: usize, add: impl Fn(&mut Cfi, &WrittenCie, usize)) -> Input {
    let mut cfi = Cfi::new();
    let cie = cfi.cie(instructions);
    (0..n).for_each(|i| add(&mut cfi, &cie, i));
    cfi.into_input()
}

/// Describes a CIE of [`Cfi::cie`] at this offset, whatever bytes are there.
fn cie_at(offset: usize) -> WrittenCie {
    let mut cie = Cfi::new().cie(&[]);
    cie.offset = SectionOffset(offset);
    cie
}

/// Makes one function of many bytes.
fn of_one(instructions: &[u8]) -> Input {
    with_cie(RULES, 1, |cfi, cie, i| cfi.fde(cie, at(i), 1 << 24, instructions))
}

/// Makes CIEs and an FDE for each. The instructions of a CIE are all CIEs after it, as far as they make sense.
fn nested_cies(n: usize) -> Input {
    let head = [&[1], &b"zR"[..], &[0, 1, 0x78, 16, 1, 0], RULES].concat();
    let size = 8 + head.len() + 3;
    let mut cfi = Cfi::new();
    for i in 0..n {
        // An expression for `rbx` has the next CIE's length, id and head as its operand.
        let rest = (n - i) * size - 4;
        // No writer can put records into each other, so this is done by hand.
        cfi.0.raw(&(rest as u32).to_le_bytes());
        cfi.0.raw(&[0; 4]);
        cfi.0.raw(&head);
        cfi.0.raw(&[0x10, 3, 8 + head.len() as u8]);
    }
    (0..n).for_each(|i| cfi.fde(&cie_at(i * size), at(i), 16, &[]));
    cfi.into_input()
}
