//! Decides which sections of an ELF file are call frame information.

use cfipack_cfi::SectionKind;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use object::elf;
use object::read::elf::{Dyn as _, ProgramHeader as _, SectionHeader as _};

use super::eh_frame_hdr::EhFrameHdr;
use super::file::Elf;
use super::room::Room;
use crate::error::Error;
use crate::kind::Kind;
use crate::section::{CallFrameSection, Section};

/// A `.debug_frame` that is compressed in the old format. Gas and gcc still write it on request (`-gz=zlib-gnu`).
pub(super) const ZDEBUG_FRAME: &[u8] = b".zdebug_frame";

impl<'a> Elf<'a> {
    pub(crate) fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        let mut found = self.named_call_frames(|_| true)?;
        if self.headers.kind == Kind::Linked {
            self.add_eh_frame_by_header(&mut found)?;
        }
        let has_debug_frame = found.iter().any(|(kind, _)| *kind == SectionKind::DebugFrame);
        if let Some(debug_file) = self.debug_file.as_ref().filter(|_| !has_debug_frame) {
            found.extend(debug_file.named_call_frames(|kind| kind == SectionKind::DebugFrame)?);
        }
        let (text, data) = (self.text_base(), self.data_base());
        let section = |(kind, section)| CallFrameSection {
            section,
            kind,
            arch: self.headers.arch,
            text,
            data,
            excluded: Vec::new(),
        };
        let mut sections: Vec<_> = found.into_iter().map(section).collect();
        if self.headers.kind == Kind::Relocatable {
            sections.iter_mut().try_for_each(|section| self.exclude_discarded(section))?;
        }
        Ok(self.each_function_once(sections))
    }

    /// Returns the sections that have the names of call frame information, and a kind that is wanted.
    fn named_call_frames(
        &self,
        is_wanted: impl Fn(SectionKind) -> bool,
    ) -> Result<Vec<(SectionKind, Section<'a>)>, Error> {
        let headers = &self.headers;
        let mut room = Room::for_file(headers);
        let mut found = Vec::new();
        for (index, header) in headers.sections.enumerate() {
            let kind = match headers.name(header) {
                b".eh_frame" if header.sh_flags(headers.endian).contains(elf::SHF_ALLOC) => {
                    SectionKind::EhFrame
                }
                b".debug_frame" | ZDEBUG_FRAME => SectionKind::DebugFrame,
                _ => continue,
            };
            if is_wanted(kind) && headers.has_bytes(header) {
                found.push((kind, self.section(index, header, &mut room)?));
            }
        }
        Ok(found)
    }

    /// Adds the `.eh_frame` that `PT_GNU_EH_FRAME` leads to, unless a section with this name contains it. Unwinders
    /// find it there, whatever the name of its section is. Without a section `.eh_frame`, a damaged `.eh_frame_hdr` is
    /// an error.
    fn add_eh_frame_by_header(&self, found: &mut Vec<(SectionKind, Section<'a>)>) -> Result<(), Error> {
        let is_named = |address: Address| {
            found.iter().any(|(kind, Section { address: start, bytes, .. })| {
                let end = start.0.saturating_add(bytes.len().to_u64());
                *kind == SectionKind::EhFrame && (address == *start || (start.0..end).contains(&address.0))
            })
        };
        let has_eh_frame = found.iter().any(|(kind, _)| *kind == SectionKind::EhFrame);
        let place = EhFrameHdr::find(self).and_then(|header| {
            let Some(header) = header else { return Ok(None) };
            Ok(header.eh_frame(&self.headers)?.map(|address| (header, address)))
        });
        let place = match place {
            Err(_) if has_eh_frame => return Ok(()),
            place => place?,
        };
        let Some((header, address)) = place.filter(|(_, address)| !is_named(*address)) else { return Ok(()) };
        let section = header.section(self, address)?;
        found.extend(section.map(|section| (SectionKind::EhFrame, section)));
        Ok(())
    }

    fn address_of(&self, name: &[u8]) -> Option<u64> {
        let (index, _) =
            self.headers.sections.enumerate().find(|(_, header)| self.headers.name(header) == name)?;
        Some(self.addresses.of_section(index.0))
    }

    fn text_base(&self) -> Address {
        Address(self.address_of(b".text").unwrap_or(0))
    }

    /// Returns the address of the GOT. Like unwinders, this function reads it from the dynamic section.
    fn data_base(&self) -> Address {
        let headers = &self.headers;
        let dynamic =
            headers.segments.iter().find_map(|s| s.dynamic(headers.endian, headers.bytes).ok().flatten());
        for entry in dynamic.unwrap_or_default() {
            if entry.d_tag(headers.endian) == elf::DT_PLTGOT {
                return Address(entry.d_val(headers.endian));
            }
        }
        Address(self.address_of(b".got").unwrap_or(0))
    }
}
