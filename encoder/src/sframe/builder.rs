//! Functions in, a section out.

use alloc::vec::Vec;

use cfipack_format::sframe::{Abi, FdeType, FreType, Header, Version};
use cfipack_format::{Arch, Key};

use crate::cfi::{Change, Function, Instructions, Interpreter, RowSink, State};
use crate::sframe::fast::cies::Cies;
use crate::sframe::fast::direct::Common;
use crate::sframe::rows::fres::Fres;
use crate::sframe::rows::gas_marks::GasMarks;
use crate::sframe::rows::gnu::{Gnu, GnuRows};
use crate::sframe::rows::small::{SmallRows, flags};
use crate::sframe::rows::stack_pointer::StackPointer;
use crate::sframe::rows::stubs::StubRows;
use crate::sframe::table::block::Blocks;
use crate::sframe::table::entries::{Entries, Omitted};
use crate::sframe::table::merge::merge;
use crate::sframe::table::overlap::separate;
use crate::sframe::{Layout, Options, Pool, Section, Serial};
use crate::{Reason, Unsupported, UnsupportedArch};

/// Takes functions, one after the other, a section's at once or, as shards that are [absorbed](Self::absorb) in a fixed
/// order, many at a time, and becomes a [`Section`].
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    pub(crate) abi: Abi,
    pub(crate) options: Options,
    pub(crate) interpreter: Interpreter<'a, StackPointer>,
    pub(crate) cies: Cies<'a>,
    pub(crate) common: Common,
    gnu: Gnu<'a>,
    pub(crate) fres: Fres,
    pub(crate) entries: Entries,
    /// Functions taken, by whose instructions DWARF does not say what they mean.
    pub(crate) outside_dwarf: u64,
    /// The same of functions that were refused.
    pub(crate) undefined: u64,
}

impl<'a> Builder<'a> {
    /// A builder for functions of `arch`.
    ///
    /// # Errors
    /// The format has no ABI for the architecture: i386 and arm64_32.
    pub fn new(arch: Arch, options: Options) -> Result<Self, UnsupportedArch> {
        Self::with_fres(arch, options, Fres::new(arch.endian()))
    }

    fn with_fres(arch: Arch, options: Options, fres: Fres) -> Result<Self, UnsupportedArch> {
        let abi = Abi::of(arch).ok_or(UnsupportedArch { arch, format: ".sframe" })?;
        let version = if options.version == Version::V3 { Version::V3 } else { Version::V2 };
        let options = Options { version, flex: options.flex && version == Version::V3, ..options };
        let seed = fres.seed();
        Ok(Self::with_seed(abi, options, fres, seed))
    }

    /// As [`new`](Self::new), for a few functions, as of a JIT that adds one to a region: the builder itself costs less,
    /// and each function more. The section is the same.
    ///
    /// # Errors
    /// As [`new`](Self::new)'s.
    pub fn for_few(arch: Arch, options: Options) -> Result<Self, UnsupportedArch> {
        Self::with_fres(arch, options, Fres::for_few(arch.endian()))
    }

    /// A builder without functions, with the same architecture and options: [absorbing](Self::absorb) it
    /// is quicker than any other.
    pub fn shard(&self) -> Self {
        let fres = Fres::new(self.abi.arch().endian());
        Self::with_seed(self.abi, self.options, fres, self.entries.blocks.seed())
    }

    fn with_seed(abi: Abi, options: Options, fres: Fres, seed: u64) -> Self {
        let blocks = Blocks::new(options, abi.arch().endian(), seed);
        let entries = Entries::new(blocks);
        let (cies, common) = (Cies::new(), Common::new());
        let interpreter = Interpreter::new();
        let gnu = Gnu::default();
        let (outside_dwarf, undefined) = (0, 0);
        Self { abi, options, interpreter, cies, common, gnu, fres, entries, outside_dwarf, undefined }
    }

    /// How many of the functions that were taken have instructions that are not DWARF's and that
    /// `cfipack-roundtrip` cannot judge (`DW_CFA_MIPS_advance_loc8`, `DW_CFA_GNU_negative_offset_extended`).
    /// What else DWARF does not define is refused.
    pub fn outside_dwarf(&self) -> u64 {
        self.outside_dwarf
    }

    /// Makes room for this many functions at once; best done first.
    pub fn reserve(&mut self, functions: usize) {
        self.entries.list.reserve(functions);
        let index = Header::SIZE + functions * self.options.version.fde_size();
        // Somewhat less than two thirds of a large program's functions share another's block.
        self.entries.blocks.reserve(index, functions / 5 * 2);
    }

