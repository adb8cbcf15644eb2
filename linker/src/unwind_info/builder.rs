//! [`Builder`]: collects the unwind information of objects and returns the section.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use cfipack_cfi as cfi;
use cfipack_encoder::unwind_info as encoder;
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Address, Arch, Key, PersonalityKey, SectionOffset, UnsupportedFormat};

use super::range::Range;
use super::{Fde, Field, Input, Part, Resolve, Section, Warning};

/// Builds the `__unwind_info` of a link from its objects. Call [`push`](Self::push) for each object, and
/// [`push_code`](Self::push_code) for each symbol in code. To use several threads, give each thread a
/// [`shard`](Self::shard) and [`absorb`](Self::absorb) the shards in a fixed order. [`finish`](Self::finish) returns
/// the [`Section`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) arch: Arch,
    pub(super) options: encoder::Options,
    /// The ranges in the order of pushing. An object has at most one range per function.
    pub(super) ranges: Vec<Range>,
    pub(super) personalities: Personalities,
    pub(super) warnings: Vec<Warning>,
}

impl Builder {
    /// Creates a builder for code of `arch`: x86-64, i386, arm64 or arm64_32.
    ///
    /// # Errors
    /// Returns an error if the format has no encodings for the architecture: s390x and big-endian AArch64.
    pub fn new(arch: Arch, options: encoder::Options) -> Result<Self, UnsupportedFormat> {
        encoder::Builder::new(arch, options)?;
        let (ranges, personalities, warnings) = (Vec::new(), Personalities::default(), Vec::new());
        Ok(Self { arch, options, ranges, personalities, warnings })
    }

    /// Returns an empty builder with the same options. Fill it on another thread and [`absorb`](Self::absorb) it
    /// later.
    #[must_use]
    pub fn shard(&self) -> Self {
        let (ranges, personalities, warnings) = (Vec::new(), Personalities::default(), Vec::new());
        Self { arch: self.arch, options: self.options, ranges, personalities, warnings }
    }

    /// Adds the contents of a shard, as if its objects had been pushed here. The same shards in the same order always
    /// give the same table.
    pub fn absorb(&mut self, shard: Self) {
        let numbers: Vec<u32> =
            shard.personalities.keys.iter().map(|&key| self.personalities.number(key)).collect();
        self.ranges.extend(shard.ranges.into_iter().map(|range| {
            let personality = range.personality.map(|number| numbers[number.to_usize()]);
            Range { personality, ..range }
        }));
        self.warnings.extend(shard.warnings);
    }

    /// Adds code that may have no unwind information, for example the code of a symbol. Without this call, the entry
    /// of the function before it would also cover this code. If an object describes the function, the object's
    /// description counts. ld64.lld does this for every symbol that is defined in code.
    ///
    /// With a length of 0, a symbol inside a described function adds nothing: a label, or an alternative entry. In the
    /// layouts of linkers it ends the function's entry, as there.
    pub fn push_code(&mut self, function: Key, length: u32) {
        self.ranges.push(Range::without_information(function, length));
    }

    /// Adds the unwind information of an object. These rules choose between descriptions of the same function:
    ///
    /// - Inside an object, a row of `__compact_unwind` that is not in DWARF mode counts, and the last row if there
    ///   are several. Otherwise the first FDE counts. If a function has such a row, its FDE is only used if the table
    ///   cannot hold the row.
    /// - Of several objects, the first object that describes the function counts. ld64.lld does the same: if
    ///   functions are folded, the first function stays.
    ///
    /// A record that cannot be read becomes a [warning](Section::warnings). After [`cfi::Error::Length`] the rest of
    /// the object's `__eh_frame` is not read.
    pub fn push(&mut self, input: &Input<'_>, resolve: &mut impl Resolve) {
        let first = self.ranges.len();
        self.push_rows(input, resolve);
        let rows = last_of_each(&mut self.ranges, first, self.arch);
        let fdes = self.read_fdes(input, resolve);
        let mut rest = &rows[..];
        for fde in fdes {
            rest = &rest[rest.partition_point(|row| row.0 < fde.function)..];
            match rest.first().filter(|row| row.0 == fde.function) {
                Some(&(_, at)) => self.add_fde(first + at.to_usize(), fde),
                None => self.ranges.push(fde),
            }
        }
    }

    /// Adds an FDE to the row of its function.
    fn add_fde(&mut self, at: usize, fde: Range) {
        let arch = self.arch;
        let row = &mut self.ranges[at];
        if row.is_dwarf(arch) || !row.has_information() {
            let inside = row.encoding.flags() & Flags::NOT_FUNCTION_START;
            *row = Range { encoding: fde.encoding.with_flags(inside), ..fde };
        } else {
            row.fde = fde.fde;
        }
    }

