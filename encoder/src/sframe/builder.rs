//! Functions in, a section out.

use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::sframe::{Abi, FdeInfo, FdeType, FreType, Header, Version};
use cfipack_format::{Address, Arch, SectionOffset};

use super::block::{Blocks, GROUP, WideAttribute};
use super::cies::Cies;
use super::common::Common;
use super::fre::{BUFFER, Fres};
use super::gnu::GnuRows;
use super::memo::{Key, Memo, Remembered, without_trailing_zeros};
use super::merge::merge;
use super::small::{SmallRows, flags};
use super::stack_pointer::StackPointer;
use super::stubs::StubRows;
use super::{Layout, Options, Section};
use crate::cfi::{self, Code, Function, Functions, Interpreter, Ran};
use crate::{Reason, Unsupported};

/// One entry of the function index in the making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The start that the CFI gives.
    pub(super) start: u64,
    pub(super) size: u32,
    /// The number of its [`Block`](super::block::Block).
    pub(super) block: u32,
}

/// Entries and the blocks they refer to.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    pub(super) list: Vec<Entry>,
    pub(super) blocks: Blocks,
    /// Rows of all entries together.
    pub(super) num_fres: u64,
    /// Starts of functions that were refused, which nothing may be merged across; only kept for that.
    pub(super) refused: Vec<u64>,
}

impl Entries {
    #[inline]
    pub(super) fn push(&mut self, start: u64, size: u32, block: u32, num_fres: u32) {
        self.num_fres += u64::from(num_fres);
        self.list.push(Entry { start, size, block });
    }

    /// How far the entries have come.
    #[inline]
    pub(super) fn mark(&self) -> (usize, u64) {
        (self.list.len(), self.num_fres)
    }

    /// Takes back what was added since `mark`; blocks stay, unused.
    pub(super) fn back_to(&mut self, mark: (usize, u64)) {
        self.list.truncate(mark.0);
        self.num_fres = mark.1;
    }

    /// Adds an entry for the FREs in `fres`.
    #[inline]
    pub(super) fn add(
        &mut self,
        start: u64,
        size: u32,
        fres: &mut Fres,
        info: FdeInfo,
        fde_type: FdeType,
        rep_size: u8,
    ) -> Result<(), Reason> {
        let block = self.blocks.add(fres, info, fde_type, rep_size)?;
        self.push(start, size, block, fres.count());
        Ok(())
    }
}

/// A function that a section goes without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// It cannot be expressed.
    Unsupported(Unsupported),
    /// Its FDE or CIE cannot be read. After [`cfi::Error::Length`] nothing behind it was found.
    Malformed(cfi::Error),
}

/// An entry whose FREs are in the buffer: their block is looked up for several entries at once.
#[derive(Clone, Debug)]
struct Waiting {
    /// Where its block lies in the buffer.
    place: Range<usize>,
    hash: u32,
    attribute: Option<WideAttribute>,
    /// The entry's number.
    entry: u32,
}

/// The block of an entry that waits: no block has this number, since none is empty.
const WAITING: u32 = u32::MAX;

/// Takes functions, one after the other or, as shards that are [absorbed](Self::absorb) in a fixed
/// order, many at a time, and becomes a [`Section`].
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    pub(super) arch: Arch,
    pub(super) options: Options,
    interpreter: Interpreter<'a, StackPointer>,
    cies: Cies<'a>,
    memo: Memo,
    common: Common,
    fres: Fres,
    entries: Entries,
    waiting: Vec<Waiting>,
}

impl<'a> Builder<'a> {
    /// A builder for functions of `arch`. For i386 and arm64_32, which the format has no ABI
    /// for, every function is refused.
    pub fn new(arch: Arch, options: Options) -> Self {
        let version = if options.version == Version::V3 { Version::V3 } else { Version::V2 };
        let options = Options { version, flex: options.flex && version == Version::V3, ..options };
        let fres = Fres::new(arch.endian());
        // Where the allocator put something is as good as random to whoever wrote the input.
        let seed = fres.address() as u64;
        let blocks = Blocks::new(version, options.layout, arch.endian(), seed);
        let entries = Entries { list: Vec::new(), blocks, num_fres: 0, refused: Vec::new() };
        let (cies, memo, common) = (Cies::new(), Memo::new(), Common::new());
        Self {
            arch,
            options,
            interpreter: Interpreter::new(),
            cies,
            memo,
            common,
            fres,
            entries,
            waiting: Vec::new(),
        }
    }

    /// Makes room for this many functions at once; best done first.
    pub fn reserve(&mut self, functions: usize) {
        self.entries.list.reserve(functions);
        let index = Header::SIZE + functions * self.options.version.fde_size();
        // Two thirds of a large program's functions share another's block.
        self.entries.blocks.reserve(index, functions / 3);
    }

