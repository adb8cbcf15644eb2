//! Functions in, a section out.

use cfipack_format::Arch;
use cfipack_format::sframe::{Abi, FdeType, FreType, Header, Version};

use super::block::Blocks;
use super::cies::Cies;
use super::direct::Common;
use super::entries::Entries;
use super::fres::Fres;
use super::gnu::{Gnu, GnuRows};
use super::merge::merge;
use super::small::{SmallRows, flags};
use super::stack_pointer::StackPointer;
use super::stubs::StubRows;
use super::{Layout, Options, Section};
use crate::cfi::{Function, Interpreter};
use crate::{Reason, Unsupported};

/// Takes functions, one after the other, a section's at once or, as shards that are [absorbed](Self::absorb) in a fixed
/// order, many at a time, and becomes a [`Section`].
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    pub(super) arch: Arch,
    pub(super) options: Options,
    pub(super) interpreter: Interpreter<'a, StackPointer>,
    pub(super) cies: Cies<'a>,
    pub(super) common: Common,
    gnu: Gnu<'a>,
    pub(super) fres: Fres,
    pub(super) entries: Entries,
    /// The most threads that functions were taken on.
    pub(super) threads: usize,
}

impl<'a> Builder<'a> {
    /// A builder for functions of `arch`. For i386 and arm64_32, which the format has no ABI
    /// for, every function is refused.
    pub fn new(arch: Arch, options: Options) -> Self {
        let version = if options.version == Version::V3 { Version::V3 } else { Version::V2 };
        let options = Options { version, flex: options.flex && version == Version::V3, ..options };
        let fres = Fres::new(arch.endian());
        let seed = fres.seed();
        Self::with_seed(arch, options, fres, seed)
    }

    /// A builder without functions, with the same architecture and options: [absorbing](Self::absorb) it
    /// is quicker than any other.
    pub fn shard(&self) -> Self {
        Self::with_seed(self.arch, self.options, Fres::new(self.arch.endian()), self.entries.blocks.seed())
    }

    fn with_seed(arch: Arch, options: Options, fres: Fres, seed: u64) -> Self {
        let blocks = Blocks::new(options, arch.endian(), seed);
        let entries = Entries::new(blocks);
        let (cies, common) = (Cies::new(), Common::new());
        let interpreter = Interpreter::new();
        let gnu = Gnu::default();
        Self { arch, options, interpreter, cies, common, gnu, fres, entries, threads: 1 }
    }

    /// Makes room for this many functions at once; best done first.
    pub fn reserve(&mut self, functions: usize) {
        self.entries.list.reserve(functions);
        let index = Header::SIZE + functions * self.options.version.fde_size();
        // Somewhat less than two thirds of a large program's functions share another's block.
        self.entries.blocks.reserve(index, functions / 5 * 2);
    }

    /// Adds a function.
    ///
    /// # Errors
    /// The format cannot express it, in layout `Gnu` gas leaves it out, or the section has no more room: the
    /// section has no row for it.
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

