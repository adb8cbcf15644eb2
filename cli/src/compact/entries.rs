//! Reads the entries for a new table, from a file's tables or from its CFI.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;

use anyhow::Context as _;
use cfipack_cfi::SectionKind;
use cfipack_container::{CallFrameSection, File, Kind};
use cfipack_decoder::unwind_info::{Error, Section};
use cfipack_encoder::unwind_info::{Entry, Layout};
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Mode};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, ImageOffset, LsdaKey};
use cfipack_roundtrip::unwind_info::Meaning;

use super::encodings::{EncodingMode, Encodings, Image};
use super::personalities::{Personalities, Personality, symbols_by_field};
use super::source::Source;
use crate::io::input;

/// The entries for a new table.
#[derive(Debug, Default)]
pub struct Entries {
    /// `unwind_info`, `compact_unwind` or `cfi`.
    pub source: &'static str,
    /// The entries, in any order.
    pub list: Vec<Entry>,
    /// The personalities of the entries.
    pub personalities: Personalities,
    /// The end of the code.
    pub end: Option<ImageOffset>,
    /// The encodings computed from the CFI, if entries come from it.
    pub encodings: Encodings,
    /// Image offsets count from this address.
    pub base: Address,
    /// If the entries come from a table: the functions that it has after its sentinel, where no reader finds them.
    pub after_sentinel: Vec<Address>,
    /// If the entries come from the CFI: the number of the file's own compact entries for code without an FDE.
    pub without_fde: u64,
}

impl Entries {
    /// Reads the entries of an image from its own table. The entries of an object come from its rows, and from the FDEs
    /// of functions without a row. For other files, and with `from_cfi`, the entries are computed from the CFI.
    pub fn collect(
        file: &File<'_>,
        source: &Source<'_, '_>,
        layout: Layout,
        from_cfi: bool,
    ) -> anyhow::Result<Self> {
        match (source.parse()?, &source.rows) {
            (Some(table), _) if !from_cfi => Self::of_table(&table, source, layout),
            (_, Some(_)) if !from_cfi => Self::of_object(file, source),
            _ => {
                let mut entries = Self::of_cfi(file)?;
                entries.without_fde = entries.count_without_fde(file, source)?;
                Ok(entries)
            }
        }
    }

    /// Counts the file's own compact entries for code without an FDE. Linkers remove the FDEs of functions with compact
    /// rows.
    fn count_without_fde(&self, file: &File<'_>, source: &Source<'_, '_>) -> anyhow::Result<u64> {
        let own = source.entries(file.arch(), self.base, source.code())?;
        let with_fde = self.list.iter().filter(|entry| entry.encoding != Encoding::NONE);
        let mut starts: Vec<_> =
            with_fde.map(|entry| self.base.offset(entry.function.image_offset().0.into())).collect();
        starts.sort_unstable();
        let lost = own.entries().iter().filter(|entry| {
            let after = starts.partition_point(|start| *start < entry.start);
            let has_fde = starts.get(after).is_some_and(|start| *start < entry.end);
            !has_fde && matches!(own.meaning(entry), Meaning::Row(..))
        });
        Ok(lost.count().to_u64())
    }