    /// Adds a function, or says why it cannot be expressed; the section then goes without it.
    #[inline]
    pub fn push(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let pushed = match self.options.layout {
            Layout::Small => self.push_small(function),
            Layout::Gnu => self.push_gnu(function),
        };
        if pushed.is_err() && self.options.merge_functions > 1 {
            self.entries.refused.push(function.start.0);
        }
        pushed
    }

    /// Makes room for functions if no room was made yet.
    pub(super) fn expect(&mut self, functions: &Functions<'_>) {
        if self.entries.list.capacity() == 0 {
            self.reserve(functions.estimate());
        }
    }

    /// Adds a section's functions, all that are left, faster than one by one. `left_out` is told of
    /// each that is not in the section, in order. Returns how many functions there were.
    pub fn push_all(&mut self, mut functions: Functions<'a>, mut left_out: impl FnMut(LeftOut)) -> u64 {
        self.expect(&functions);
        let mut count = 0;
        // The CIEs of late and their numbers.
        let mut numbers = [(SectionOffset(usize::MAX), 0); 8];
        let can_be_common = self.options.layout == Layout::Small && functions.arch() == self.arch;
        let next_plain = |functions: &mut Functions<'a>| functions.next_plain().filter(|_| can_be_common);
        let mut next = next_plain(&mut functions);
        loop {
            let function = if let Some(plain) = next {
                // Early, so that memory has time to bring it.
                next = next_plain(&mut functions);
                let (cie, number) = numbers[plain.cie.0 / 4 % numbers.len()];
                if cie == plain.cie && self.push_code(number, plain.start, plain.size, &plain.code).is_ok() {
                    count += 1;
                    continue;
                }
                functions.function_at(plain.at)
            } else {
                let Some(function) = functions.next() else { return count };
                next = next_plain(&mut functions);
                function
            };
            count += 1;
            match function {
                Ok(function) => {
                    if let Err(unsupported) = self.push(&function) {
                        left_out(LeftOut::Unsupported(unsupported));
                    } else if let Some(number) = self.number(&function) {
                        let cie = function.cie.offset;
                        numbers[cie.0 / 4 % numbers.len()] = (cie, number);
                    }
                }
                Err(error) => left_out(LeftOut::Malformed(error)),
            }
        }
    }

    /// Adds what a builder with the same architecture and options has taken, as if its functions
    /// had been pushed here one by one.
    pub fn absorb(&mut self, mut shard: Self) -> Result<(), Reason> {
        self.settle();
        shard.settle();
        let numbers = self.entries.blocks.absorb(&shard.entries.blocks)?;
        let moved =
            shard.entries.list.iter().map(|entry| Entry { block: numbers[entry.block as usize], ..*entry });
        self.entries.list.extend(moved);
        self.entries.num_fres += shard.entries.num_fres;
        self.entries.refused.extend(shard.entries.refused);
        Ok(())
    }

    /// Ends the section: nothing is added any more.
    pub fn finish(mut self) -> Section {
        self.settle();
        let Self { arch, options, entries, .. } = self;
        let merged = match options {
            Options { merge_functions: 2.., layout: Layout::Small, .. } => {
                merge(arch, options, &entries).ok()
            }
            _ => None,
        };
        Section::new(arch, options, merged.unwrap_or(entries))
    }