    /// Adds a function. Its key is unique: [`Section::write`] asks for the address of each.
    ///
    /// Functions of [unrelocated](crate::cfi::Functions::keyed) input have a key and no address. What needs the
    /// address is refused with [`Reason::PlaceUnknown`]: `DW_CFA_set_loc`, PLTs, and all of them where
    /// [`Options::merge_functions`] merges neighbours. All functions of a builder have addresses, or none has: the
    /// others are refused with [`Reason::KeysMixed`].
    ///
    /// # Errors
    /// The format cannot express it, in layout `Gnu` gas leaves it out, or the section has no more room: the
    /// section has no row for it.
    #[inline]
    pub fn push(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        self.push_marked(function, &GasMarks::default())
    }

    /// As [`push`](Self::push), of a function whose directives are known.
    ///
    /// # Errors
    /// As [`push`](Self::push)'s.
    #[inline]
    pub fn push_marked(&mut self, function: &Function<'a>, marks: &GasMarks) -> Result<(), Unsupported> {
        let have_addresses = function.start.is_some();
        self.can_take(have_addresses).map_err(|reason| refused(function, reason))?;
        self.entries.have_addresses = Some(have_addresses);
        let before = self.entries.list.len();
        let pushed = match self.options.layout {
            Layout::Small => self.push_small(function),
            Layout::Gnu => self.push_gnu(function, marks),
        };
        if let Err(Unsupported { reason, .. }) = pushed {
            self.undefined += u64::from(reason.is_undefined() || self.is_undefined(function));
            // gas keeps some FDEs without rows, which nothing else answers for.
            if self.entries.list.len() == before {
                self.note_omitted(function.key, function.size);
            } else {
                self.entries.refused.push(before);
            }
        }
        pushed
    }

