//! [`Merger`]: collects the functions of objects and returns the finished section.

use super::check::FreLens;
use super::from_cfi::{Records, push_cfi};
use super::from_table::{Scratch, push_tables};
use super::parallel::push_on;
use super::{Contribution, Field, Live, Note, Object, Options, Prefer, Section};
use crate::decoder::sframe as decoder;
use crate::encoder::sframe::{Builder, Finish};
use crate::format::{Address, Arch, Key, Reason, UnsupportedFormat};
use cfipack_format::pool::Pool;
use cfipack_format::widen::ToUsize;

/// Builds the `.sframe` section of a link from its objects.
///
/// Push objects one at a time with [`push_object`](Self::push_object), or all of them on a thread pool with
/// [`push_objects`](Self::push_objects). To use your own threads, give each thread a [`shard`](Self::shard) and
/// [`absorb`](Self::absorb) the shards in a fixed order. The bytes do not depend on the number of threads.
/// [`finish`](Self::finish) returns the [`Section`].
///
/// ```
/// use cfipack_format::pool::Serial;
/// use cfipack_format::{Address, Arch, Key};
/// use cfipack_linker::sframe::{Live, Merger, Object, Options};
///
/// // The `.eh_frame` of an object before relocation: one function of four bytes (`push rbp; pop rbp; ret`).
/// let eh_frame = [
///     0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, //
///     0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x42, 0x0e, 8, 0,
/// ];
/// let object = Object::new().with_eh_frame(&eh_frame);
/// let mut merger = Merger::new(Arch::Amd64, Options::new())?;
/// for number in [1, 2] {
///     let mut shard = merger.shard(); // on a thread of its own, if there are several
///     shard.push_object(&object, |_| Some(Live::new(Key(number))), |note| panic!("{note}"));
///     merger.absorb(shard, &Serial)?; // in a fixed order
/// }
/// let section = merger.finish();
/// assert_eq!(section.num_fdes(), 2);
/// let bytes = section.into_bytes(Address(0x2000), |key| Address(0x1000 + 0x10 * key.0))?;
/// assert_eq!(bytes.len(), 28 + 2 * 16 + 5 + 9); // three rows, which both functions share
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Merger<'a> {
    pub(crate) builder: Builder<'a>,
    pub(crate) arch: Arch,
    pub(crate) options: Options,
    pub(crate) scratch: Scratch,
    pub(crate) fre_lens: &'static FreLens,
}

impl<'a> Merger<'a> {
    /// Creates a merger for objects of `arch`.
    ///
    /// # Errors
    /// Returns an error if SFrame has no ABI for the architecture, for example i386 or arm64_32.
    pub fn new(arch: Arch, options: Options) -> Result<Self, UnsupportedFormat> {
        let builder = Builder::new(arch, options.table)?;
        Ok(Self { builder, arch, options, scratch: Scratch::default(), fre_lens: FreLens::new(arch) })
    }

    /// Returns an empty merger with the same architecture and options. Fill it on another thread and
    /// [`absorb`](Self::absorb) it later.
    pub fn shard(&self) -> Self {
        Self {
            builder: self.builder.shard(),
            arch: self.arch,
            options: self.options,
            scratch: Scratch::default(),
            fre_lens: self.fre_lens,
        }
    }

