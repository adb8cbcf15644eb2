//! Prepares a section for gimli: chooses gimli's type for it, and removes parts that gimli refuses without need.

use std::borrow::Cow;
use std::sync::OnceLock;

use cfipack_format::Endian;
use cfipack_format::cfi::{Section, SectionKind};
use gimli::{
    BaseAddresses, BigEndian, DebugFrame, EhFrame, EndianSlice, Endianity, LittleEndian, UnwindSection,
    Vendor,
};

use super::about::{About, Changed, Signing};
use super::raw::{self, Patch};
use super::readable::readable;
use super::record::{Record, records};
use super::unknown::Unknown;

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
    /// The bytes with other instructions in place of those that gimli does not know, once a function has needed them.
    /// With them, the addresses that such instructions sign with.
    known: OnceLock<(Box<[u8]>, Vec<Signing>)>,
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
        let mut source = Self {
            section: *section,
            bytes,
            changed,
            longest_cie: longest_cie(section, fdes),
            known: OnceLock::new(),
        };
        source.take_out_restores(&cies);
        source
    }

    pub(super) fn visit<'f, V: Visit<'f>>(&'f self, visit: V) -> V::Output {
        self.visit_bytes(visit, &self.bytes, &[])
    }

    /// Visits the section without the instructions that gimli does not know, as far as others mean the same.
    pub(super) fn visit_known<'f, V: Visit<'f>>(&'f self, visit: V) -> V::Output {
        let (bytes, signings) = self.known.get_or_init(|| {
            let (mut bytes, (patches, signings)) = (Box::from(&*self.bytes), self.visit(Unknown));
            write(&mut bytes, patches);
            (bytes, signings)
        });
        self.visit_bytes(visit, bytes, signings)
    }

    fn visit_bytes<'f, V: Visit<'f>>(
        &'f self,
        visit: V,
        bytes: &'f [u8],
        signings: &'f [Signing],
    ) -> V::Output {
        let about = self.about(bytes, signings);
        match self.section.arch.endian() {
            Endian::Little => visit_in(visit, about, LittleEndian),
            Endian::Big => visit_in(visit, about, BigEndian),
        }
    }

    fn about<'f>(&'f self, bytes: &'f [u8], signings: &'f [Signing]) -> About<'f> {
        let Self { section, changed, longest_cie, .. } = self;
        let vendor = if section.arch.is_aarch64() { Vendor::AArch64 } else { Vendor::Default };
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address.0)
            .set_text(section.text.0)
            .set_got(section.data.0);
        About { section, bytes, vendor, bases, changed, signings, longest_cie: *longest_cie }
    }
}

fn visit_in<'f, V: Visit<'f>, E: Endianity + 'f>(visit: V, about: About<'f>, endian: E) -> V::Output {
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

/// Bounds the work for CIEs: for each byte of a section, gimli may run at most this many bytes of CIEs. gimli runs a
/// CIE's instructions again for each FDE. Hostile input has a long CIE for many FDEs, or a CIE inside another CIE. A
/// real FDE has 20 bytes or more, and its CIE has some 30 bytes.
const CIE_BYTES: usize = 8;

/// Returns the greatest length that every FDE's CIE may have under this limit.
fn longest_cie(section: &Section<'_>, fdes: usize) -> usize {
    section.bytes.len().saturating_mul(CIE_BYTES) / fdes.max(1)
}

impl Source<'_> {
    /// Removes `DW_CFA_restore` from CIEs, because gimli 0.34 refuses it there. gas writes it for a `.cfi_restore`
    /// before a function's first instruction. The instruction restores the CIE's rule for a register. If the CIE has
    /// given the register no rule yet, the instruction changes nothing.
    fn take_out_restores(&mut self, cies: &[Record]) {
        for cie in cies {
            let Some(body) = self.bytes.get(cie.body..cie.end) else { continue };
            let patches = raw::restores_of_cie(body, cie.body);
            if !patches.is_empty() {
                write(self.bytes.to_mut(), patches);
            }
        }
    }
}

fn write(bytes: &mut [u8], patches: Vec<Patch>) {
    for (at, patch) in patches {
        bytes[at..at + patch.len()].copy_from_slice(&patch);
    }
}
