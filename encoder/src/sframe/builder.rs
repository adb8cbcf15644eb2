//! The [`Builder`], which turns functions into a [`Section`].

use alloc::vec::Vec;

use cfipack_format::sframe::{Abi, Header};
use cfipack_format::{Arch, Key};

use crate::UnsupportedFormat;
use crate::cfi::StackPointer;
use crate::cfi::{Function, Interpreter};
use crate::sframe::draft::Draft;
use crate::sframe::fast::cies::Cies;
use crate::sframe::fast::direct::Common;
use crate::sframe::fast::memo::Memo;
use crate::sframe::finish::Finish;
use crate::sframe::options::Options;
use crate::sframe::rows::gnu::Gnu;
use crate::sframe::table::entries::Omitted;
use crate::sframe::table::merge::merge;
use crate::sframe::table::overlap::separate;
use crate::sframe::table::section::Section;

/// Builds a `.sframe` section from functions.
///
/// Push functions one at a time with [`push`](Self::push), or a whole `.eh_frame` with
/// [`push_all`](Self::push_all). To use several threads, give each thread a [`shard`](Self::shard) and
/// [`absorb`](Self::absorb) the shards in a fixed order: the bytes do not depend on the number of threads.
/// [`finish`](Self::finish) returns the [`Section`].
///
/// ```
/// use cfipack_encoder::sframe::{Builder, EncodedRows, Options, TableFunction};
/// use cfipack_format::{Address, Arch, Key};
///
/// // Two functions of 16 bytes with the same encoded rows: a single row, from 0: CFA = sp + 8.
/// let mut builder = Builder::new(Arch::Amd64, Options::new())?;
/// let rows = builder.push_table(&TableFunction::new(Key(1), 16), EncodedRows::new(&[0, 3, 8], 1))?;
/// builder.push_table(&TableFunction::new(Key(2), 16), rows.expect("rows of one FDE"))?;
/// let section = builder.finish();
/// assert_eq!(section.len(), 28 + 2 * 16 + 5 + 3); // header, index; shared attribute and row
/// let bytes = section.into_bytes(Address(0x2000), |key| Address(0x1000 * key.0))?;
/// assert_eq!(bytes[60..], [1, 0, 0, 0, 0, 0, 3, 8]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    pub(crate) draft: Draft<'a>,
    pub(crate) machines: Machines<'a>,
    pub(super) undefined_cfi: u64,
}

/// The interpreters of call frame information, and the facts that they remember about CIEs.
#[derive(Clone, Debug)]
pub(crate) struct Machines<'a> {
    /// Interprets any function.
    pub(crate) interpreter: Interpreter<'a, StackPointer>,
    /// Interprets common functions on the [fast path](crate::sframe::fast), with the CIEs in `cies`.
    pub(crate) common: Common,
    pub(crate) cies: Cies<'a>,
    /// Remembers the rows of common functions.
    pub(crate) memo: Memo<'a>,
    /// Interprets functions for layout `Gnu`.
    pub(super) gnu: Gnu<'a>,
}

impl<'a> Builder<'a> {
    /// Creates a builder for functions of `arch`.
    ///
    /// # Errors
    /// The format has no ABI for the architecture, for example for i386 and arm64_32, or the options ask for
    /// version 1, which the builder does not write.
    pub fn new(arch: Arch, options: Options) -> Result<Self, UnsupportedFormat> {
        let format = ".sframe";
        let abi = Abi::for_arch(arch).ok_or(UnsupportedFormat::Arch { arch, format })?;
        let version = options.version;
        if version != version.writable() {
            return Err(UnsupportedFormat::Version { version, format });
        }
        let options = Options { flex: options.flex && version.has_flex(), ..options };
        Ok(Self::with_seed(abi, options, None))
    }

    /// Creates an empty builder with the same architecture and options, to be filled on another thread and then
    /// [absorbed](Self::absorb). Absorbing a shard is faster than absorbing a builder that you create with
    /// [`new`](Self::new), because the shard hashes rows as this builder does.
    pub fn shard(&self) -> Self {
        Self::with_seed(self.draft.abi, self.draft.options, Some(self.draft.entries.blocks.seed()))
    }

    /// Creates a builder that hashes blocks with `seed`, or with a seed of its own if `seed` is `None`.
    pub(crate) fn with_seed(abi: Abi, options: Options, seed: Option<u64>) -> Self {
        let machines = Machines {
            interpreter: Interpreter::new(),
            common: Common::new(),
            cies: Cies::new(),
            memo: Memo::default(),
            gnu: Gnu::default(),
        };
        Self { draft: Draft::new(abi, options, seed), machines, undefined_cfi: 0 }
    }

    /// Allocates memory for `functions` functions. Call this before you push the first function.
    ///
    /// `fre_bytes` is the total size of the rows, with their attributes, in bytes. Give it if you know it,
    /// which is possible if the [rows are encoded already](Self::push_table). Do not count rows that you
    /// [lend](Self::push_lent).
    pub fn reserve(&mut self, functions: usize, fre_bytes: Option<usize>) {
        let index = Header::SIZE + functions * self.draft.options.version.fde_size();
        self.draft.reserve_after(index, functions, fre_bytes);
    }

