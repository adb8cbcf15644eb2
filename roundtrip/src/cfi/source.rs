//! Prepares a section for gimli: chooses gimli's type for it, and removes parts that gimli refuses without need.

use std::borrow::Cow;

use cfipack_format::Endian;
use cfipack_format::cfi::{Section, SectionKind};
use gimli::{
    BaseAddresses, BigEndian, DebugFrame, EhFrame, EndianSlice, Endianity, LittleEndian, UnwindSection,
    Vendor,
};

use super::about::{About, Changed, Signing};
use super::raw::{self, NEGATE_RA_STATE_WITH_PC, Patch, SET_RA_STATE};
use super::readable::readable;
use super::record::{Record, records};
use super::sign_state::SignStates;

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
    signings: Vec<Signing>,
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
        let (signings, longest_cie) = (Vec::new(), longest_cie(section, fdes));
        let mut source = Self { section: *section, bytes, changed, signings, longest_cie };
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
        let Self { section, bytes, changed, signings, longest_cie } = self;
        let vendor = if section.arch.is_aarch64() { Vendor::AArch64 } else { Vendor::Default };
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address.0)
            .set_text(section.text.0)
            .set_got(section.data.0);
        About { section, bytes, vendor, bases, changed, signings, longest_cie: *longest_cie }
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

impl Source<'_> {
    fn rewrite_sign_states(&mut self) {
        let is_any = |byte: &u8| [SET_RA_STATE, NEGATE_RA_STATE_WITH_PC].contains(byte);
        if self.section.arch.is_aarch64() && self.bytes.iter().any(is_any) {
            let (patches, signings) = self.visit(SignStates);
            self.signings = signings;
            self.write(patches);
        }
    }

    /// Removes `DW_CFA_restore` from CIEs, because gimli 0.34 refuses it there. gas writes it for a `.cfi_restore`
    /// before a function's first instruction. The instruction restores the CIE's rule for a register. If the CIE has
    /// given the register no rule yet, the instruction changes nothing.
    fn take_out_restores(&mut self, cies: &[Record]) {
        for cie in cies {
            let Some(body) = self.bytes.get(cie.body..cie.end) else { continue };
            let patches = raw::restores_of_cie(body, cie.body);
            self.write(patches);
        }
    }

    fn write(&mut self, patches: Vec<Patch>) {
        for (at, patch) in patches {
            self.bytes.to_mut()[at..at + patch.len()].copy_from_slice(&patch);
        }
    }
}
