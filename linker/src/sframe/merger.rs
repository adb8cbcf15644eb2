//! Objects in, a section out.

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

/// Takes objects, one after the other or many at a time, and becomes a [`Section`].
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
    /// A merger for objects of `arch`.
    ///
    /// # Errors
    /// The format has no ABI for the architecture: i386 and arm64_32.
    pub fn new(arch: Arch, options: Options) -> Result<Self, UnsupportedFormat> {
        let builder = Builder::new(arch, options.table)?;
        Ok(Self { builder, arch, options, scratch: Scratch::default(), fre_lens: FreLens::new(arch) })
    }

    /// A merger without functions, with the same architecture and options, to be [absorbed](Self::absorb) later.
    pub fn shard(&self) -> Self {
        Self {
            builder: self.builder.shard(),
            arch: self.arch,
            options: self.options,
            scratch: Scratch::default(),
            fre_lens: self.fre_lens.clone(),
        }
    }

    /// Makes room for the functions of these objects at once; best done first, where there are many.
    /// [`push_objects`](Self::push_objects) does so itself.
    pub fn reserve(&mut self, objects: &[Object<'_>]) {
        let (functions, fre_bytes) = self.room(objects);
        self.builder.reserve_for_write(functions, fre_bytes);
    }

    /// The functions of objects, about, and the bytes that their rows take in the output, where that is known.
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
        // The bytes of FREs, in version 3 with attributes; those of other versions have about as many.
        let fre_bytes = Some(fre_bytes).filter(|_| records.bytes == 0);
        (functions + records.estimate(), fre_bytes)
    }

    /// Adds the functions of an object.
    ///
    /// `live` gives for a start field the function that its relocation leads to, or `None` if that is discarded, or
    /// is one of another object with the same code. It is asked in ascending order for the fields of each section;
    /// for some of a section twice. `report` gets each function and each part of the
    /// object's tables that the output does not have, with the reason.
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

    /// Adds the functions of many objects, on the threads of a pool. `live` and `report` get the object's number; `live`
    /// makes the closure that [`push_object`](Self::push_object) takes, in which a cursor along the object's sorted
    /// relocations can be held. The result is that of `push_object` for one after the other.
    ///
    /// A large object is divided: then several closures are made for it, and each is asked for fields of a part of its
    /// sections, in ascending order.
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
        let mut state = Pushed { merger: self, notes: Vec::new(), sum: Contribution::default() };
        for run in runs(objects, pool.threads(), prefer) {
            match run {
                Run::One(number) => state.push_large(pool, number, &objects[number], &live),
                Run::Groups(groups) => {
                    let empty = state.merger.shard();
                    let make = |group: usize, before: Option<Shard<'a>>| {
                        let new = || {
                            let (mut merger, notes) = (empty.shard(), Vec::new());
                            // As much as most shards get; the last ones have less.
                            let parts = (4 * pool.threads()).max(groups.len() / (groups.len() - group));
                            let fre_bytes = fre_bytes.map(|bytes| bytes / parts);
                            merger.builder.reserve_for_write(functions / parts, fre_bytes);
                            Shard { merger, notes, sum: Contribution::default() }
                        };
                        let Shard { mut merger, notes, sum } = before.unwrap_or_else(new);
                        let mut pushed = Pushed { merger: &mut merger, notes, sum };
                        pushed.push_group(objects, &groups[group], &live);
                        let Pushed { notes, sum, .. } = pushed;
                        Shard { merger, notes, sum }
                    };
                    in_order(pool, groups.len(), &mut state, make, |state, made, shard| {
                        let objects_of = groups[made.start].start..groups[made.end - 1].end;
                        state.add(objects, &objects_of, &live, shard);
                    });
                }
            }
            state.notes.drain(..).for_each(|(number, note)| report(number, note));
        }
        state.sum
    }

    /// Takes note of a function of `size` bytes that is in no object's sections and has no rows: no other's are to
    /// answer for its PCs. [`Section::write`] asks for its address.
    pub fn note_omitted(&mut self, function: Key, size: u64) {
        self.builder.note_omitted(function, size);
    }

    /// Adds what a [shard](Self::shard) has taken, as if its objects had been pushed here. The same shards in the same
    /// order give the same bytes, on the threads of any pool.
    ///
    /// # Errors
    /// There is no room for all of it, or it is for another architecture or version: nothing of it is added.
    pub fn absorb(&mut self, shard: Self, pool: &dyn Pool) -> Result<(), Reason> {
        self.builder.absorb(shard.builder, pool)
    }

    /// Ends the section, which refers to the rows of the objects' tables until it is written, unless it
    /// [owns](Section::into_owned) them. Its size is exact; functions that turn out to share PCs are omitted by
    /// [`Section::write`].
    pub fn finish(self) -> Section<'a> {
        self.finish_with(Finish::new())
    }

    /// Ends the section on the threads of a pool, or [by keys](Finish::with_placed_keys): functions that share PCs are
    /// told apart then, or omitted ([`Section::omitted`]), before the section has its size.
    pub fn finish_with(self, finish: Finish<'_>) -> Section<'a> {
        let Self { builder, arch, options, scratch, .. } = self;
        // A large object's is as large as its index.
        drop(scratch);
        Section::new(builder.finish_with(finish), arch, options.table.version)
    }

    /// Omits the functions of the object's table that got no rows, neither there nor from CFI.
    fn omit_rowless(&mut self, report: &mut dyn FnMut(Note), sum: &mut Contribution) {
        for rowless in self.scratch.rowless.drain(..).filter(|rowless| !rowless.has_cfi) {
            let unsupported = rowless.unsupported;
            self.builder.note_omitted(unsupported.function, rowless.size.into());
            report(Note::Omitted(unsupported));
            sum.omitted += 1;
        }
    }
}