    /// Allocates memory as [`reserve`](Self::reserve) does, but none for the index. Use this function if you
    /// [write](Section::write) the section into other memory.
    pub fn reserve_for_write(&mut self, functions: usize, fre_bytes: Option<usize>) {
        self.draft.reserve_after(0, functions, fre_bytes);
    }

    /// Frees memory that only pushing needs. Call this for a [`shard`](Self::shard) that has to wait until it is
    /// absorbed: without it, each shard holds what it remembers of the functions.
    pub fn shrink_to_fit(&mut self) {
        self.draft.flush();
        self.draft.entries.rest();
        self.draft.fres.shrink();
        self.machines.memo = Memo::default();
    }

    /// Records a function of `size` bytes that exists and is not pushed, so that no other function's rows
    /// answer for its PCs. If functions have no addresses yet, [`Section::write`] asks for the address of this
    /// function too. You need not call this for a function that [`push`](Self::push) has refused.
    #[cold]
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.draft.entries.omitted.push(Omitted { start: function.0, size });
    }

    /// Records that a function exists whose FDE or CIE cannot be read ([`cfi::Error`](crate::cfi::Error)). The
    /// function's place is unknown, so [`Options::merge_functions`] then merges no functions across a gap.
    /// [`push_all`](Self::push_all) does this itself.
    pub fn note_unread(&mut self) {
        self.draft.entries.unread = true;
    }

    /// Finishes the section.
    ///
    /// A lookup finds the last function that starts at or before a PC. Functions that share PCs would
    /// therefore hide each other's rows. This function separates them by the addresses in the CFI. In
    /// objects, each section of code starts at 0, so lay out the sections before you push functions.
    ///
    /// - A function is cut around every function that starts inside it. The outer function's rows answer for
    ///   the PCs before and after the inner function. If the inner function was refused or
    ///   [omitted](Self::note_omitted), no row answers for the inner function's PCs. Layout `Gnu` cuts
    ///   functions only around a function that is not in the table.
    /// - If functions with the same start have different rows for a PC, none of these functions is in the
    ///   table, and [`Section::omitted`] lists them with
    ///   [`Reason::Ambiguous`](cfipack_format::Reason::Ambiguous). The same holds for a function that shares its
    ///   start with a refused function. If all their rows are equal, layout `Small` keeps one of the functions.
    ///
    /// If functions have no addresses, overlaps are found when the section is written. The size is fixed by
    /// then, so [`Section::write`] omits functions that share PCs. [`Finish::with_placed_keys`] lets you
    /// separate them here instead.
    pub fn finish(self) -> Section<'a> {
        self.finish_with(Finish::new())
    }

    /// Finishes the section as [`finish`](Self::finish) does, on the threads of a pool, or [by
    /// keys](Finish::with_placed_keys).
    pub fn finish_with(mut self, finish: Finish<'_>) -> Section<'a> {
        self.draft.entries.settle_on(finish.pool);
        self.draft.flush();
        self.machines.memo = Memo::default();
        let Draft { abi, options, mut entries, .. } = self.draft;
        let placed = entries.have_addresses != Some(false);
        if !placed && !finish.placed_keys {
            return Section::new(abi, options, entries, Vec::new(), placed);
        }
        entries.have_addresses = Some(true);
        let omitted = separate(&mut entries, abi.arch(), options, placed, finish.pool);
        if options.merges()
            && let Ok(mut merged) = merge(abi.arch(), options, &entries)
        {
            merged.parts = entries.parts;
            entries = merged;
        }
        // The entries have been cut around the omitted functions.
        entries.omitted.clear();
        Section::new(abi, options, entries, omitted, placed)
    }

    /// Returns the number of functions that were refused and have CFI to which DWARF gives no meaning, even if the
    /// undefined part comes after the reason for the refusal. See
    /// [`Reason::is_undefined`](cfipack_format::Reason::is_undefined).
    pub fn undefined_cfi(&self) -> u64 {
        self.undefined_cfi
    }

    #[inline]
    pub(crate) fn number(&mut self, function: &Function<'a>) -> Option<u8> {
        let Machines { cies, interpreter, .. } = &mut self.machines;
        cies.number(function, self.draft.options.version, interpreter)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use cfipack_format::sframe::Version;

    use super::{Arch, Builder, Options, UnsupportedFormat};

    /// The SFrame specification, "SFrame ABI/arch Identifier".
    #[test]
    fn a_builder_is_for_an_architecture_of_the_format() {
        for arch in [Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x] {
            assert!(Builder::new(arch, Options::default()).is_ok(), "{arch}");
        }
        for arch in [Arch::I386, Arch::Arm64_32] {
            let refused = Builder::new(arch, Options::default()).unwrap_err();
            assert_eq!(refused.to_string(), format!(".sframe is not defined for {arch}"));
            assert_eq!(refused, UnsupportedFormat::Arch { arch, format: ".sframe" });
        }
    }

    #[test]
    fn version_1_is_refused() {
        let refused = Builder::new(Arch::Amd64, Options::new().with_version(Version::V1)).unwrap_err();
        assert_eq!(refused, UnsupportedFormat::Version { version: Version::V1, format: ".sframe" });
        assert_eq!(refused.to_string(), "version 1 of .sframe cannot be written");
    }
}
