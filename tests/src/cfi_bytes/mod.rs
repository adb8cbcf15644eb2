//! Makes random CFI as bytes: every opcode that gimli knows, every pointer encoding, 32- and 64-bit lengths, CIEs of
//! several versions, padding, FDEs out of order, and terminators in between.
//!
//! gimli can read all of it, and tables can represent most of it.

mod instructions;

use std::mem::take;
use std::ops::Range;

use cfipack_cfi::write::{self, Writer, WrittenCie, leb128};
use cfipack_cfi::{PointerEncoding, SectionKind};
use cfipack_format::{Address, Arch};
use cfipack_testkit::random::Random;

/// A generated section.
#[derive(Clone, Debug)]
pub struct CfiBytes {
    /// Whether it is a `.debug_frame` instead of an `.eh_frame`.
    pub debug_frame: bool,
    /// The architecture.
    pub arch: Arch,
    /// The section's bytes.
    pub bytes: Vec<u8>,
    /// The address of the section.
    pub address: u64,
    /// The base of text-relative pointers.
    pub text: u64,
    /// The base of data-relative pointers.
    pub data: u64,
    /// The functions' addresses, in the section's order. They do not overlap.
    pub functions: Vec<Range<u64>>,
}

/// The properties of a CIE that its FDEs depend on.
#[derive(Clone, Copy, Debug)]
struct Cie {
    written: WrittenCie,
    /// The encoding of pointers in its FDEs, and of the operand of `DW_CFA_set_loc`.
    encoding: PointerEncoding,
    /// Whether its FDEs have augmentation data, which is empty.
    has_free_data: bool,
    code_alignment: u64,
    data_alignment: i64,
}

struct Generator<'r> {
    random: &'r mut Random,
    /// Whether records have the one shape that compilers write, with any instructions.
    common: bool,
    /// Whether instructions include `DW_CFA_set_loc`.
    set_loc: bool,
    arch: Arch,
    writer: Writer,
    /// The instructions of the record that is being made.
    instructions: Vec<u8>,
}

const PCREL_SDATA4: PointerEncoding = PointerEncoding::PC_RELATIVE_SIGNED_4;
/// Pointer formats (low bits). They are combined with bases (high bits).
const FORMATS: [u8; 9] = [0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0x0a, 0x0b, 0x0c];
const BASES: [u8; 4] = [0x00, 0x10, 0x20, 0x30];

impl CfiBytes {
    /// Makes a section for `count` functions.
    pub fn random(random: &mut Random, arch: Arch, count: usize) -> Self {
        Self::generate(random, arch, count, false, true)
    }

    /// Makes random instructions in records as compilers write them, which every reader accepts: an `.eh_frame` of 32-bit
    /// lengths, version 1, augmentation `zR` or `zRS`, 4-byte PC-relative pointers. `set_loc` allows `DW_CFA_set_loc`.
    pub fn random_instructions(random: &mut Random, arch: Arch, count: usize, set_loc: bool) -> Self {
        Self::generate(random, arch, count, true, set_loc)
    }