    /// Takes note of a function of `size` bytes that exists and is not pushed: no other function's rows are
    /// to answer for its PCs. Where functions have no addresses, [`Section::write`] asks for its address too. [`Self::push`] does so itself for what it refuses.
    #[cold]
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.entries.omitted.push(Omitted { start: function.0, size });
    }

    /// Whether functions can be taken that have addresses, or have none.
    #[inline]
    pub(crate) fn can_take(&self, have_addresses: bool) -> Result<(), Reason> {
        match self.entries.have_addresses {
            Some(others) if others != have_addresses => Err(Reason::KeysMixed),
            _ if !have_addresses && self.options.merges() => Err(Reason::PlaceUnknown),
            _ => Ok(()),
        }
    }

    /// As [`push`](Self::push) in layout `Small`, without the fast paths: what they are measured and tested
    /// against.
    ///
    /// # Errors
    /// As [`push`](Self::push)'s.
    #[doc(hidden)]
    pub fn push_general(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.abi.arch(), function)?;
        self.push_rows(function, size)
    }

    /// Takes note of a function whose record cannot be read ([`cfi::Error`](crate::cfi::Error)), which
    /// [`Options::merge_functions`] must know of: where it lies is unknown, so no gap is merged across.
    /// [`Self::push_all`] and [`Self::push_section`] see such records themselves.
    pub fn note_unread(&mut self) {
        self.entries.unread = true;
    }

    /// Ends the section: nothing is added any more.
    ///
    /// A lookup finds the last function that starts at or before a PC, so functions that share PCs are told
    /// apart here, by the addresses that the CFI gave: where functions of several sections of code have the same
    /// ones, as in objects whose sections all lie at 0, the sections must be laid out first.
    ///
    /// - A function is cut around those that lie in it or start in it: the table answers for the PCs of one that
    ///   was refused, or [omitted](Self::note_omitted), with nothing, and with its own rows before and after
    ///   those. In layout `Gnu` only functions around one that is not in the table are cut.
    /// - Functions of one start that do not say the same of the same PCs are not in the table:
    ///   [`Section::omitted`] has them, with [`Reason::Ambiguous`]. So is one that shares its start with one
    ///   that was refused. Those that say the same are one function in layout `Small`.
    ///
    /// Where functions without addresses lie is known only when the section is written, and its size does not
    /// depend on it: [`Section::write`] refuses those that share PCs.
    pub fn finish(self) -> Section {
        self.finish_on(&Serial)
    }

    /// As [`finish`](Self::finish), on the threads of a pool.
    pub fn finish_on(mut self, pool: &dyn Pool) -> Section {
        self.settle();
        let Self { abi, options, mut entries, .. } = self;
        if entries.have_addresses == Some(false) {
            return Section::new(abi, options, entries, Vec::new());
        }
        let omitted = separate(&mut entries, abi.arch(), options, pool);
        if options.merges()
            && let Ok(mut merged) = merge(abi.arch(), options, &entries)
        {
            merged.parts = entries.parts;
            entries = merged;
        }
        Section::new(abi, options, entries, omitted)
    }

    /// Looks up the blocks of the functions that came last.
    #[inline]
    pub(crate) fn settle(&mut self) {
        self.entries.settle(&mut self.fres);
    }

    fn push_small(&mut self, function: &Function<'a>) -> Result<(), Unsupported> {
        let size = check(self.abi.arch(), function)?;
        if size == 0 {
            return Ok(());
        }
        let number = if self.fres.room().is_some() { self.number(function) } else { None };
        let common = match number {
            Some(cie) => self.push_common(cie, function.key, &function.code(), size),
            None => false,
        };
        if common { Ok(()) } else { self.push_rows(function, size) }
    }

    #[inline]
    pub(crate) fn number(&mut self, function: &Function<'a>) -> Option<u8> {
        self.cies.number(function, self.options.version, &mut self.interpreter)
    }

    /// Adds a function of any kind.
    #[cold]
    pub(crate) fn push_rows(&mut self, function: &Function<'a>, size: u32) -> Result<(), Unsupported> {
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
        match result {
            Ok(()) => self.count(function),
            Err(_) => self.entries.back_to(before, &mut self.fres),
        }
        result
    }

    /// How many of the functions that were refused have CFI to which DWARF gives no meaning, be it behind
    /// what they were refused for: see [`Reason::is_undefined`].
    pub fn undefined(&self) -> u64 {
        self.undefined
    }

    #[cold]
    fn is_undefined(&mut self, function: &Function<'a>) -> bool {
        let ran = self.interpreter.run(function, &mut Unread);
        ran.is_err_and(|unsupported| unsupported.reason.is_undefined())
    }

    /// Counts a function that was not taken as a common one.
    fn count(&mut self, function: &Function<'a>) {
        let instructions = [function.cie.instructions, function.instructions];
        let has_outside = |bytes| Instructions::new(function, bytes).has_outside_dwarf();
        self.outside_dwarf += u64::from(instructions.into_iter().any(has_outside));
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
        rows.finish(size, layout, function.start.is_some()).map_err(|reason| refused(function, reason))
    }

    fn push_gnu(&mut self, function: &Function<'a>, marks: &GasMarks) -> Result<(), Unsupported> {
        let size = u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))?;
        let before = self.entries.mark();
        let mut rows = GnuRows::new(function, marks, &mut self.interpreter, &mut self.gnu, &mut self.fres);
        let result = check(self.abi.arch(), function).and_then(|_| rows.run(self.options.flex));
        match result {
            Ok(fde_type) => {
                self.end_gnu(function, size, fde_type).map_err(|reason| refused(function, reason))
            }
            Err(unsupported)
                if unsupported.reason == Reason::GasInstruction(0x0f) && marks.omitted.is_none() =>
            {
                // A PLT, whose FDEs are ld's work and not gas's.
                self.run_stubs(function, size).map(|()| self.count(function)).map_err(|_| {
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
        self.entries.add(function.key.0, size, &mut self.fres, info, fde_type, 0)
    }
}

/// Discards rows.
struct Unread;

impl<'a> RowSink<'a, StackPointer> for Unread {
    fn row(&mut self, _: &State<'a, StackPointer>, _: Change) -> Result<(), Reason> {
        Ok(())
    }
}

/// What must hold of a function before its instructions are looked at. Returns its size.
#[inline]
fn check(arch: Arch, function: &Function<'_>) -> Result<u32, Unsupported> {
    if function.arch() != arch {
        return Err(refused(function, Reason::Architecture));
    }
    if function.cie.return_address != arch.return_address() {
        return Err(refused(function, Reason::ReturnColumn(function.cie.return_address)));
    }
    u32::try_from(function.size).map_err(|_| refused(function, Reason::FunctionSize))
}

#[cold]
fn refused(function: &Function<'_>, reason: Reason) -> Unsupported {
    Unsupported::function(function.key, reason)
}

/// Whether gas leaves a function out for this reason too.
const fn is_of_gas(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::GasInstruction(_)
            | Reason::GasLabel
            | Reason::GasRegister(_)
            | Reason::ReturnColumn(_)
            | Reason::RowCount
            | Reason::CfaOffset(_)
            | Reason::CfaWithoutBase
            | Reason::FramePointerAlone
            | Reason::InstructionUnknown(_)
    )
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use super::{Arch, Builder, Options};

    /// The SFrame specification, "SFrame ABI/arch Identifier".
    #[test]
    fn a_builder_is_for_an_architecture_of_the_format() {
        for arch in [Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x] {
            assert!(Builder::new(arch, Options::default()).is_ok(), "{arch}");
        }
        for arch in [Arch::I386, Arch::Arm64_32] {
            let refused = Builder::new(arch, Options::default()).unwrap_err();
            assert_eq!(refused.to_string(), format!(".sframe is not defined for {arch}"));
            assert_eq!(refused.arch, arch);
        }
    }
}
