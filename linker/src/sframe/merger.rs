//! [`Merger`]: collects the functions of objects and returns the finished section.

use alloc::vec::Vec;
use core::ops::Range;

use super::check::FreLens;
use super::from_cfi::{Records, push_cfi, push_cfi_on};
use super::from_table::{Scratch, push_tables, push_tables_on};
use super::{Contribution, Field, Live, Note, Object, Options, Prefer, Section};
use crate::decoder::sframe as decoder;
use crate::encoder::sframe::{Builder, Finish};
use crate::format::{Address, Arch, Key, Reason, UnsupportedFormat};
use cfipack_format::pool::{Pool, Serial, in_order};
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
    pub(crate) fre_lens: FreLens,
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
            fre_lens: self.fre_lens.clone(),
        }
    }

    /// Reserves memory for the functions of `objects` in one step. Call it once before you push many objects one by
    /// one. [`push_objects`](Self::push_objects) does this itself.
    pub fn reserve(&mut self, objects: &[Object<'_>]) {
        let (functions, fre_bytes) = self.room(objects);
        self.builder.reserve_for_write(functions, fre_bytes);
    }

    /// Estimates the number of functions of `objects`, and how many bytes their rows take in the output. The bytes
    /// are `None` if any rows come from CFI.
    fn room(&self, objects: &[Object<'_>]) -> (usize, Option<usize>) {
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
        // reencoding.
        let fre_bytes = Some(fre_bytes).filter(|_| records.bytes == 0);
        (functions + records.estimate(), fre_bytes)
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
        let (functions, fre_bytes) = self.room(objects);
        self.builder.reserve_for_write(functions, fre_bytes);
        let prefer = self.options.prefer;
        let mut state = MergeState { merger: self, notes: Vec::new(), sum: Contribution::default() };
        for run in runs(objects, pool.threads(), prefer) {
            match run {
                Run::Large(number) => state.push_large(pool, number, &objects[number], &live),
                Run::Groups(groups) => {
                    state.push_groups(pool, objects, &groups, (functions, fre_bytes), &live);
                }
            }
            for (number, note) in state.notes.drain(..) {
                report(number, note);
            }
        }
        state.sum
    }

    /// Records a function of `size` bytes that has no rows and is in no object's sections, so that no other
    /// function's rows are used for its PCs. For example, call this for a thunk that has no rows. [`Section::write`]
    /// asks for its address.
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.builder.note_omitted(function, size);
    }

    /// Adds the functions of a [shard](Self::shard), as if its objects had been pushed here. The same shards in the
    /// same order give the same bytes, whatever pool you use.
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
    fn omit_rowless(&mut self, report: &mut dyn FnMut(Note), sum: &mut Contribution) {
        for rowless in self.scratch.rowless.drain(..).filter(|rowless| !rowless.has_cfi) {
            let unsupported = rowless.unsupported;
            self.builder.note_omitted(unsupported.function, rowless.size.into());
            report(Note::Omitted(unsupported));
            sum.omitted += 1;
        }
    }
}

/// A merger, with the notes and counts of the objects pushed so far.
struct MergeState<'m, 'a> {
    merger: &'m mut Merger<'a>,
    notes: Vec<(usize, Note)>,
    sum: Contribution,
}

/// The result of a task that pushed consecutive groups of objects.
struct Shard<'a> {
    merger: Merger<'a>,
    notes: Vec<(usize, Note)>,
    sum: Contribution,
}

