//! Reads the entries of another linker's `__unwind_info`, so that tests can rebuild it.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};

/// Returns how many bytes a layout's sentinel is after the end of the code.
pub fn bytes_after_code(layout: Layout) -> u32 {
    [Layout::Ld64, Layout::Ld64V253, Layout::LdPrime27].contains(&layout).into()
}

/// The contents of a table. Personalities keep their numbers.
#[derive(Clone, Debug)]
pub struct Table {
    /// Every entry, as long as the distance to the next entry or to the sentinel.
    pub entries: Vec<Entry>,
    /// Pointer slots. Personality N has index N - 1.
    pub slots: Vec<ImageOffset>,
    /// The sentinel's function.
    pub end: ImageOffset,
    /// The common palette.
    pub common: Vec<Encoding>,
    /// Kind, number of entries and number of own encodings of each page.
    pub pages: Vec<(PageKind, usize, usize)>,
}

impl Table {
    /// Reads a section. Panics if it is broken.
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

    /// Builds the entries in a layout, with LSDAs of functions in DWARF mode.
    pub fn lay_out(&self, arch: Arch, layout: Layout) -> Vec<u8> {
        self.lay_out_with(arch, Options::new().with_layout(layout).with_keep_dwarf_lsda(true))
    }

    /// Builds the entries in a layout, beside an `__eh_frame` of `eh_frame_len` bytes. The table was made by the
    /// layout's linker, so its sentinel is where this linker puts it.
    pub fn lay_out_again(&self, arch: Arch, layout: Layout, eh_frame_len: u32) -> Vec<u8> {
        let mut table = self.clone();
        let late = bytes_after_code(layout);
        table.end.0 -= late;
        if let Some(last) = table.entries.last_mut() {
            last.length = last.length.saturating_sub(late);
        }
        table.lay_out_with(
            arch,
            Options::new().with_layout(layout).with_keep_dwarf_lsda(true).with_eh_frame_len(eh_frame_len),
        )
    }

    fn lay_out_with(&self, arch: Arch, options: Options) -> Vec<u8> {
        let slot_of = |number: u32| self.slots[number as usize - 1];
        let mut entries = self.entries.clone();
        if let Some(last) = entries.last()
            && last.encoding == Encoding::NONE
            && options.layout.ends_where_last_null_starts()
        {
            // ld64.lld treats code without information as empty. The sentinel is then the address of the last such
            // function, but the table has only the first.
            entries.push(Entry::new(self.end, 0, Encoding::NONE));
        }
        lay_out(arch, options, &entries, Some(self.end), slot_of)
    }
}

/// Builds a table of these entries in memory that was not zero. Panics on warnings, or if the table is larger than
/// promised.
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