    fn push_small(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.arch, function)?;
        let key = match self.number(function) {
            Some(cie) => match self.push_code(cie, function.start, size, &function.code()) {
                Ok(()) => return Ok(()),
                Err(key) => key,
            },
            None => None,
        };
        self.push_rows(function, size, key)
    }

    #[inline]
    fn number(&mut self, function: &Function<'a>) -> Option<u8> {
        self.cies.number(function, self.options.version, &mut self.interpreter)
    }

    /// Adds a function if it is of the common kind or one like it was seen before. If not: where to
    /// remember it.
    #[inline(always)]
    fn push_code(&mut self, cie: u8, start: Address, size: u32, code: &Code<'a>) -> Result<(), Option<Key>> {
        if size == 0 {
            return Err(None);
        }
        let needed = without_trailing_zeros(code.instructions());
        let key = match self.memo.find(cie, code, needed, size) {
            Ok(found) => {
                let block = self.block_of(found.entry);
                self.entries.push(start.0, size, block, found.num_fres);
                return Ok(());
            }
            Err(key) => key,
        };
        let common = self.cies.common(cie).ok_or(key)?;
        let ran = self.common.run(common, code, needed, size, &mut self.fres).ok_or(key)?;
        let blocks = &self.entries.blocks;
        if !blocks.has_room(BUFFER) {
            return Err(None);
        }
        let attribute = blocks.begin_block(&mut self.fres, common.info, FdeType::Default, 0);
        let place = self.fres.place(self.options.version);
        let hash = blocks.hash(self.fres.at(place.clone()));
        let entry = self.entries.list.len() as u32;
        let num_fres = self.fres.count();
        self.waiting.push(Waiting { place, hash, attribute, entry });
        self.entries.push(start.0, size, WAITING, num_fres);
        if let Some(key) = key {
            self.memo.remember(key, ran, size, Remembered { entry, num_fres });
        }
        self.fres.keep();
        if self.waiting.len() == GROUP || !self.fres.has_room() {
            self.settle();
        }
        Ok(())
    }

    /// Finds the blocks of the entries that wait for theirs.
    fn settle(&mut self) {
        let Self { waiting, entries: Entries { list, blocks, .. }, fres, .. } = self;
        blocks.touch(waiting.iter().map(|waiting| waiting.hash));
        for Waiting { place, hash, attribute, entry } in waiting.drain(..) {
            list[entry as usize].block = blocks.add_block(hash, fres.at(place), attribute);
        }
        fres.clear();
    }

    /// The block of an entry, which may wait for it.
    #[inline(always)]
    fn block_of(&mut self, entry: u32) -> u32 {
        if self.entries.list[entry as usize].block == WAITING {
            self.settle();
        }
        self.entries.list[entry as usize].block
    }

    /// Adds a function of any kind.
    #[cold]
    fn push_rows(&mut self, function: &Function<'a>, size: u32, key: Option<Key>) -> Result<(), Unsupported> {
        if size == 0 {
            return Ok(());
        }
        self.settle();
        let before = self.entries.mark();
        let ran = self.run_small(function, size, FdeType::Default).or_else(|unsupported| {
            self.entries.back_to(before);
            if unsupported.reason == Reason::CfaExpression {
                self.run_stubs(function, size)
            } else if self.options.flex {
                self.run_small(function, size, FdeType::Flex)
            } else {
                Err(unsupported)
            }
        });
        let ran = ran.inspect_err(|_| self.entries.back_to(before))?;
        if let (Some(key), [_]) = (key, &self.entries.list[before.0..]) {
            let num_fres = (self.entries.num_fres - before.1) as u32;
            self.memo.remember(key, ran, size, Remembered { entry: before.0 as u32, num_fres });
        }
        Ok(())
    }

    /// Interprets a function and adds its FDE, or several where it has too many rows for one.
    #[inline]
    fn run_small(
        &mut self,
        function: &Function<'a>,
        size: u32,
        fde_type: FdeType,
    ) -> Result<Ran, Unsupported> {
        let version = self.options.version;
        let mut rows = SmallRows::begin(function, version, fde_type, size, &mut self.fres, &mut self.entries);
        let ran = self.interpreter.run(function, &mut rows)?;
        rows.end_part(size).map_err(|reason| refused(function, reason))?;
        Ok(ran)
    }

    #[cold]
    fn run_stubs(&mut self, function: &Function<'a>, size: u32) -> Result<Ran, Unsupported> {
        let Options { version, layout, .. } = self.options;
        let before =
            SmallRows::begin(function, version, FdeType::Default, size, &mut self.fres, &mut self.entries);
        let mut rows = StubRows { before, stubs: None };
        let ran = self.interpreter.run(function, &mut rows)?;
        rows.finish(size, layout).map_err(|reason| refused(function, reason))?;
        Ok(ran)
    }

    fn push_gnu(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))?;
        let before = self.entries.mark();
        let mut rows = GnuRows::new(function, &mut self.interpreter, &mut self.fres);
        let result = check(self.arch, function).and_then(|_| rows.run(self.options.flex));
        match result {
            Ok(fde_type) => {
                self.end_gnu(function, size, fde_type).map_err(|reason| refused(function, reason))
            }
            Err(unsupported) if unsupported.reason == Reason::GasInstruction(0x0f) => {
                // A PLT, whose FDEs are ld's work and not gas's.
                let stubs = self.run_stubs(function, size).map(|_| ());
                stubs.map_err(|_| {
                    self.entries.back_to(before);
                    unsupported
                })
            }
            Err(unsupported) => Err(unsupported),
        }
        .inspect_err(|unsupported| {
            // gas keeps the FDE of a signal frame and drops its rows.
            if function.cie.signal_frame && unsupported.reason.is_gas_own() {
                self.fres.begin(FreType::for_start(size));
                let _ = self.end_gnu(function, size, FdeType::Default);
            }
        })
    }

    fn end_gnu(&mut self, function: &Function<'a>, size: u32, fde_type: FdeType) -> Result<(), Reason> {
        let info = flags(&function.cie, self.options.version);
        self.entries.add(function.start.0, size, &mut self.fres, info, fde_type, 0)
    }
}

/// What must hold of a function before its instructions are looked at. Returns its size.
#[inline]
fn check(arch: Arch, function: &Function<'_>) -> Result<u32, Unsupported> {
    if function.cie.return_address != arch.return_address() {
        return Err(refused(function, Reason::ReturnColumn(function.cie.return_address)));
    }
    if function.arch() != arch || Abi::of(arch).is_none() {
        return Err(refused(function, Reason::Architecture));
    }
    u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))
}

#[cold]
fn refused(function: &Function<'_>, reason: Reason) -> Unsupported {
    Unsupported { function: function.start, pc: function.start, reason }
}