    fn of_table(table: &Section<'_>, source: &Source<'_, '_>, layout: Layout) -> anyhow::Result<Self> {
        let (name, base) = (|| "section __unwind_info", source.base());
        let mut lsdas: Vec<_> = table.all_lsdas().with_context(name)?.collect();
        lsdas.sort_by_key(|lsda| lsda.function);
        let slots: Vec<_> = table.personalities().collect();
        let mut personalities = Personalities::default();
        let (mut list, mut after_sentinel) = (Vec::new(), Vec::new());
        for entry in table.entries() {
            if let Err(Error::AfterSentinel { function, .. }) = entry {
                after_sentinel.push(base.offset(function.0.into()));
                continue;
            }
            let entry = entry.with_context(name)?;
            table.lsda(&entry).with_context(name)?;
            let lsda = lsdas.binary_search_by_key(&entry.start, |lsda| lsda.function);
            let slot = usize::from(entry.encoding.personality()).checked_sub(1).and_then(|i| slots.get(i));
            let pointer = slot.map(|slot| Personality::Address(base.offset(slot.0.into())));
            let personality = pointer.map(|pointer| personalities.number(pointer));
            // A number without a personality is kept: lld copies that field of an object's row.
            let encoding = if slot.is_some() { entry.encoding.with_personality(0) } else { entry.encoding };
            list.push(Entry {
                function: entry.start.into(),
                length: entry.end.0 - entry.start.0,
                encoding,
                personality,
                lsda: lsda.ok().and_then(|at| LsdaKey::at(lsdas[at].lsda)),
                fde: None,
            });
        }
        let mut end = table.index().last().map(|sentinel| sentinel.function);
        if let (Some(sentinel), Some(last)) = (&mut end, list.last_mut()) {
            // The sentinel may be one byte after the last function. So it need not be in a section of code.
            let is_after_code = source.is_end_of_section(base.offset(i64::from(sentinel.0) - 1));
            if is_after_code && last.length > 0 {
                (sentinel.0, last.length) = (sentinel.0 - 1, last.length - 1);
            }
            // If several symbols without unwind information follow each other, the table has the first, and the
            // sentinel is the address of the last.
            if last.encoding == Encoding::NONE && layout.ends_where_last_null_starts() {
                list.push(Entry::new(*sentinel, 0, Encoding::NONE));
            }
        }
        let source = "unwind_info";
        Ok(Self { source, list, personalities, end, base, after_sentinel, ..Self::default() })
    }

    fn of_object(file: &File<'_>, source: &Source<'_, '_>) -> anyhow::Result<Self> {
        let image = Image::new(Address(0));
        let mut personalities = Personalities::default();
        let compact = source.rows.as_ref();
        let rows = compact.map_or(&[][..], |compact| &compact.rows);
        // Skip rows in DWARF mode: the FDEs of their functions have all information.
        let rows = rows.iter().filter(|row| row.encoding.mode(file.arch()) != Some(Mode::Dwarf));
        let known: BTreeSet<_> = rows.clone().map(|row| row.function).collect();
        let sections = file.call_frame_sections()?;
        // A row has to leave its function to the FDE if the table has no room for its personality.
        let mut fdes = HashMap::new();
        let encodings = Encodings::compute(
            file,
            &sections,
            image,
            &mut personalities,
            |function, kind| {
                let start = function.key.address();
                let has_row = known.contains(&start);
                if has_row && kind == SectionKind::EhFrame {
                    fdes.insert(start, u32::try_from(function.fde.0).ok().and_then(NonZeroU32::new));
                }
                !has_row
            },
            EncodingMode::Dwarf,
        )?;
        let symbols = symbols_by_field(file, compact.and_then(|compact| compact.section.index))?;
        let mut list = encodings.entries.clone();
        for row in rows {
            let field = row.offset.0 + Row::personality_at(file.arch().pointer_size());
            let symbol = symbols.get(&field.to_u64()).map(|symbol| Personality::Symbol(*symbol));
            let personality = row.personality.and_then(|number| {
                if symbol.is_some() {
                    return symbol;
                }
                let personality = compact?.personalities.get(number.get().to_usize() - 1)?;
                Some(Personality::Address(personality.address?))
            });
            let lsda = match row.lsda {
                Some(lsda) => LsdaKey::at(image.offset(lsda)?),
                None => None,
            };
            list.push(Entry {
                function: image.offset(row.function)?.into(),
                length: row.length,
                encoding: row.encoding,
                personality: personality.map(|personality| personalities.number(personality)),
                lsda,
                fde: fdes.get(&row.function).copied().flatten(),
            });
        }
        let source = "compact_unwind";
        Self { source, list, personalities, encodings, ..Self::default() }.with_code(file, image)
    }