    /// As [`push`](Self::push) in layout `Small`, without the fast paths: what they are measured and tested
    /// against.
    ///
    /// # Errors
    /// As [`push`](Self::push)'s.
    #[doc(hidden)]
    pub fn push_general(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.arch, function)?;
        self.push_rows(function, size)
    }

    /// Takes note of a function whose record cannot be read ([`cfi::Error`](crate::cfi::Error)), which
    /// [`Options::merge_functions`] must know of: where it lies is unknown, so no gap is merged across.
    /// [`Self::push_all`] and [`Self::push_section`] see such records themselves.
    pub fn note_unread(&mut self) {
        self.entries.unread = true;
    }

    /// Ends the section: nothing is added any more.
    pub fn finish(mut self) -> Section {
        self.settle();
        let Self { arch, options, entries, threads, .. } = self;
        let merged = match options {
            Options { merge_functions: 2.., layout: Layout::Small, .. } => {
                merge(arch, options, &entries).ok()
            }
            _ => None,
        };
        Section::new(arch, options, merged.unwrap_or(entries), threads)
    }

    /// Looks up the blocks of the functions that came last.
    #[inline]
    pub(super) fn settle(&mut self) {
        self.entries.settle(&mut self.fres);
    }

    fn push_small(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.arch, function)?;
        if size == 0 {
            return Ok(());
        }
        let common = match self.number(function) {
            Some(cie) => self.push_common(cie, function.start, &function.code(), size),
            None => false,
        };
        if common { Ok(()) } else { self.push_rows(function, size) }
    }

    #[inline]
    pub(super) fn number(&mut self, function: &Function<'a>) -> Option<u8> {
        self.cies.number(function, self.options.version, &mut self.interpreter)
    }

    /// Adds a function of any kind.
    #[cold]
    pub(super) fn push_rows(&mut self, function: &Function<'a>, size: u32) -> Result<(), Unsupported> {
        if size == 0 {
            return Ok(());
        }
        let before = self.entries.mark();
        let result = self.run_small(function, size, FdeType::Default).or_else(|unsupported| {
            self.entries.back_to(before, &mut self.fres);
            if unsupported.reason == Reason::CfaExpression {
                self.run_stubs(function, size)
            } else if self.options.flex {
                self.run_small(function, size, FdeType::Flex)
            } else {
                Err(unsupported)
            }
        });
        result.inspect_err(|_| self.entries.back_to(before, &mut self.fres))
    }

    /// Interprets a function and adds its FDE, or several where it has too many rows for one.
    #[inline]
    fn run_small(
        &mut self,
        function: &Function<'a>,
        size: u32,
        fde_type: FdeType,
    ) -> Result<(), Unsupported> {
        let version = self.options.version;
        let mut rows = SmallRows::begin(function, version, fde_type, size, &mut self.fres, &mut self.entries);
        self.interpreter.run(function, &mut rows)?;
        rows.end_part(size).map_err(|reason| refused(function, reason))
    }

    #[cold]
    fn run_stubs(&mut self, function: &Function<'a>, size: u32) -> Result<(), Unsupported> {
        let Options { version, layout, .. } = self.options;
        let before =
            SmallRows::begin(function, version, FdeType::Default, size, &mut self.fres, &mut self.entries);
        let mut rows = StubRows { before, stubs: None };
        self.interpreter.run(function, &mut rows)?;
        rows.finish(size, layout).map_err(|reason| refused(function, reason))
    }

    fn push_gnu(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))?;
        let before = self.entries.mark();
        let mut rows = GnuRows::new(function, &mut self.interpreter, &mut self.gnu, &mut self.fres);
        let result = check(self.arch, function).and_then(|_| rows.run(self.options.flex));
        match result {
            Ok(fde_type) => {
                self.end_gnu(function, size, fde_type).map_err(|reason| refused(function, reason))
            }
            Err(unsupported) if unsupported.reason == Reason::GasInstruction(0x0f) => {
                // A PLT, whose FDEs are ld's work and not gas's.
                self.run_stubs(function, size).map_err(|_| {
                    self.entries.back_to(before, &mut self.fres);
                    unsupported
                })
            }
            Err(unsupported) => Err(unsupported),
        }
        .inspect_err(|unsupported| {
            // gas keeps the FDE of a signal frame and drops its rows.
            if function.cie.signal_frame && is_of_gas(unsupported.reason) {
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
    if function.arch() != arch || Abi::of(arch).is_none() {
        return Err(refused(function, Reason::Architecture));
    }
    if function.cie.return_address != arch.return_address() {
        return Err(refused(function, Reason::ReturnColumn(function.cie.return_address)));
    }
    u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))
}

#[cold]
fn refused(function: &Function<'_>, reason: Reason) -> Unsupported {
    Unsupported { function: function.start, pc: function.start, reason }
}

/// Whether gas leaves a function out for this reason too.
const fn is_of_gas(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::GasInstruction(_)
            | Reason::GasRegister(_)
            | Reason::ReturnColumn(_)
            | Reason::RowCount
            | Reason::CfaOffset(_)
            | Reason::CfaWithoutBase
            | Reason::FramePointerAlone
            | Reason::InstructionUnknown(_)
    )
}
