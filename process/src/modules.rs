//! The modules of this process, and their refresh.

use core::ffi::c_int;
use core::fmt;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use cfipack_decoder::walk::Generation;

use crate::loader::{self, Changes, LoadedFile};
use crate::slots::{Current, Slots};
use crate::space::{Contents, CurrentModules, File, Snapshot};
use crate::start;
use crate::table::{Source, Table};

/// Options of [`ProcessModules`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    memory: usize,
    all_files: bool,
}

impl Options {
    /// Returns the defaults: 64 MiB, and tables only for files that walks come to.
    pub const fn new() -> Self {
        Self { memory: 64 << 20, all_files: false }
    }

    /// Sets how many bytes all tables and their indices may have. A file whose table does not fit has no table. While
    /// [`ProcessModules::refresh`] makes a table, it needs about as many bytes more as the file's `.eh_frame` has.
    #[must_use]
    pub const fn with_memory(mut self, memory: usize) -> Self {
        self.memory = memory;
        self
    }

    /// Sets whether all files get tables. By default, a file gets its table in the first refresh after a walk came to
    /// the file's code.
    #[must_use]
    pub const fn with_all_files(mut self, all_files: bool) -> Self {
        self.all_files = all_files;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// Another thread is refreshing the modules, or another process has created them: this process is a child after `fork`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another thread is refreshing the modules, or another process has created them")
    }
}

impl core::error::Error for Busy {}

/// What [`ProcessModules::refresh`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Refreshed {
    /// Whether files were loaded or unloaded, or tables were made, since the last refresh.
    pub is_changed: bool,
    /// Whether files were unloaded since the last refresh. Walks that began before this refresh may have used rows of
    /// an unloaded file for another file at its place, and nothing else says so: discard these walks.
    pub has_unloaded: bool,
    /// The number of loaded files with code.
    pub files: usize,
    /// The number of these files with a table.
    pub tables: usize,
    /// The number of files whose tables need more memory than the budget has left.
    pub too_large: usize,
    /// The bytes of all tables and their indices. This includes older tables that a walk still uses.
    pub memory: usize,
}

/// The files that this process has loaded, with their tables.
///
/// Create it once, for example in a `static` [`OnceLock`](std::sync::OnceLock). A signal handler calls
/// [`current`](Self::current), and gives the result to a [`Walk`](cfipack_decoder::walk::Walk). Another thread calls
/// [`refresh`](Self::refresh), for example each time that it writes out the samples.
///
/// # Loading and unloading
/// Walks know the files as the last refresh found them. Refresh after each `dlopen`: until then a walk ends in the new
/// file's code, and [`End`](cfipack_decoder::walk::End) says so. Refresh after each `dlclose`, before the next `dlopen`.
/// Otherwise the new file may lie where the old file was. Walks then use the old file's rows, and their frames look like
/// any others: a signal handler cannot ask the loader. The next refresh says so in [`Refreshed::has_unloaded`]. Tables
/// are copies, so a walk never reads memory that `dlclose` has unmapped.
///
/// # Generated code
/// Code that the loader does not know is in no module, and walks end there. A runtime with generated code implements
/// [`AddressSpace`](cfipack_decoder::walk::AddressSpace) with [`CurrentModules`] and its own code. Refresh after a
/// `dlclose` before you map generated code, too: it may lie where the file was.
///
/// # Forks
/// A child after `fork` may walk in its copy without preparation. Every refresh in the child returns [`Busy`]: a thread
/// of the parent may hold the loader's lock at the fork, and nothing releases the lock in the child. If no other thread
/// of the parent could be in `dlopen`, `dlclose` or `dl_iterate_phdr` then, the child may create modules of its own.
/// Otherwise [`ProcessModules::new`] may wait forever in the child, as `dlopen` does there.
///
/// The child is known by its process number. In a new PID namespace it may have the number of its parent: do not refresh
/// there.
pub struct ProcessModules {
    current: Current<Snapshot>,
    writer: Mutex<Writer>,
    options: Options,
    memory: Arc<AtomicUsize>,
    /// The process that created the modules.
    process: c_int,
}

struct Writer {
    slots: Slots<Snapshot>,
    /// The loader's counts at the last refresh.
    changes: Option<Changes>,
}

impl ProcessModules {
    /// Finds the files that are loaded now.
    pub fn new(options: Options) -> Self {
        let nothing = Snapshot { generation: Generation::NONE, code: Vec::new(), start: None };
        let (current, slots) = Slots::new(nothing);
        let writer = Mutex::new(Writer { slots, changes: None });
        let modules = Self { current, writer, options, memory: Arc::default(), process: loader::process() };
        // No other thread knows the modules, so none is refreshing.
        let _ = modules.refresh();
        modules
    }

