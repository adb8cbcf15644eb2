//! Functions in, a section out.

use alloc::vec::Vec;

use cfipack_format::sframe::{Abi, Header};
use cfipack_format::{Arch, Key};

use crate::UnsupportedFormat;
use crate::cfi::StackPointer;
use crate::cfi::{Function, Interpreter};
use crate::sframe::draft::Draft;
use crate::sframe::fast::cies::Cies;
use crate::sframe::fast::direct::Common;
use crate::sframe::finish::Finish;
use crate::sframe::options::Options;
use crate::sframe::rows::gnu::Gnu;
use crate::sframe::table::merge::merge;
use crate::sframe::table::overlap::separate;
use crate::sframe::table::section::Section;

/// The number of a builder's functions with CFI that DWARF does not define.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct UndefinedCfi {
    /// Functions that were added, with instructions that are not DWARF's and that `cfipack-roundtrip` cannot judge
    /// (`DW_CFA_MIPS_advance_loc8`, `DW_CFA_GNU_negative_offset_extended`). Others are refused.
    pub added: u64,
    /// Functions that were refused, with CFI to which DWARF gives no meaning, be it after what they were refused for:
    /// see [`Reason::is_undefined`].
    pub refused: u64,
}

/// Takes functions, one after the other, a section's at once or, as shards that are [absorbed](Self::absorb) in a fixed
/// order, many at a time, and becomes a [`Section`].
///
/// ```
/// use cfipack_encoder::sframe::{Builder, EncodedRows, Options, TableFunction};
/// use cfipack_format::{Address, Arch, Key};
///
/// // Two functions of 16 bytes whose rows exist, as those of stubs do: one row, from 0: CFA = sp + 8.
/// let mut builder = Builder::new(Arch::Amd64, Options::new())?;
/// let rows = builder.push_table(&TableFunction::new(Key(1), 16), EncodedRows::new(&[0, 3, 8], 1))?;
/// builder.push_table(&TableFunction::new(Key(2), 16), rows.expect("rows of one FDE"))?;
/// let section = builder.finish();
/// assert_eq!(section.len(), 28 + 2 * 16 + 5 + 3); // header, index, attribute and row: both share these
/// let bytes = section.into_bytes(Address(0x2000), |key| Address(0x1000 * key.0))?;
/// assert_eq!(bytes[60..], [1, 0, 0, 0, 0, 0, 3, 8]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    pub(crate) draft: Draft<'a>,
    pub(crate) machines: Machines<'a>,
    pub(super) undefined_cfi: UndefinedCfi,
}

/// What interprets call frame information, and what it knows of CIEs.
#[derive(Clone, Debug)]
pub(crate) struct Machines<'a> {
    /// The general machine.
    pub(crate) interpreter: Interpreter<'a, StackPointer>,
    /// That of common functions, and their CIEs.
    pub(crate) common: Common,
    pub(crate) cies: Cies<'a>,
    /// That of layout `Gnu`.
    pub(super) gnu: Gnu<'a>,
}

impl<'a> Builder<'a> {
    /// A builder for functions of `arch`.
    ///
    /// # Errors
    /// The format has no ABI for the architecture, as for i386 and arm64_32, or the version is 1, which is
    /// not written.
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

    /// A builder without functions, with the same architecture and options: [absorbing](Self::absorb) it
    /// is quicker than any other.
    pub fn shard(&self) -> Self {
        Self::with_seed(self.draft.abi, self.draft.options, Some(self.draft.entries.blocks.seed()))
    }

    /// With a seed of its own, if none is given.
    pub(crate) fn with_seed(abi: Abi, options: Options, seed: Option<u64>) -> Self {
        let machines = Machines {
            interpreter: Interpreter::new(),
            common: Common::new(),
            cies: Cies::new(),
            gnu: Gnu::default(),
        };
        Self { draft: Draft::new(abi, options, seed), machines, undefined_cfi: UndefinedCfi::default() }
    }

    /// Makes room for this many functions at once; best done first. `fre_bytes` are those of all their rows together,
    /// with attributes, where the [rows exist as bytes](Self::push_table) and it is known, without
    /// [those that are lent](Self::push_lent).
    pub fn reserve(&mut self, functions: usize, fre_bytes: Option<usize>) {
        let index = Header::SIZE + functions * self.draft.options.version.fde_size();
        self.draft.reserve_after(index, functions, fre_bytes);
    }

    /// Makes room as [`reserve`](Self::reserve) does, for a section that is [written](Section::write) into other memory:
    /// there is none for the index.
    pub fn reserve_for_write(&mut self, functions: usize, fre_bytes: Option<usize>) {
        self.draft.reserve_after(0, functions, fre_bytes);
    }

    /// Notes a function of `size` bytes that exists and is not pushed: no other function's rows may answer for its
    /// PCs. Where functions have no addresses, [`Section::write`] asks for its address too. [`Self::push`] does so
    /// itself for what it refuses.
    #[cold]
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.draft.note_omitted(function, size);
    }

    /// Notes a function whose record cannot be read ([`cfi::Error`](crate::cfi::Error)), which
    /// [`Options::merge_functions`] must know of: where it lies is unknown, so no gap is merged across.
    /// [`Self::push_all`] sees such records itself.
    pub fn note_unread(&mut self) {
        self.draft.entries.unread = true;
    }

    /// Ends the section: nothing is added any more.
    ///
    /// A lookup finds the last function that starts at or before a PC, so functions that share PCs are
    /// separated here, by the addresses that the CFI gave: where functions of several sections of code have the same
    /// ones, as in objects whose sections all lie at 0, the sections must be laid out first.
    ///
    /// - A function is cut around those that lie in it or start in it: the table answers for the PCs of one that
    ///   was refused, or [omitted](Self::note_omitted), with nothing, and with its own rows before and after
    ///   those. In layout `Gnu` only functions around one that is not in the table are cut.
    /// - Functions of one start with different rows for the same PCs are not in the table:
    ///   [`Section::omitted`] has them, with [`Reason::Ambiguous`]. So is one that shares its start with one
    ///   that was refused. Those with the same rows are one function in layout `Small`.
    ///
    /// Where functions without addresses lie is known only when the section is written, and its size does not
    /// depend on it: [`Section::write`] omits those that share PCs, unless [their keys](Finish::with_placed_keys) tell them
    /// apart before.
    pub fn finish(self) -> Section<'a> {
        self.finish_with(Finish::new())
    }

    /// Ends the section as [`finish`](Self::finish) does, on the threads of a pool, or
    /// [by keys](Finish::with_placed_keys).
    pub fn finish_with(mut self, finish: Finish<'_>) -> Section<'a> {
        self.flush();
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
        // Entries have been cut around these.
        entries.omitted.clear();
        Section::new(abi, options, entries, omitted, placed)
    }

    /// Counts of functions with CFI that DWARF does not define.
    pub fn undefined_cfi(&self) -> UndefinedCfi {
        self.undefined_cfi
    }

    /// Looks up the blocks of the functions that came last.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.draft.flush();
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