    /// Reserves memory for the functions of `objects` in one step. Call it once before you push many objects one by
    /// one. [`push_objects`](Self::push_objects) does this itself.
    pub fn reserve(&mut self, objects: &[Object<'_>]) {
        let prefer = self.options.prefer;
        let (mut functions, mut fre_bytes, mut records) = (0, 0, Records::default());
        let version = self.options.table.version;
        for object in objects {
            let table = object.sframe.filter(|_| prefer != Prefer::Cfi || object.eh_frame.is_none());
            let table = table.and_then(|bytes| decoder::Section::parse_first(bytes, Address(0)).ok());
            match (table, object.eh_frame) {
                (Some((section, _)), _) => {
                    functions += section.num_functions();
                    // Rows of the output's version stay where they are.
                    if section.version() != version {
                        fre_bytes += section.header().fre_len.to_usize();
                    }
                }
                (None, Some(bytes)) if prefer != Prefer::TableOnly => records.add(bytes, self.arch),
                (None, _) => {}
            }
        }
        // In version 3 these bytes include the attributes. Rows of another version are about as large after
        // reencoding. The size of rows from CFI is not known.
        let fre_bytes = Some(fre_bytes).filter(|_| records.bytes == 0);
        self.builder.reserve_for_write(functions + records.estimate(), fre_bytes);
    }

    /// Adds the functions of an object, and returns how many there are and where their rows come from.
    ///
    /// `live` gets the place of a start field and returns the function that the field's relocation leads to. It
    /// returns `None` if that function is discarded, or was folded into an identical function of another object. For
    /// each section `live` is called in ascending order of the fields; one section may be walked twice. `report` gets
    /// every function, and every part of the object's tables, that the output does not have, with the reason.
    pub fn push_object(
        &mut self,
        object: &Object<'a>,
        mut live: impl FnMut(Field) -> Option<Live>,
        mut report: impl FnMut(Note),
    ) -> Contribution {
        let mut sum = Contribution::default();
        self.scratch.clear();
        let (live, report): (_, &mut dyn FnMut(Note)) = (&mut live, &mut report);
        match self.options.prefer {
            Prefer::Cfi => {
                push_cfi(self, object, live, report, &mut sum);
                push_tables(self, object, live, report, &mut sum);
            }
            Prefer::Table => {
                push_tables(self, object, live, report, &mut sum);
                push_cfi(self, object, live, report, &mut sum);
            }
            Prefer::TableOnly => push_tables(self, object, live, report, &mut sum),
        }
        self.omit_rowless(report, &mut sum);
        sum
    }

    /// Adds the functions of many objects on the threads of a pool.
    ///
    /// `live` gets an object's number (its index in `objects`) and returns the closure that
    /// [`push_object`](Self::push_object) takes. The closure can hold a cursor along the object's sorted relocations.
    /// `report` gets the number of the object too. The result is the same as that of `push_object` for one object
    /// after the other.
    ///
    /// A large object is divided into parts. Then `live` is called several times for this object, and each closure is
    /// asked for the fields of one part, in ascending order.
    pub fn push_objects<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        pool: &dyn Pool,
        objects: &[Object<'a>],
        live: impl Fn(usize) -> L + Sync,
        mut report: impl FnMut(usize, Note),
    ) -> Contribution {
        if pool.threads() > 1 {
            return push_on(self, pool, objects, &live, report);
        }
        self.reserve(objects);
        let mut sum = Contribution::default();
        for (number, object) in objects.iter().enumerate() {
            sum += self.push_object(object, live(number), |note| report(number, note));
        }
        sum
    }

    /// Records a function of `size` bytes that has no rows and is in no object's sections, so that no other
    /// function's rows are used for its PCs. For example, call this for a thunk that has no rows. [`Section::write`]
    /// asks for its address.
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.builder.note_omitted(function, size);
    }

    /// Adds the functions of a [shard](Self::shard), as if its objects had been pushed here. The same shards in the
    /// same order give the same bytes, whatever pool you use. [`finish_with`](Self::finish_with) joins the shards on
    /// its pool.
    ///
    /// # Errors
    /// Returns an error if the section would become too large, or if the shard is for another architecture or
    /// version. Then nothing of the shard is added.
    pub fn absorb(&mut self, shard: Self, pool: &dyn Pool) -> Result<(), Reason> {
        self.builder.absorb(shard.builder, pool)
    }

    /// Returns the section, with its exact size. The section borrows rows from the objects' tables until it is
    /// written; [`Section::into_owned`] copies them. [`Section::write`] omits functions that turn out to share PCs.
    pub fn finish(self) -> Section<'a> {
        self.finish_with(Finish::new())
    }

    /// Like [`finish`](Self::finish), with options. The work can run on a pool. With [placed
    /// keys](Finish::with_placed_keys), the keys show which functions share PCs. The merger then resolves or omits
    /// these functions now ([`Section::omitted`]), and the size of the section already excludes them.
    pub fn finish_with(self, finish: Finish<'_>) -> Section<'a> {
        let Self { builder, arch, options, scratch, .. } = self;
        // The scratch memory of a large object is as large as its index.
        drop(scratch);
        Section::new(builder.finish_with(finish), arch, options.table.version)
    }

    /// Omits the functions that got no rows from the object's table and have no CFI.
    pub(crate) fn omit_rowless(&mut self, report: &mut dyn FnMut(Note), sum: &mut Contribution) {
        for rowless in self.scratch.rowless.drain(..).filter(|rowless| !rowless.has_cfi) {
            let unsupported = rowless.unsupported;
            self.builder.note_omitted(unsupported.function, rowless.size.into());
            report(Note::Omitted(unsupported));
            sum.omitted += 1;
        }
    }
}
