//! Reads the entries of an `__unwind_info` of another linker, from which tests rebuild it.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};

/// All layouts.
pub const LAYOUTS: [Layout; 5] =
    [Layout::Small, Layout::Lld, Layout::LdPrime, Layout::Ld64, Layout::Ld64V253];

/// The layouts of ld64, whose sentinel is a byte after the end of the code.
pub const LAYOUTS_OF_LD64: [Layout; 2] = [Layout::Ld64, Layout::Ld64V253];

/// Bytes from the end of the code to a layout's sentinel.
pub fn bytes_after_code(layout: Layout) -> u32 {
    LAYOUTS_OF_LD64.contains(&layout).into()
}

/// The contents of a table. Personalities are identified by their numbers in it.
#[derive(Clone, Debug)]
pub struct Table {
    /// Every entry, its length up to the next one's start or the sentinel.
    pub entries: Vec<Entry>,
    /// Pointer slots by personality number, less one.
    pub slots: Vec<ImageOffset>,
    /// The sentinel's function.
    pub end: ImageOffset,
    /// The common palette.
    pub common: Vec<Encoding>,
    /// Kind, number of entries, size of its own palette.
    pub pages: Vec<(PageKind, usize, usize)>,
}

impl Table {
    /// Reads a section; panics if it is broken.
    pub fn read(bytes: &[u8]) -> Self {
        let section = Section::parse(bytes).unwrap();
        let lsdas = section.all_lsdas().unwrap().map(|lsda| (lsda.function, lsda.lsda.0)).collect::<Vec<_>>();
        assert!(lsdas.is_sorted(), "LSDAs out of order");
        let entries = section.entries().map(|entry| {
            let entry = entry.unwrap();
            let lsda = lsdas.binary_search_by_key(&entry.start, |lsda| lsda.0);
            Entry {
                function: entry.start.into(),
                length: entry.end.0 - entry.start.0,
                encoding: Encoding(entry.encoding.0 & !0x3000_0000),
                personality: NonZeroU32::new(entry.encoding.personality().into()),
                lsda: lsda.ok().and_then(|at| LsdaKey::at(ImageOffset(lsdas[at].1))),
                fde: None,
            }
        });
        let pages = section.pages().map(|page| {
            let page = page.unwrap();
            (page.kind(), page.len(), page.local_encodings().len())
        });
        Self {
            entries: entries.collect(),
            slots: section.personalities().collect(),
            end: section.index().last().unwrap().function,
            common: section.common_encodings().collect(),
            pages: pages.collect(),
        }
    }

    /// The entries in a layout, the LSDAs of DWARF-mode functions among them.
    pub fn lay_out(&self, arch: Arch, layout: Layout) -> Vec<u8> {
        self.lay_out_with(arch, Options::new().with_layout(layout).with_keep_dwarf_lsda(true))
    }

    /// The entries in a layout of ld64, beside an `__eh_frame` of so many bytes.
    pub fn lay_out_ld64(&self, arch: Arch, layout: Layout, eh_frame_len: u32) -> Vec<u8> {
        // Its sentinel lies one byte after the end of the code.
        let mut table = self.clone();
        table.end.0 -= 1;
        if let Some(last) = table.entries.last_mut() {
            last.length -= 1;
        }
        table.lay_out_with(arch, Options::new().with_layout(layout).with_eh_frame_len(eh_frame_len))
    }

    fn lay_out_with(&self, arch: Arch, options: Options) -> Vec<u8> {
        let slot_of = |number: u32| self.slots[number as usize - 1];
        let mut entries = self.entries.clone();
        if let Some(last) = entries.last()
            && last.encoding == Encoding::NONE
        {
            // ld64.lld takes code without information to be of no length: the sentinel is the last one's
            // address, of which only the first one's is in the table.
            entries.push(Entry::new(self.end, 0, Encoding::NONE));
        }
        lay_out(arch, options, &entries, Some(self.end), slot_of)
    }
}

/// A table of these entries, written into memory that was not zero. Panics if it has warnings or
/// is larger than was promised.
pub fn lay_out(
    arch: Arch,
    options: Options,
    entries: &[Entry],
    end: Option<ImageOffset>,
    slot_of: impl Fn(u32) -> ImageOffset,
) -> Vec<u8> {
    let mut builder = Builder::new(arch, options).expect("an architecture of the format");
    for &entry in entries {
        builder.push(entry);
    }
    let section = builder.finish();
    assert!(section.warnings().is_empty(), "{}", section.warnings()[0]);
    let placed = section.place(end, Key::image_offset, LsdaKey::image_offset).unwrap();
    assert!(placed.len() <= section.max_len(), "{} bytes, {} promised", placed.len(), section.max_len());
    let mut bytes = vec![0xaa; placed.len()];
    placed.write(&mut bytes, |personality| slot_of(personality.get())).unwrap();
    bytes
}
