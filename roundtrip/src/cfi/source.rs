//! Prepares a section for gimli: chooses gimli's type for it, and removes parts that gimli refuses without need.

use std::borrow::Cow;

use cfipack_format::Endian;
use cfipack_format::cfi::{Section, SectionKind};
use gimli::{
    BaseAddresses, BigEndian, CallFrameInstruction, DebugFrame, EhFrame, EndianSlice, Endianity,
    LittleEndian, UnwindSection, Vendor,
};

use super::about::{About, Changed};
use super::instructions::Listed;
use super::readable::readable;
use super::record::{Record, records};
use super::sign_state::{SET_RA_STATE, SignStates};

/// The reader that gimli reads from.
pub(super) type Reader<'a, E> = EndianSlice<'a, E>;
/// A CIE as gimli parses it.
pub(super) type Cie<'a, E> = gimli::CommonInformationEntry<Reader<'a, E>>;
/// An FDE as gimli parses it.
pub(super) type Fde<'a, E> = gimli::FrameDescriptionEntry<Reader<'a, E>>;
/// A section, and its bytes for gimli.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    section: Section<'a>,
    bytes: Cow<'a, [u8]>,
    changed: Vec<Changed>,
    longest_cie: usize,
}

/// Work on a section as gimli reads it. gimli has a type for each kind of section and for each byte order. With these
/// types, gimli is 1.5 times as fast as with a check of the byte order at every number.
pub(super) trait Visit<'f> {
    /// The result of the work.
    type Output;
    /// Does the work.
    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        frames: S,
        about: About<'f>,
    ) -> Self::Output;
}

impl<'a> Source<'a> {
    pub(super) fn new(section: &Section<'a>) -> Self {
        // All questions about CIEs are answered in a single walk over the records, because memory limits its speed.
        let (mut cies, mut fdes) = (Vec::new(), 0);
        for record in records(section) {
            if record.is_cie {
                cies.push(record);
            } else {
                fdes += 1;
            }
        }
        let (bytes, changed) = readable(section, &cies);
        let mut source = Self { section: *section, bytes, changed, longest_cie: longest_cie(section, fdes) };
        source.rewrite_sign_states();
        source.take_out_restores(&cies);
        source
    }

    pub(super) fn visit<'f, V: Visit<'f>>(&'f self, visit: V) -> V::Output {
        match self.section.arch.endian() {
            Endian::Little => self.visit_in(visit, LittleEndian),
            Endian::Big => self.visit_in(visit, BigEndian),
        }
    }

    fn about(&self) -> About<'_> {
        let Self { section, bytes, changed, longest_cie } = self;
        let vendor = if section.arch.is_aarch64() { Vendor::AArch64 } else { Vendor::Default };
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address.0)
            .set_text(section.text.0)
            .set_got(section.data.0);
        About { section, bytes, vendor, bases, changed, longest_cie: *longest_cie }
    }

    fn visit_in<'f, V: Visit<'f>, E: Endianity + 'f>(&'f self, visit: V, endian: E) -> V::Output {
        let about = self.about();
        let About { section, bytes, vendor, .. } = about;
        let reader = EndianSlice::new(bytes, endian);
        match section.kind {
            SectionKind::EhFrame => {
                let mut frames = EhFrame::from(reader);
                frames.set_address_size(section.arch.pointer_size());
                frames.set_vendor(vendor);
                visit.visit(frames, about)
            }
            SectionKind::DebugFrame => {
                let mut frames = DebugFrame::from(reader);
                frames.set_address_size(section.arch.pointer_size());
                frames.set_vendor(vendor);
                visit.visit(frames, about)
            }
        }
    }
}

/// Bounds the work for CIEs: for each byte of a section, gimli may run at most this many bytes of CIEs. gimli runs a
/// CIE's instructions again for each FDE. Hostile input has a long CIE for many FDEs, or a CIE inside another CIE. A
/// real FDE has 20 bytes or more, and its CIE has some 30 bytes.
const CIE_BYTES: usize = 8;

/// Returns the greatest length that every FDE's CIE may have under this limit.
fn longest_cie(section: &Section<'_>, fdes: usize) -> usize {
    section.bytes.len().saturating_mul(CIE_BYTES) / fdes.max(1)
}

/// The greatest length of a CIE, in bytes, from which instructions are removed. In the worst case, the CIE is read
/// again for each of its bytes. The CIEs of gas have some 30 bytes.
const LONGEST: usize = 128;