/// A merger and what became of the objects that it was given.
struct Pushed<'m, 'a> {
    merger: &'m mut Merger<'a>,
    notes: Vec<(usize, Note)>,
    sum: Contribution,
}

/// Groups in a row that a task did.
struct Shard<'a> {
    merger: Merger<'a>,
    notes: Vec<(usize, Note)>,
    sum: Contribution,
}

impl<'a> Pushed<'_, 'a> {
    /// Adds objects one after the other.
    fn push_group<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        objects: &[Object<'a>],
        group: &Range<usize>,
        live: &impl Fn(usize) -> L,
    ) {
        for number in group.clone() {
            let note = |note| self.notes.push((number, note));
            self.sum += self.merger.push_object(&objects[number], live(number), note);
        }
    }

    /// Adds a group's shard; its objects one by one if there is none, or no room for all of it.
    fn add<L: FnMut(Field) -> Option<Live>>(
        &mut self,
        objects: &[Object<'a>],
        group: &Range<usize>,
        live: &impl Fn(usize) -> L,
        shard: Option<Shard<'a>>,
    ) {
        // The pool's threads are all at work.
        if let Some(Shard { merger, notes, sum }) = shard
            && self.merger.absorb(merger, &Serial).is_ok()
        {
            self.notes.extend(notes);
            self.sum += sum;
        } else {
            self.push_group(objects, group, live);
        }
    }

    /// Adds a large object in parts, but what CFI has beside a table.
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

/// Objects in a row that are added alike.
enum Run {
    /// A large object that is divided.
    One(usize),
    /// Groups of objects in a row with about as many bytes each, a few for each thread.
    Groups(Vec<Range<usize>>),
}

/// Divides objects for this many threads.
fn runs(objects: &[Object<'_>], threads: usize, prefer: Prefer) -> Vec<Run> {
    const LEAST_BYTES: usize = 1 << 14;
    const LEAST_OF_A_LARGE_OBJECT: usize = 1 << 18;
    let all: usize = objects.iter().map(Object::len).sum();
    if threads < 2 {
        return Vec::from([Run::Groups((0..objects.len()).map(|number| number..number + 1).collect())]);
    }
    let enough = (all / (threads.min(256) * 16)).max(LEAST_BYTES);
    let large = (all / threads.min(256) / 2).max(LEAST_OF_A_LARGE_OBJECT);
    let (mut runs, mut groups, mut first, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    for (number, object) in objects.iter().enumerate() {
        // Which functions of a table are needed, its CFI tells then.
        let is_one = prefer == Prefer::Cfi && object.eh_frame.is_some() && object.sframe.is_some();
        let is_large = object.len() >= large && !is_one;
        bytes += object.len();
        if (is_large || bytes >= enough) && first < number {
            // Without it, if it is divided, or if the objects before it are enough by themselves.
            groups.push(first..number);
            (first, bytes) = (number, object.len());
        }
        if is_large {
            runs.push(Run::Groups(core::mem::take(&mut groups)));
            runs.push(Run::One(number));
            (first, bytes) = (number + 1, 0);
        }
    }
    if first < objects.len() {
        groups.push(first..objects.len());
    }
    runs.push(Run::Groups(groups));
    runs
}
