//! The functions of a section, found once and sorted by address.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use cfipack_encoder::cfi::{Section, SectionKind};
use cfipack_format::{Address, Endian, SectionOffset};
use gimli::{
    BaseAddresses, BigEndian, DebugFrame, EhFrame, EndianSlice, Endianity, LittleEndian, UnwindOffset,
    UnwindSection, Vendor,
};

/// What gimli reads from.
pub(super) type Reader<'a, E> = EndianSlice<'a, E>;
/// A CIE as gimli parses it.
pub(super) type Cie<'a, E> = gimli::CommonInformationEntry<Reader<'a, E>>;
/// An FDE as gimli parses it.
pub(super) type Fde<'a, E> = gimli::FrameDescriptionEntry<Reader<'a, E>>;

/// A function: the PCs that one FDE answers for, and where that FDE is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function {
    /// First address.
    pub start: Address,
    /// One past the last address; not beyond the start of the next function, see [`Functions`].
    pub end: Address,
    /// Which of the sections it is in.
    pub section: usize,
    /// Where the FDE starts.
    pub fde: SectionOffset,
}

/// A record that gimli cannot read: the code it is for is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Which of the sections it is in.
    pub section: usize,
    /// Where the record starts.
    pub offset: SectionOffset,
    /// What gimli says of it.
    pub error: gimli::Error,
}

/// The functions of all sections of call frame information, in order of address, no two of them
/// sharing a PC: as a binary search over start addresses (`.eh_frame_hdr`'s) sees them.
///
/// - FDEs that start at one address are one function: the longest of them, of equals the first.
/// - A function ends where the next one starts.
/// - FDEs of size 0 have no PC and are left out.
///
/// Memory: 32 bytes a function, and a copy of a section that has a CIE which gimli must be helped with.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    sources: Vec<Source<'a>>,
    list: Vec<Function>,
    empty: u64,
    duplicates: u64,
    unreadable: Vec<Unreadable>,
}

/// A section, and its bytes as gimli is to read them.
#[derive(Clone, Debug)]
struct Source<'a> {
    section: Section<'a>,
    bytes: Cow<'a, [u8]>,
    /// Offsets of the CIEs with augmentation `B`, ascending.
    key_b: Vec<usize>,
}

/// What does something with a section in gimli's terms: gimli has a type for each kind of section and
/// each byte order, which makes it half as fast again as asking for the order at every number.
pub(super) trait Visit<'f> {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        frames: S,
        about: About<'f>,
    ) -> Self::Output;
}

/// What belongs to a section beside its frames.
#[derive(Clone, Debug)]
pub(super) struct About<'f> {
    pub section: &'f Section<'f>,
    pub bases: BaseAddresses,
    /// Offsets of the CIEs with augmentation `B`, ascending.
    pub key_b: &'f [usize],
}

impl<'a> Functions<'a> {
    /// Finds the functions. What cannot be read is kept in [`Functions::unreadable`].
    pub fn find(sections: &[Section<'a>]) -> Self {
        let sources: Vec<_> = sections.iter().map(Source::new).collect();
        let (mut list, mut unreadable) = (Vec::new(), Vec::new());
        for (section, source) in sources.iter().enumerate() {
            source.visit(Scan { section, list: &mut list, unreadable: &mut unreadable });
        }
        let found = list.len();
        list.retain(|f| f.start < f.end);
        let empty = (found - list.len()) as u64;
        // Of one start the longest first, then in the order of the sections.
        list.sort_unstable_by_key(|f| (f.start, Reverse(f.end), f.section, f.fde));
        let found = list.len();
        list.dedup_by_key(|f| f.start);
        let duplicates = (found - list.len()) as u64;
        for i in 1..list.len() {
            list[i - 1].end = list[i - 1].end.min(list[i].start);
        }
        Self { sources, list, empty, duplicates, unreadable }
    }

    /// The functions, in order of address.
    pub fn as_slice(&self) -> &[Function] {
        &self.list
    }

    /// FDEs of size 0, which have no PC and are not in the list.
    pub fn empty(&self) -> u64 {
        self.empty
    }

    /// FDEs that start where another one starts, and are not counted as functions of their own.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Records that gimli cannot read.
    pub fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// Visits every section, in order.
    pub(super) fn visit<'f, V: Visit<'f>>(&'f self, visit: impl Fn() -> V) -> Vec<V::Output> {
        self.sources.iter().map(|source| source.visit(visit())).collect()
    }
}

impl<'a> Source<'a> {
    fn new(section: &Section<'a>) -> Self {
        let (bytes, key_b) = readable(section);
        Self { section: *section, bytes, key_b }
    }

    fn visit<'f, V: Visit<'f>>(&'f self, visit: V) -> V::Output {
        match self.section.arch.endian() {
            Endian::Little => self.visit_in(visit, LittleEndian),
            Endian::Big => self.visit_in(visit, BigEndian),
        }
    }