    fn generate(random: &mut Random, arch: Arch, count: usize, common: bool, set_loc: bool) -> Self {
        let mut starts = Vec::new();
        let mut at: u64 = random.pick(&[0x1000, 0x40_0000]);
        for _ in 0..count {
            let size = random.pick(&[0, 1, 4, 16, 64, 200, 255, 256, 257, 1000, 65535, 65536, 70_000]);
            starts.push(at..at + size);
            at += size + random.pick(&[0, 0, 1, 16]);
        }
        if random.chance(30) {
            for i in (1..starts.len()).rev() {
                starts.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let kind = if !common && random.chance(25) { SectionKind::DebugFrame } else { SectionKind::EhFrame };
        let address = at.next_multiple_of(8) + random.pick(&[0, 0x10_0000]);
        let mut writer = Writer::new(kind, arch, Address(address));
        (writer.text, writer.data) = (Address(0x800), Address(at.next_multiple_of(4096) + 0x20_0000));
        let instructions = Vec::new();
        let mut generator = Generator { random, common, set_loc, arch, writer, instructions };
        generator.section(&starts);
        let Writer { text, data, .. } = generator.writer;
        Self {
            debug_frame: kind == SectionKind::DebugFrame,
            arch,
            bytes: generator.writer.into_bytes(),
            address,
            text: text.0,
            data: data.0,
            functions: starts,
        }
    }
}

impl Generator<'_> {
    fn is_debug_frame(&self) -> bool {
        self.writer.section().kind == SectionKind::DebugFrame
    }

    fn section(&mut self, functions: &[Range<u64>]) {
        let mut cies = vec![self.cie(true)];
        for function in functions {
            if !self.common && !self.is_debug_frame() && self.random.chance(3) {
                // No FDE after a terminator refers to a CIE before it.
                self.writer.terminator();
                cies = vec![self.cie(true)];
            }
            if self.random.chance(20) {
                cies.push(self.cie(self.common));
            }
            let preferred = self.random.pick(&cies);
            if self.fde(preferred, function).is_err() {
                self.fde(cies[0], function).expect("the first CIE of a part fits every function");
            }
        }
        if !self.is_debug_frame() && self.random.chance(50) {
            self.writer.terminator();
        }
    }

    fn put(&mut self, bytes: impl AsRef<[u8]>) {
        self.instructions.extend_from_slice(bytes.as_ref());
    }

    fn uleb(&mut self, value: u64) {
        leb128::unsigned(&mut self.instructions, value);
    }

    fn sleb(&mut self, value: i64) {
        leb128::signed(&mut self.instructions, value);
    }

    /// Returns the instructions of a record, with padding.
    fn take_instructions(&mut self) -> Vec<u8> {
        let padding = self.random.pick(&[0, 3, 8]);
        self.put(&[0; 8][..padding]); // DW_CFA_nop
        take(&mut self.instructions)
    }

    /// Writes a CIE. With `plain`, its pointer encoding reaches every function of a small image.
    fn cie(&mut self, plain: bool) -> Cie {
        let (debug_frame, common) = (self.is_debug_frame(), self.common);
        let version = match (debug_frame, common) {
            (true, _) => self.random.pick(&[1, 3, 4]),
            (false, false) => self.random.pick(&[1, 1, 3]),
            (false, true) => 1,
        };
        let augmented = !debug_frame && (plain || self.random.chance(80));
        let with_lsda = augmented && !common && self.random.chance(30);
        let with_personality = augmented && !common && self.random.chance(30);
        let signal_frame = augmented && self.random.chance(10);
        let mut augmentation = Vec::new();
        for (letter, present) in [
            (b'z', augmented),
            (b'P', with_personality),
            (b'L', with_lsda),
            (b'R', augmented),
            (b'S', signal_frame),
        ] {
            augmentation.extend(present.then_some(letter));
        }
        let code_alignment = self.random.pick(&[1, 1, 2, 4]);
        let data_alignment = self.random.pick(&[-8, -8, -8, -4, 8, -1]);
        let encoding = match (augmented, plain) {
            (false, _) => PointerEncoding::ABSOLUTE,
            (true, true) => PCREL_SDATA4,
            (true, false) => PointerEncoding(self.random.pick(&BASES) | self.random.pick(&FORMATS)),
        };
        self.initial_instructions(data_alignment);
        let instructions = self.take_instructions();
        self.writer.is_64_bit = !common && self.random.chance(10);
        let mut cie = write::Cie::new(self.arch, &instructions)
            .with_augmentation(&augmentation)
            .with_alignment(code_alignment, data_alignment)
            .with_fde_encoding(encoding);
        cie.version = version;
        cie.lsda_encoding = if with_lsda { PCREL_SDATA4 } else { PointerEncoding::OMITTED };
        let udata4 = PointerEncoding(0x03);
        cie.personality = with_personality.then_some((udata4, Address(0x0102_0304)));
        let written = self.writer.cie(&cie).expect("a CIE can always be written");
        let has_free_data = augmented && !with_lsda;
        Cie { written, encoding, has_free_data, code_alignment, data_alignment }
    }

    /// Writes an FDE, or returns an error if the CIE's pointer encoding cannot represent the function.
    fn fde(&mut self, cie: Cie, function: &Range<u64>) -> Result<(), write::Error> {
        let Cie { written, has_free_data, .. } = cie;
        let (start, size) = (Address(function.start), function.end - function.start);
        // Augmentation data that nothing gives a meaning.
        let data: &[u8] =
            if has_free_data && !self.common && self.random.chance(25) { &[3, 0, 0, 0] } else { &[] };
        let write = |writer: &mut Writer, instructions: &[u8]| match data {
            [] => writer.fde(&written, start, size, None, instructions),
            data => writer.fde_with_augmentation_data(&written, start, size, data, instructions),
        };
        // Tests whether it fits, and where the instructions will be, because `DW_CFA_set_loc` depends on that.
        let is_64_bit = !self.common && self.random.chance(10);
        let mut trial = self.writer.clone();
        (trial.is_64_bit, trial.alignment) = (is_64_bit, 1);
        write(&mut trial, &[])?;
        self.function_instructions(&cie, function, trial.section().address.0 + trial.offset().0 as u64);
        let instructions = self.take_instructions();
        self.writer.is_64_bit = is_64_bit;
        write(&mut self.writer, &instructions).map(|_| ())
    }
}