impl<'a> MergeState<'_, 'a> {
    /// Adds groups of objects on a pool's threads. `room` estimates the functions and row bytes of all objects.
    fn push_groups<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        pool: &dyn Pool,
        objects: &[Object<'a>],
        groups: &[Range<usize>],
        room: (usize, Option<usize>),
        live: &(impl Fn(usize) -> L + Sync),
    ) {
        let empty = self.merger.shard();
        let push = |group: usize, before: Option<Shard<'a>>| {
            let Shard { mut merger, notes, sum } = before.unwrap_or_else(|| {
                let (mut merger, (functions, fre_bytes)) = (empty.shard(), room);
                // This is enough for most shards. The last shards are smaller.
                let parts = (4 * pool.threads()).max(groups.len() / (groups.len() - group));
                merger.builder.reserve_for_write(functions / parts, fre_bytes.map(|bytes| bytes / parts));
                Shard { merger, notes: Vec::new(), sum: Contribution::default() }
            });
            let mut pushed = MergeState { merger: &mut merger, notes, sum };
            pushed.push_group(objects, &groups[group], live);
            let MergeState { notes, sum, .. } = pushed;
            Shard { merger, notes, sum }
        };
        in_order(pool, groups.len(), self, push, |state, made, shard| {
            let objects_of = groups[made.start].start..groups[made.end - 1].end;
            state.absorb_or_push(objects, &objects_of, live, shard);
        });
    }

    /// Pushes the objects of a group one by one.
    fn push_group<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        objects: &[Object<'a>],
        group: &Range<usize>,
        live: &impl Fn(usize) -> L,
    ) {
        for number in group.clone() {
            let (merger, notes) = (&mut *self.merger, &mut self.notes);
            self.sum += merger.push_object(&objects[number], live(number), |note| notes.push((number, note)));
        }
    }

    /// Absorbs a group's shard. Without a shard, or without room for the whole shard, this pushes the objects one by
    /// one.
    fn absorb_or_push<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        objects: &[Object<'a>],
        group: &Range<usize>,
        live: &impl Fn(usize) -> L,
        shard: Option<Shard<'a>>,
    ) {
        // All threads of the pool are at work, so this thread absorbs alone.
        if let Some(Shard { merger, notes, sum }) = shard
            && self.merger.absorb(merger, &Serial).is_ok()
        {
            self.notes.extend(notes);
            self.sum += sum;
        } else {
            self.push_group(objects, group, live);
        }
    }

    /// Adds a large object in parts on the pool's threads. If the object has a table, its CFI is read on this thread
    /// alone.
    fn push_large<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        pool: &dyn Pool,
        number: usize,
        object: &Object<'a>,
        live: &(impl Fn(usize) -> L + Sync),
    ) {
        let mut note = |note| self.notes.push((number, note));
        if object.sframe.is_none_or(<[u8]>::is_empty) {
            return push_cfi_on(self.merger, pool, object, || live(number), note, &mut self.sum);
        }
        self.merger.scratch.clear();
        push_tables_on(self.merger, pool, object, &|| live(number), &mut note, &mut self.sum);
        if self.merger.options.prefer == Prefer::Table {
            push_cfi(self.merger, object, &mut live(number), &mut note, &mut self.sum);
        }
        self.merger.omit_rowless(&mut note, &mut self.sum);
    }
}

/// Consecutive objects that are pushed in the same way.
enum Run {
    /// A large object, divided among the threads.
    Large(usize),
    /// Groups of consecutive objects, with about the same number of bytes each and a few groups per thread.
    Groups(Vec<Range<usize>>),
}

/// Divides objects among `threads` threads.
fn runs(objects: &[Object<'_>], threads: usize, prefer: Prefer) -> Vec<Run> {
    const MIN_GROUP_BYTES: usize = 1 << 14;
    const MIN_LARGE_OBJECT_BYTES: usize = 1 << 18;
    let all: usize = objects.iter().map(Object::len).sum();
    if threads < 2 {
        return Vec::from([Run::Groups((0..objects.len()).map(|number| number..number + 1).collect())]);
    }
    let enough = (all / (threads.min(256) * 16)).max(MIN_GROUP_BYTES);
    let large = (all / threads.min(256) / 2).max(MIN_LARGE_OBJECT_BYTES);
    let (mut runs, mut groups, mut first, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    for (number, object) in objects.iter().enumerate() {
        // The object's CFI decides which functions of its table are needed, so this object cannot be divided.
        let must_be_whole = prefer == Prefer::Cfi && object.eh_frame.is_some() && object.sframe.is_some();
        let is_large = object.len() >= large && !must_be_whole;
        bytes += object.len();
        if (is_large || bytes >= enough) && first < number {
            // Ends the group before this object if the object is divided, or if the group is large enough already.
            groups.push(first..number);
            (first, bytes) = (number, object.len());
        }
        if is_large {
            runs.push(Run::Groups(core::mem::take(&mut groups)));
            runs.push(Run::Large(number));
            (first, bytes) = (number + 1, 0);
        }
    }
    if first < objects.len() {
        groups.push(first..objects.len());
    }
    runs.push(Run::Groups(groups));
    runs
}
