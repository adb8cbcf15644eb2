//! Signal handlers: they remove files and print a message before a signal ends the process.
//!
//! Handlers run between any two instructions. So they take no locks and allocate nothing. They only read lists that
//! grow but are never freed.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Files to remove.
static FILES: List<File> = List::new();
/// Maps of files.
static MAPS: List<Map> = List::new();
/// The previous action of SIGBUS.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Signals that end the process after the files are removed.
const ENDS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The number of threads that create a file at the moment.
static CREATING: AtomicUsize = AtomicUsize::new(0);
/// True after a handler has begun to remove files. No file is created any more.
static ENDING: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
struct File {
    /// The descriptor of the file's directory. It is open as long as the file is registered. If another directory gets
    /// the same number later, it has no file with this random name.
    directory: RawFd,
    name: CString,
    is_registered: AtomicBool,
}

#[derive(Debug)]
struct Map {
    addresses: Range<usize>,
    message: String,
}

/// A file that is removed if SIGINT, SIGTERM, SIGHUP or SIGBUS ends the process.
#[derive(Clone, Copy, Debug)]
pub struct RemovedOnSignal(&'static File);

impl RemovedOnSignal {
    /// Returns whether a signal removes the file.
    pub fn is_registered(self) -> bool {
        self.0.is_registered.load(Ordering::Acquire)
    }

    /// Ends the registration, because the file has its final name or is already removed.
    pub fn unregister(self) {
        self.0.is_registered.store(false, Ordering::Release);
    }
}

/// Creates a file and [registers](remove_on_signal) it. On every thread, a signal that ends the process is handled
/// before or after this, but not in between.
pub fn creating<T>(create: impl FnOnce() -> T) -> T {
    // A handler on this thread would wait for this thread forever.
    let _blocked = Blocked::new();
    let creation = Creation::new();
    if ENDING.load(Ordering::SeqCst) {
        drop(creation);
        loop {
            std::thread::park();
        }
    }
    create()
}

/// Counts a file that is being created, until it is dropped.
struct Creation;

impl Creation {
    fn new() -> Self {
        CREATING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        CREATING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Blocks the signals that end the process on this thread, until it is dropped.
struct Blocked {
    previous: libc::sigset_t,
}

impl Blocked {
    fn new() -> Self {
        let (mut ends, mut previous) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the first two calls write the sets, and the next calls change the first set. The last call does not
        // fail for any set, and writes the previous set.
        unsafe {
            libc::sigemptyset(ends.as_mut_ptr());
            libc::sigemptyset(previous.as_mut_ptr());
            for signal in ENDS {
                libc::sigaddset(ends.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, ends.as_ptr(), previous.as_mut_ptr());
            Self { previous: previous.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set comes from `pthread_sigmask` on this thread.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.previous, ptr::null_mut()) };
    }
}

/// Registers a file for removal if a signal ends the process.
///
/// The file has this name in the directory with this descriptor. It need not exist yet. A signal that is ignored
/// (`nohup`, jobs in the background) stays ignored.
pub fn remove_on_signal(directory: RawFd, name: CString) -> RemovedOnSignal {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in ENDS {
            if action(signal).is_some_and(|action| action.sa_sigaction != libc::SIG_IGN) {
                handle(signal, on_end as extern "C" fn(c_int) as usize, 0);
            }
        }
        // If a file becomes larger than the limit, `write` returns an error, and the message names the file.
        handle(libc::SIGXFSZ, libc::SIG_IGN, 0);
    });
    RemovedOnSignal(FILES.push(File { directory, name, is_registered: AtomicBool::new(true) }))
}

/// Registers a map of a file: if the file becomes shorter than the map, the process prints `message` and ends with
/// status 2.
pub fn watch_map(addresses: Range<usize>, message: String) {
    static ONCE: Once = Once::new();
    MAPS.push(Map { addresses, message });
    ONCE.call_once(|| {
        if let Some(previous) = action(libc::SIGBUS) {
            PREVIOUS.store(Box::leak(Box::new(previous)), Ordering::Release);
            let handler = on_bus_error as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            handle(libc::SIGBUS, handler as usize, libc::SA_SIGINFO | libc::SA_ONSTACK);
        }
    });
}

/// Returns the action of a signal.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::uninit();
    // SAFETY: with a null pointer nothing is changed, and on success the action is written.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call above wrote it.
    (result == 0).then(|| unsafe { action.assume_init() })
}

/// Sets the action of a signal: a function of this file with the parameters that `flags` determine, or SIG_IGN.
fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: all zeros are a valid action: the default action, with no flags and an empty set of signals.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the action is valid, and the handlers below call only functions that POSIX allows in handlers. If the
    // call fails, the previous action remains.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}

/// Removes the files, and raises the signal again with its default action. The default action ends the process.
extern "C" fn on_end(signal: c_int) {
    remove_files();
    // SAFETY: both functions are allowed in a handler. The signal is delivered when the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Ends the process if the address is in a registered map, because then the map is longer than its file. Otherwise
/// restores the previous action, and the instruction runs again.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO the pointer is valid, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(map) = MAPS.iter().find(|map| map.addresses.contains(&address)) {
        remove_files();
        // SAFETY: both functions are allowed in a handler, and the message has this length.
        unsafe {
            libc::write(2, map.message.as_ptr().cast(), map.message.len());
            libc::_exit(2);
        }
    }
    // SAFETY: the action comes from `sigaction`, and is never freed.
    unsafe { libc::sigaction(signal, PREVIOUS.load(Ordering::Acquire), ptr::null_mut()) };
}

fn remove_files() {
    ENDING.store(true, Ordering::SeqCst);
    // Do not wait forever: if a file system does not answer, a file may remain.
    for _ in 0..1000 {
        if CREATING.load(Ordering::SeqCst) == 0 {
            break;
        }
        // SAFETY: the function is allowed in a handler; without descriptors it waits a millisecond.
        unsafe { libc::poll(ptr::null_mut(), 0, 1) };
    }
    for file in FILES.iter().filter(|file| RemovedOnSignal(file).is_registered()) {
        // SAFETY: the function is allowed in a handler, and the name ends in a zero byte.
        unsafe { libc::unlinkat(file.directory, file.name.as_ptr(), 0) };
    }
}

/// A list that only grows, at its front. Its nodes are never freed, so that a handler can read it at any time.
struct List<T: 'static> {
    first: AtomicPtr<Node<T>>,
}

struct Node<T: 'static> {
    value: T,
    next: Option<&'static Self>,
}

impl<T> List<T> {
    const fn new() -> Self {
        Self { first: AtomicPtr::new(ptr::null_mut()) }
    }

    fn first(&self) -> Option<&'static Node<T>> {
        // SAFETY: the pointer is null or comes from `push`. After `push`, no code changes or frees the node.
        unsafe { self.first.load(Ordering::Acquire).as_ref() }
    }

    fn push(&self, value: T) -> &'static T {
        let node = Box::leak(Box::new(Node { value, next: None }));
        loop {
            node.next = self.first();
            let next = node.next.map_or(ptr::null_mut(), |next| ptr::from_ref(next).cast_mut());
            let new = ptr::from_mut(node);
            if self.first.compare_exchange(next, new, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return &node.value;
            }
        }
    }

    /// Returns the values. The latest value is first.
    fn iter(&self) -> impl Iterator<Item = &'static T> {
        std::iter::successors(self.first(), |node| node.next).map(|node| &node.value)
    }
}
