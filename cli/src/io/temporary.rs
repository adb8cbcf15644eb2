//! Temporary files. They are removed when the process ends.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::directory::Identity;
use super::entry::Entry;
use super::signals::{self, RemovedOnSignal};

/// A new file that is removed when it is dropped, or when a signal ends the process.
#[derive(Debug)]
pub struct Temporary {
    /// The file, for writing and reading back.
    pub file: File,
    entry: Entry,
    registration: RemovedOnSignal,
}

impl Temporary {
    /// Creates a file with a random name in the directory of `target`. The name has no process number, because process
    /// numbers repeat in containers.
    ///
    /// # Errors
    /// The file cannot be created. The error names the file.
    pub fn beside(target: &Entry, mode: u32) -> io::Result<Self> {
        Self::create(target, |entry| entry.create(mode))
    }

    /// Creates a hard link to the file `identity` in the directory of `target`. `existing` is a name of the file.
    ///
    /// # Errors
    /// The link cannot be created, for example because the file systems differ or the file can have no more names. Or
    /// `existing` leads to a different file by now.
    pub fn link_beside(target: &Entry, existing: &Entry, identity: Identity) -> io::Result<Self> {
        let link = Self::create(target, |entry| existing.link(entry).and_then(|()| entry.open()))?;
        if Identity::from_metadata(&link.file.metadata()?) != identity {
            return Err(io::Error::other("another process changed the new file meanwhile"));
        }
        Ok(link)
    }

    /// Returns whether a file has the name of a temporary file. A run that is killed leaves such files behind.
    pub fn is_left_over(path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.len() == 32 && name.starts_with(b".cfi2sframe.") && name.ends_with(b".tmp")
    }

    fn create(target: &Entry, create: impl Fn(&Entry) -> io::Result<File>) -> io::Result<Self> {
        loop {
            // The name does not contain the target's name, because that can already have the maximum length.
            let entry = target.sibling(&format!(".cfi2sframe.{:016x}.tmp", random()));
            let (directory, name) = entry.raw()?;
            let (created, registration) = signals::creating(|| {
                // Register the file before it exists, because a signal can come right after its creation.
                let registration = signals::remove_on_signal(directory, name);
                (create(&entry), registration)
            });
            match created {
                Ok(file) => return Ok(Self { file, entry, registration }),
                Err(error) => {
                    registration.unregister();
                    if error.kind() != io::ErrorKind::AlreadyExists {
                        return Err(at(&entry, &error));
                    }
                }
            }
        }
    }

    /// Gives the file its final name, and replaces the file that has it.
    pub fn rename(self, target: &Entry) -> io::Result<()> {
        self.entry.rename(target).map_err(|error| self.named(&error))?;
        self.registration.unregister();
        Ok(())
    }

    pub fn path(&self) -> &Path {
        self.entry.path()
    }

    /// Adds the file's name to an error.
    pub fn named(&self, error: &io::Error) -> io::Error {
        at(&self.entry, error)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.registration.is_registered() {
            // The caller reports the first error, so this error is ignored.
            let _ = self.entry.remove();
            self.registration.unregister();
        }
    }
}

fn at(entry: &Entry, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("temporary file {}: {error}", entry.path().display()))
}

/// Returns random bits, from the keys that the system gives to hash maps.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    const CHILD: &str = "io::temporary::tests::child";
    const BUSY_CHILD: &str = "io::temporary::tests::busy_child";
    const DIRECTORY: &str = "CFI2SFRAME_TEST_DIRECTORY";

    /// The process that receives signals. It tests nothing itself.
    #[test]
    fn child() {
        let Some(directory) = std::env::var_os(DIRECTORY) else { return };
        let target = Entry::at_path(&Path::new(&directory).join("table")).unwrap();
        let mut temporary = Temporary::beside(&target, 0o600).unwrap();
        temporary.file.write_all(b"half a ta").unwrap();
        println!("ready");
        io::stdout().flush().unwrap();
        std::thread::sleep(Duration::from_secs(600));
    }

    /// A process with several threads that create files all the time. It tests nothing itself.
    #[test]
    fn busy_child() {
        let Some(directory) = std::env::var_os(DIRECTORY) else { return };
        let target = Entry::at_path(&Path::new(&directory).join("table")).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        drop(Temporary::beside(&target, 0o600));
                    }
                });
            }
            println!("ready");
            io::stdout().flush().unwrap();
        });
    }

    /// Starts a child process, and waits until it is ready.
    fn started(child: &str, directory: &Path, script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(std::env::current_exe().unwrap());
        command.args(["--exact", child, "--nocapture"]).env(DIRECTORY, directory);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("ready")));
        child
    }

    fn send(signal: &str, child: &Child) {
        let status = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Returns whether this process and its children ignore a signal (`nohup`, jobs in the background of a shell).
    fn is_ignored(signal: i32) -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        ignored.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
    }

    fn files(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn signals_remove_it() {
        let directory = std::env::temp_dir().join(format!("cfi2sframe-signals-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for (signal, number) in [("HUP", libc::SIGHUP), ("INT", libc::SIGINT), ("TERM", libc::SIGTERM)] {
            let mut child = started(CHILD, &directory, r#"exec "$@""#);
            assert_eq!(files(&directory), 1);
            if is_ignored(number) {
                child.kill().unwrap();
                child.wait().unwrap();
                fs::remove_file(fs::read_dir(&directory).unwrap().next().unwrap().unwrap().path()).unwrap();
                continue;
            }
            send(signal, &child);
            assert_eq!(child.wait().unwrap().signal(), Some(number));
            assert_eq!(files(&directory), 0, "{signal}");
        }
        // As under nohup.
        let mut child = started(CHILD, &directory, r#"trap "" HUP; exec "$@""#);
        send("HUP", &child);
        assert_eq!(files(&directory), 1);
        assert!(child.try_wait().unwrap().is_none());
        send("TERM", &child);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        fs::remove_dir(&directory).unwrap();
    }

    /// No thread creates a file after a handler on another thread has removed the existing files.
    #[test]
    fn a_signal_ends_all_threads() {
        let signals = [("TERM", libc::SIGTERM), ("INT", libc::SIGINT), ("HUP", libc::SIGHUP)];
        let signal = signals.into_iter().find(|(_, number)| !is_ignored(*number));
        let (signal, number) = signal.expect("the parent of the tests ignores some of the signals only");
        let directory = std::env::temp_dir().join(format!("cfi2sframe-threads-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        for round in 0..20 {
            let mut child = started(BUSY_CHILD, &directory, r#"exec "$@""#);
            std::thread::sleep(Duration::from_micros(300 * round));
            send(signal, &child);
            assert_eq!(child.wait().unwrap().signal(), Some(number));
            assert_eq!(files(&directory), 0, "round {round}");
        }
        fs::remove_dir(&directory).unwrap();
    }
}
