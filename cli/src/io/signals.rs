//! Signals: what is cleaned up, and what is printed, before one ends the process.
//!
//! Handlers run between any two instructions. They take no locks and allocate nothing: what they read are lists
//! that only grow, whose nodes are never freed.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Files to remove.
static FILES: List<File> = List::new();
/// Maps of files.
static MAPS: List<Map> = List::new();
/// What SIGBUS did before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

#[derive(Debug)]
struct File {
    path: CString,
    is_doomed: AtomicBool,
}

#[derive(Debug)]
struct Map {
    addresses: Range<usize>,
    message: String,
}

/// A file that is removed if SIGINT, SIGTERM, SIGHUP or SIGBUS ends the process.
#[derive(Clone, Copy, Debug)]
pub struct Doomed(&'static File);

impl Doomed {
    /// Whether a signal removes it.
    pub fn is_doomed(self) -> bool {
        self.0.is_doomed.load(Ordering::Acquire)
    }

    /// From now on the file stays, or is gone.
    pub fn spare(self) {
        self.0.is_doomed.store(false, Ordering::Release);
    }
}

/// Has a file removed, which need not exist yet, if a signal ends the process. A signal that is ignored (`nohup`, jobs in the
/// background) stays ignored.
pub fn doom(path: CString) -> Doomed {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            if action(signal).is_some_and(|action| action.sa_sigaction != libc::SIG_IGN) {
                handle(signal, on_end as extern "C" fn(c_int) as usize, 0);
            }
        }
        // A limit on the sizes of files is then an error of `write`, with its name.
        handle(libc::SIGXFSZ, libc::SIG_IGN, 0);
    });
    Doomed(FILES.push(File { path, is_doomed: AtomicBool::new(true) }))
}

/// Has `message` printed, and the process end with status 2, if the map at these addresses turns out to be longer than
/// its file.
pub fn watch_map(addresses: Range<usize>, message: String) {
    static ONCE: Once = Once::new();
    MAPS.push(Map { addresses, message });
    ONCE.call_once(|| {
        if let Some(before) = action(libc::SIGBUS) {
            BEFORE.store(Box::leak(Box::new(before)), Ordering::Release);
            let handler = on_bus_error as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            handle(libc::SIGBUS, handler as usize, libc::SA_SIGINFO | libc::SA_ONSTACK);
        }
    });
}

/// What a signal does.
fn action(signal: c_int) -> Option<libc::sigaction> {
    let mut action = std::mem::MaybeUninit::uninit();
    // SAFETY: with a null pointer nothing is changed, and on success the action is written.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: as said.
    (result == 0).then(|| unsafe { action.assume_init() })
}

/// Sets what a signal does: a function of this file with the parameters that `flags` ask for, or SIG_IGN.
fn handle(signal: c_int, handler: usize, flags: c_int) {
    // SAFETY: all zeroes are an action: the default one, with no flags and an empty set of signals.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the action is valid, and the handlers below call only what POSIX allows in one. If the call fails, the signal
    // does what it did before.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}

/// Removes the files, and lets the signal do what it does by default: end the process.
extern "C" fn on_end(signal: c_int) {
    remove_files();
    // SAFETY: both may be called in a handler. The signal is delivered when the handler returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Ends the process if a map of ours is longer than its file; else the instruction is run again, and the signal does what
/// it did before.
extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO it is valid, and SIGBUS has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(map) = MAPS.iter().find(|map| map.addresses.contains(&address)) {
        remove_files();
        // SAFETY: both may be called in a handler, and the message is as long as that.
        unsafe {
            libc::write(2, map.message.as_ptr().cast(), map.message.len());
            libc::_exit(2);
        }
    }
    // SAFETY: the action is what `sigaction` gave, and is never freed.
    unsafe { libc::sigaction(signal, BEFORE.load(Ordering::Acquire), ptr::null_mut()) };
}

fn remove_files() {
    for file in FILES.iter().filter(|file| Doomed(file).is_doomed()) {
        // SAFETY: it may be called in a handler, and the path ends in a zero.
        unsafe { libc::unlink(file.path.as_ptr()) };
    }
}

/// A list that only grows, from its front. Its nodes are never freed, so that a handler may walk along it at any time.
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
        // SAFETY: it is null or comes from `push`, after which nothing changes or frees the node.
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

    /// The values, the latest one first.
    fn iter(&self) -> impl Iterator<Item = &'static T> {
        std::iter::successors(self.first(), |node| node.next).map(|node| &node.value)
    }
}