impl Source<'_> {
    fn rewrite_sign_states(&mut self) {
        if !self.section.arch.is_aarch64() || !self.bytes.contains(&SET_RA_STATE) {
            return;
        }
        for (at, patch) in self.visit(SignStates) {
            self.bytes.to_mut()[at..at + patch.len()].copy_from_slice(&patch);
        }
    }

    /// Removes `DW_CFA_restore` from CIEs, because gimli 0.34 refuses it there. gas writes it for a `.cfi_restore`
    /// before a function's first instruction. The instruction restores the CIE's rule for a register. If the CIE has
    /// given the register no rule yet, the instruction changes nothing.
    fn take_out_restores(&mut self, cies: &[Record]) {
        for cie in cies.iter().filter(|cie| cie.end.saturating_sub(cie.body) <= LONGEST) {
            self.take_out_restores_of(cie);
        }
    }

    fn take_out_restores_of(&mut self, cie: &Record) {
        let Some(mut instructions) = self.initial_instructions(cie) else { return };
        let mut from = cie.body;
        while let Some((place, register)) = instructions.iter().enumerate().find_map(restored) {
            let before = &instructions[..place];
            if before.iter().any(|instruction| may_speak_of(register, instruction)) {
                return;
            }
            instructions.remove(place);
            let Some(at) = (from..cie.end).find(|&at| self.blank(cie, at, register, &instructions)) else {
                return;
            };
            from = at + 1;
        }
    }

    /// Replaces a `DW_CFA_restore` of `register` at `at` by `DW_CFA_nop`, if the CIE then has exactly the instructions
    /// `expected`. Returns whether it did.
    fn blank(
        &mut self,
        cie: &Record,
        at: usize,
        register: gimli::Register,
        expected: &[CallFrameInstruction<usize>],
    ) -> bool {
        let Some(len) = self.bytes.get(at..cie.end).and_then(|bytes| restore_len(bytes, register)) else {
            return false;
        };
        let before = self.bytes[at..at + len].to_vec();
        self.bytes.to_mut()[at..at + len].fill(0);
        let is_it = self.initial_instructions(cie).as_deref() == Some(expected);
        if !is_it {
            self.bytes.to_mut()[at..at + len].copy_from_slice(&before);
        }
        is_it
    }

    /// Returns the instructions of a CIE without `DW_CFA_nop`, or `None` if they cannot be read.
    fn initial_instructions(&self, cie: &Record) -> Option<Vec<CallFrameInstruction<usize>>> {
        let listed = Listed::new(&self.about());
        let mut rest = listed.of_cie(cie.offset).ok()?;
        let mut instructions = Vec::new();
        while let Some(instruction) = rest.next().ok()? {
            if instruction != CallFrameInstruction::Nop {
                instructions.push(instruction);
            }
        }
        Some(instructions)
    }
}

fn restored((place, instruction): (usize, &CallFrameInstruction<usize>)) -> Option<(usize, gimli::Register)> {
    match instruction {
        CallFrameInstruction::Restore { register } => Some((place, *register)),
        _ => None,
    }
}

/// Returns whether an instruction may give a register a rule.
fn may_speak_of(register: gimli::Register, instruction: &CallFrameInstruction<usize>) -> bool {
    use CallFrameInstruction as I;
    match *instruction {
        I::DefCfa { .. }
        | I::DefCfaSf { .. }
        | I::DefCfaRegister { .. }
        | I::DefCfaOffset { .. }
        | I::DefCfaOffsetSf { .. }
        | I::DefCfaExpression { .. } => false,
        I::Undefined { register: changed }
        | I::SameValue { register: changed }
        | I::Offset { register: changed, .. }
        | I::OffsetExtendedSf { register: changed, .. }
        | I::ValOffset { register: changed, .. }
        | I::ValOffsetSf { register: changed, .. }
        | I::Register { dest_register: changed, .. }
        | I::Expression { register: changed, .. }
        | I::ValExpression { register: changed, .. } => changed == register,
        _ => true,
    }
}

/// Returns the length of a `DW_CFA_restore` (0xc0 + register) or `DW_CFA_restore_extended` (6, ULEB128) of this
/// register, or `None` for another instruction.
fn restore_len(bytes: &[u8], register: gimli::Register) -> Option<usize> {
    match *bytes.first()? {
        short @ 0xc0.. => (u16::from(short & 0x3f) == register.0).then_some(1),
        6 => {
            let mut operand = EndianSlice::new(bytes.get(1..)?, LittleEndian);
            let is_it = gimli::Reader::read_uleb128(&mut operand).ok()? == u64::from(register.0);
            is_it.then_some(bytes.len() - operand.len())
        }
        _ => None,
    }
}
