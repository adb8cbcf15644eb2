//! The file, device or descriptor that an output path names.

use std::fs;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// The destination of output, with all symbolic links followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A descriptor that the process inherits, by its number.
    Descriptor(RawFd),
    /// A FIFO, a device or anything else that is not a regular file.
    Special(PathBuf),
    /// A regular file, or a file that does not exist yet.
    File(PathBuf),
}

/// Directories where the process finds its own descriptors.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];

impl Destination {
    /// Returns the destination that a path names. `-` is standard output.
    pub fn resolve(path: &Path) -> Self {
        if path == Path::new("-") {
            return Self::Descriptor(1);
        }
        let mut target = path.to_path_buf();
        // As many links as Linux follows.
        for _ in 0..40 {
            // Check this before following the link. A descriptor's link leads to the file, and the file gets a new
            // offset when opened.
            if let Some(number) = descriptor(&target) {
                return Self::Descriptor(number);
            }
            let Ok(next) = fs::read_link(&target) else { break };
            target = target.parent().unwrap_or(Path::new("")).join(next);
        }
        let is_special = fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file());
        if is_special { Self::Special(target) } else { Self::File(target) }
    }
}

/// Returns the number of the descriptor that a path names, for example 3 for `/dev/fd/3`.
fn descriptor(path: &Path) -> Option<RawFd> {
    let number = path.file_name()?.to_str()?.parse().ok().filter(|number| *number >= 0)?;
    let directory = path.parent()?;
    let canonical = directory.canonicalize().ok();
    let mut own = DESCRIPTORS.iter().map(Path::new);
    let is_own =
        own.any(|own| directory == own || canonical.is_some() && canonical == own.canonicalize().ok());
    is_own.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proc(5), fd(4): each of these is a name of the process's own descriptor.
    #[test]
    fn descriptors_have_many_names() {
        for (path, number) in [("-", 1), ("/dev/fd/7", 7), ("/dev/stdout", 1), ("/dev/stderr", 2)] {
            assert_eq!(Destination::resolve(Path::new(path)), Destination::Descriptor(number), "{path}");
        }
        for path in ["/dev/fd/-1", "/dev/fd/x", "1", "fd/1", "/no/such/fd/1"] {
            assert!(matches!(Destination::resolve(Path::new(path)), Destination::File(_)), "{path}");
        }
        assert!(matches!(Destination::resolve(Path::new("/dev/null")), Destination::Special(_)));
        assert!(matches!(Destination::resolve(Path::new("/")), Destination::Special(_)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn descriptors_by_process_and_thread() {
        let own = format!("/proc/{}/fd/1", std::process::id());
        for path in [&own, "/proc/self/fd/1", "/proc/thread-self/fd/1", "/dev/../dev/fd/1"] {
            assert_eq!(Destination::resolve(Path::new(path)), Destination::Descriptor(1), "{path}");
        }
    }
}