    /// Returns the modules for a walk. Neither waits nor allocates; async-signal-safe, even in a handler that interrupts
    /// a refresh. A refresh does not wait for it either, and keeps the memory of its tables until it is dropped.
    pub fn current(&self) -> CurrentModules<'_> {
        // SAFETY: the slots live as long as `self`.
        CurrentModules(unsafe { self.current.read() })
    }

    /// Finds the files that are loaded now, and makes the tables that walks have missed. If nothing has changed, this
    /// takes about a microsecond. Otherwise it reads the `.eh_frame` of the files that need a table. Meanwhile other
    /// threads cannot load or unload files. Do not call this function in a signal handler.
    ///
    /// # Errors
    /// Another thread is refreshing, or this process is a child after `fork`.
    pub fn refresh(&self) -> Result<Refreshed, Busy> {
        if loader::process() != self.process {
            return Err(Busy);
        }
        let mut writer = match self.writer.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Busy),
        };
        // Older tables give their memory back first.
        writer.slots.drop_unread(&self.current);
        let now = self.current();
        let next = self.next(&now.0, &mut writer.changes);
        drop(now);
        let Some((next, has_unloaded)) = next else { return Ok(self.describe(false, false)) };
        writer.slots.replace(&self.current, next);
        Ok(self.describe(true, has_unloaded))
    }

    /// Returns the modules of now, and whether files may have been unloaded. Returns `None` if the modules are the same as
    /// before.
    fn next(&self, before: &Snapshot, changes: &mut Option<Changes>) -> Option<(Snapshot, bool)> {
        let has_work = before.code.iter().any(|(_, file)| self.has_work(file));
        let (mut code, mut is_first, mut has_unloaded) = (Vec::new(), true, false);
        let mut is_same = false;
        loader::each_file(|loaded| {
            if is_first {
                is_first = false;
                is_same = !has_work && changes.is_some() && loaded.changes == *changes;
                if is_same {
                    return ControlFlow::Break(());
                }
                let subs = |changes: &Option<Changes>| changes.map(|changes| changes.subs);
                has_unloaded = subs(changes).is_none() || subs(&loaded.changes) != subs(changes);
                *changes = loaded.changes;
            }
            let headers = loaded.headers();
            let old = before.code.iter().map(|(_, file)| file).find(|file| file.headers == headers);
            let file = self.file(loaded, old, has_unloaded);
            code.extend(loaded.code().map(|range| (range, Arc::clone(&file))));
            ControlFlow::Continue(())
        });
        if is_same {
            let start = if before.start.is_none() { start::first_return_address(before) } else { None };
            let (generation, code) = (Generation::new(), before.code.clone());
            return start.map(|_| (Snapshot { generation, code, start }, false));
        }
        code.sort_unstable_by_key(|(range, _)| range.start);
        let mut next = Snapshot { generation: Generation::new(), code, start: None };
        next.start = start::first_return_address(&next);
        Some((next, has_unloaded))
    }

    /// Returns a loaded file, with the table that it had or with a new table.
    fn file(&self, loaded: &LoadedFile<'_>, old: Option<&Arc<File>>, may_be_other: bool) -> Arc<File> {
        if let Some(old) = old.filter(|old| !self.has_work(old)) {
            let is_same = match old.contents {
                _ if !may_be_other => true,
                Contents::Made(_, hash) => Source::of(loaded).is_some_and(|source| source.hash() == hash),
                _ => false,
            };
            if is_same {
                return Arc::clone(old);
            }
        }
        let is_wanted =
            self.options.all_files || old.is_some_and(|old| old.is_wanted.load(Ordering::Relaxed));
        let contents = if is_wanted { self.contents(loaded) } else { Contents::NotMade };
        Arc::new(File { headers: loaded.headers(), contents, is_wanted: AtomicBool::new(is_wanted) })
    }

    fn contents(&self, loaded: &LoadedFile<'_>) -> Contents {
        let Some(source) = Source::of(loaded) else { return Contents::Nothing };
        match Table::new(source, &self.memory, self.options.memory) {
            Ok(table) => Contents::Made(table, source.hash()),
            Err(usize::MAX) => Contents::Nothing,
            Err(size) => Contents::TooLarge(size),
        }
    }

    /// Returns whether the next refresh should make the table of a file.
    fn has_work(&self, file: &File) -> bool {
        let room = self.options.memory.saturating_sub(self.memory.load(Ordering::Relaxed));
        file.is_wanted.load(Ordering::Relaxed)
            && match file.contents {
                Contents::NotMade => true,
                Contents::TooLarge(size) => size <= room,
                Contents::Nothing | Contents::Made(..) => false,
            }
    }

    fn describe(&self, is_changed: bool, has_unloaded: bool) -> Refreshed {
        let now = self.current();
        let mut files: Vec<_> = now.0.code.iter().map(|(_, file)| file).collect();
        files.sort_unstable_by_key(|file| file.headers);
        files.dedup_by_key(|file| file.headers);
        let count = |is: fn(&Contents) -> bool| files.iter().filter(|file| is(&file.contents)).count();
        Refreshed {
            is_changed,
            has_unloaded,
            files: files.len(),
            tables: count(|contents| matches!(contents, Contents::Made(..))),
            too_large: count(|contents| matches!(contents, Contents::TooLarge(_))),
            memory: self.memory.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for ProcessModules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessModules").field("options", &self.options).finish_non_exhaustive()
    }
}