    fn push_rows(&mut self, input: &Input<'_>, resolve: &mut impl Resolve) {
        let pointer_size = self.arch.pointer_size();
        let size = Row::size(pointer_size);
        let rows = input.compact_unwind.chunks_exact(size);
        if let bytes @ 1.. = rows.remainder().len() {
            let offset = SectionOffset(input.compact_unwind.len() - bytes);
            self.warnings.push(Warning::IncompleteRow { object: input.object, offset, bytes });
        }
        for (bytes, at) in rows.zip((0..).step_by(size)) {
            let Some(row) = Row::read(bytes, pointer_size) else { continue };
            let field = |field: usize, stored: u64| Field {
                part: Part::CompactUnwind,
                offset: SectionOffset(at + field),
                target: (stored != 0 || field == Row::FUNCTION_AT).then_some(Address(stored)),
            };
            let Some(function) = resolve.function(field(Row::FUNCTION_AT, row.function)) else { continue };
            let mut range = Range::without_information(function, row.length);
            if row.encoding.mode_number() != 0 {
                let personality =
                    resolve.personality(field(Row::personality_at(pointer_size), row.personality));
                range.encoding = row.encoding;
                range.personality = personality.map(|key| self.personalities.number(key));
                range.lsda = resolve.lsda(field(Row::lsda_at(pointer_size), row.lsda));
            }
            self.ranges.push(range);
        }
    }

    /// Reads the FDEs. Returns the first FDE of each function, in the order of the functions' keys.
    fn read_fdes(&mut self, input: &Input<'_>, resolve: &mut impl Resolve) -> Vec<Range> {
        let Input { object, eh_frame, eh_frame_address, .. } = *input;
        let section = cfi::Section::new(cfi::SectionKind::EhFrame, eh_frame, eh_frame_address, self.arch);
        let field = |offset, target| Field { part: Part::EhFrame, offset, target };
        let mut fdes = Vec::new();
        let mut last_personality = None;
        for function in cfi::Functions::new(&section) {
            let fde = match function {
                Ok(fde) => fde,
                Err(error) => {
                    self.warnings.push(Warning::Cfi { object, error });
                    continue;
                }
            };
            let Some(function) = resolve.function(field(fde.start_field, fde.start)) else { continue };
            let length = u32::try_from(fde.size).unwrap_or(u32::MAX);
            let mut range = Range::without_information(function, length);
            range.encoding = Encoding::dwarf(self.arch, 0);
            range.fde = Some(Fde { object, offset: fde.fde });
            if let Some(cfi::Personality { field: offset, address, .. }) = fde.cie.personality {
                range.personality = match last_personality {
                    Some((last, number)) if last == offset => number,
                    _ => {
                        let key = resolve.personality(field(offset, address));
                        key.map(|key| self.personalities.number(key))
                    }
                };
                last_personality = Some((offset, range.personality));
            }
            if let Some(offset) = fde.lsda_field() {
                range.lsda = resolve.lsda(field(offset, fde.lsda().ok().flatten()));
            }
            fdes.push(range);
        }
        fdes.sort_by_cached_key(|range| range.function.0);
        fdes.dedup_by_key(|range| range.function);
        fdes
    }

    /// Returns the section. This decides everything that does not depend on addresses: which description of a
    /// function counts, and which personalities the table names.
    pub fn finish(self) -> Section {
        Section::new(self)
    }
}

/// Keeps one range per function among the ranges from `first` on: the last range with a compact encoding, otherwise
/// the last range in DWARF mode, otherwise the last range. Returns the kept functions in ascending order. Each
/// function comes with the number of its range, counted from `first`.
fn last_of_each(ranges: &mut Vec<Range>, first: usize, arch: Arch) -> Vec<(Key, u32)> {
    let all = &ranges[first..];
    if !all.is_sorted_by(|a, b| a.function < b.function) {
        let mut order: Vec<u32> = (0..all.len() as u32).rev().collect();
        order.sort_by_cached_key(|&at| {
            let range = &all[at.to_usize()];
            u64::from(!range.has_information()) << 1 | u64::from(range.is_dwarf(arch))
        });
        order.sort_by_cached_key(|&at| all[at.to_usize()].function.0);
        order.dedup_by_key(|at| all[(*at).to_usize()].function);
        let kept: Vec<Range> = order.into_iter().map(|at| all[at.to_usize()]).collect();
        ranges.truncate(first);
        ranges.extend(kept);
    }
    ranges[first..].iter().zip(0..).map(|(range, at)| (range.function, at)).collect()
}

/// The personalities of all objects, numbered by first use.
#[derive(Clone, Debug, Default)]
pub(super) struct Personalities {
    pub(super) keys: Vec<PersonalityKey>,
    numbers: BTreeMap<PersonalityKey, u32>,
    last: Option<(PersonalityKey, u32)>,
}

impl Personalities {
    fn number(&mut self, key: PersonalityKey) -> u32 {
        // Neighbouring functions nearly always have the same personality.
        if let Some((last, number)) = self.last
            && last == key
        {
            return number;
        }
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() as u32 - 1
        });
        self.last = Some((key, number));
        number
    }
}