    fn visit_in<'f, V: Visit<'f>, E: Endianity + 'f>(&'f self, visit: V, endian: E) -> V::Output {
        let Self { section, bytes, key_b } = self;
        let vendor = if section.arch.is_aarch64() { Vendor::AArch64 } else { Vendor::Default };
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address.0)
            .set_text(section.text.0)
            .set_got(section.data.0);
        let about = About { section, bases, key_b };
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

/// Reads every FDE of a section as far as its addresses.
struct Scan<'l> {
    section: usize,
    list: &'l mut Vec<Function>,
    unreadable: &'l mut Vec<Unreadable>,
}

impl<'f> Visit<'f> for Scan<'_> {
    type Output = ();

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(self, frames: S, about: About<'f>) {
        let mut cies = HashMap::new();
        for record in records(about.section).filter(|record| !record.is_cie) {
            let parsed = frames.partial_fde_from_offset(&about.bases, record.offset.into());
            let parsed = parsed.and_then(|partial| {
                partial.parse(|frames, bases, offset| {
                    let cie = cies.entry(UnwindOffset::into(offset));
                    cie.or_insert_with(|| frames.cie_from_offset(bases, offset)).clone()
                })
            });
            let (section, fde) = (self.section, SectionOffset(record.offset));
            match parsed {
                Ok(parsed) => self.list.push(Function {
                    start: Address(parsed.initial_address()),
                    end: Address(parsed.initial_address().saturating_add(parsed.len())),
                    section,
                    fde,
                }),
                Err(error) => self.unreadable.push(Unreadable { section, offset: fde, error }),
            }
        }
    }
}

/// A CIE or an FDE, of which no more than the kind is known.
struct Record {
    offset: usize,
    /// First byte behind the CIE pointer.
    body: usize,
    /// One past the last byte.
    end: usize,
    is_cie: bool,
}

/// The records of a section, terminators in the middle skipped. A record that ends beyond the section
/// is the last: gimli refuses it, which is how it is reported.
fn records<'s>(section: &Section<'s>) -> impl Iterator<Item = Record> + use<'s> {
    let (bytes, endian, kind) = (section.bytes, section.arch.endian(), section.kind);
    let u32_at = move |at: usize| Some(endian.u32(*bytes.get(at..)?.first_chunk()?));
    let u64_at = move |at: usize| Some(endian.u64(*bytes.get(at..)?.first_chunk()?));
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let offset = at;
            let length = u32_at(offset)?;
            let (length, start) = match length {
                0 => {
                    at = offset + 4;
                    continue;
                }
                u32::MAX => (u64_at(offset + 4)?, offset + 12),
                length => (u64::from(length), offset + 4),
            };
            let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
            let end = end.unwrap_or(usize::MAX);
            at = end.min(bytes.len());
            // In `.eh_frame` the CIE pointer has 4 bytes even behind a 64-bit length.
            let (is_cie, body) = match kind {
                SectionKind::EhFrame => (u32_at(start) == Some(0), start + 4),
                SectionKind::DebugFrame if start == offset + 12 => {
                    (u64_at(start) == Some(u64::MAX), start + 8)
                }
                SectionKind::DebugFrame => (u32_at(start) == Some(u32::MAX), start + 4),
            };
            return Some(Record { offset, body, end, is_cie });
        }
    })
}

/// Where the records of a section start, ascending.
pub(crate) fn record_offsets(section: &Section<'_>) -> Vec<usize> {
    records(section).map(|record| record.offset).collect()
}

/// The section with every CIE in a form that gimli 0.34 reads, and the CIEs with augmentation `B`.
///
/// gimli refuses the letters `B` (key B) and `G` (memory tagging), which carry no data, and the
/// augmentation `eh` of gcc before 3.0, which carries one pointer. They are taken out and the record
/// is filled up with `DW_CFA_nop`, so that everything else stays where it was. (The position of a
/// PC-relative personality pointer changes with it: nobody asks for personalities here.)
fn readable<'a>(section: &Section<'a>) -> (Cow<'a, [u8]>, Vec<usize>) {
    let mut bytes = Cow::Borrowed(section.bytes);
    let mut key_b = Vec::new();
    for record in records(section).filter(|record| record.is_cie) {
        let string = record.body.saturating_add(1);
        let Some(cie) = section.bytes.get(string..record.end) else { continue };
        let Some(length) = cie.iter().position(|&b| b == 0) else { continue };
        let (letters, rest) = cie.split_at(length);
        if letters.contains(&b'B') {
            key_b.push(record.offset);
        }
        let (kept, rest): (Vec<u8>, &[u8]) = if letters == b"eh" {
            let pointer = usize::from(section.arch.pointer_size());
            let Some(rest) = rest.get(1 + pointer..) else { continue };
            (vec![0], rest)
        } else if letters.iter().any(|b| b"BG".contains(b)) {
            (letters.iter().copied().filter(|b| !b"BG".contains(b)).collect(), rest)
        } else {
            continue;
        };
        let patched = &mut bytes.to_mut()[string..record.end];
        patched.fill(0);
        patched[..kept.len()].copy_from_slice(&kept);
        patched[kept.len()..kept.len() + rest.len()].copy_from_slice(rest);
    }
    (bytes, key_b)
}