    fn of_cfi(file: &File<'_>) -> anyhow::Result<Self> {
        let sections = input::call_frame_sections(file)?;
        let base = base(file, &sections);
        let image = Image::new(base);
        let mut personalities = Personalities::default();
        let mode = EncodingMode::Compact;
        let mut encodings =
            Encodings::compute(file, &sections, image, &mut personalities, |_, _| true, mode)?;
        let list = std::mem::take(&mut encodings.entries);
        let source = "cfi";
        Self { source, list, personalities, encodings, base, ..Self::default() }.with_code(file, image)
    }

    /// Adds the end of the code, and an entry for every symbol of code that has no entry.
    fn with_code(mut self, file: &File<'_>, image: Image) -> anyhow::Result<Self> {
        let mut ranges: Vec<_> =
            self.list.iter().map(|entry| (entry.function.image_offset(), entry.length)).collect();
        ranges.sort_unstable();
        let end_of = ends_of_code(file)?;
        for address in file.symbols()?.addresses() {
            let Some(end) = end_of(address) else { continue };
            let Ok(start) = image.offset(address) else { continue };
            let before = ranges[..ranges.partition_point(|range| range.0 <= start)].last();
            let is_known =
                before.is_some_and(|&(first, length)| start == first || start.0 - first.0 < length);
            if !is_known {
                let length = u32::try_from(end.0.saturating_sub(address.0)).unwrap_or(u32::MAX);
                self.list.push(Entry::new(start, length, Encoding::NONE));
            }
        }
        if let Some((last, _)) = ranges.last()
            && let Some(end) = end_of(self.base.offset(last.0.into()))
        {
            self.end = Some(image.offset(end)?);
        }
        Ok(self)
    }

    /// Returns the pointer slot of a personality. An object has no slots yet, so its personalities get consecutive
    /// slots from 0 on, in the order of first use.
    pub fn slot(&self, file: &File<'_>, number: NonZeroU32) -> anyhow::Result<ImageOffset> {
        if file.kind() == Kind::Relocatable {
            return Ok(ImageOffset((number.get() - 1) * u32::from(file.arch().pointer_size())));
        }
        let pointer = self.personalities.pointer(number).unwrap_or(self.base);
        Image::new(self.base).offset(pointer).context("personality")
    }
}

/// Returns a function that finds the end of the section of code around an address.
fn ends_of_code(file: &File<'_>) -> anyhow::Result<impl Fn(Address) -> Option<Address>> {
    let sections = file.code_sections()?.into_iter().filter(|section| !section.bytes.is_empty());
    let mut ranges: Vec<_> = sections.map(|section| (section.address, section.bytes.len())).collect();
    ranges.sort_unstable();
    Ok(move |address: Address| {
        let after = ranges.partition_point(|&(start, _)| start <= address);
        let (start, size) = *ranges.get(after.checked_sub(1)?)?;
        (address.0 - start.0 < size.to_u64()).then(|| start.offset(size as i64))
    })
}

/// Returns the address from where image offsets count.
///
/// In a Mach-O file this is the address of the Mach-O header. In an ELF file it is 0 if 32 bits reach all functions,
/// and otherwise the address of the lowest section of code or CFI.
fn base(file: &File<'_>, sections: &[CallFrameSection<'_>]) -> Address {
    if let Some(macho) = file.as_macho() {
        return macho.image_base();
    }
    let code = file.code_sections().unwrap_or_default();
    let addresses = code.iter().chain(sections.iter().map(|section| &section.section));
    let addresses = addresses.map(|section| section.address);
    match (addresses.clone().min(), addresses.max()) {
        (Some(lowest), Some(highest)) if highest.0 > u32::MAX.into() => lowest,
        _ => Address(0),
    }
}
