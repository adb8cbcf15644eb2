//! What is written: whole files or none, and standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Serialize;

/// Standard output for text and JSON, buffered.
pub fn standard() -> BufWriter<Standard> {
    BufWriter::with_capacity(1 << 16, Standard(io::stdout().lock()))
}

/// Standard output, whose errors name it.
#[derive(Debug)]
pub struct Standard(io::StdoutLock<'static>);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Writes one object as one line.
pub fn json(out: &mut impl Write, object: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, object).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Text for a `fmt::Write`r that ends up in an `io::Write`r, with the error that `fmt` cannot carry.
#[derive(Debug)]
pub struct Text<W> {
    out: W,
    error: Option<io::Error>,
}

impl<W: Write> Text<W> {
    /// Text that goes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, error: None }
    }

    /// What became of it.
    pub fn finish(self, written: std::fmt::Result) -> io::Result<()> {
        match (self.error, written) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(io::Error::other(error)),
            (None, Ok(())) => Ok(()),
        }
    }
}

impl<W: Write> std::fmt::Write for Text<W> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            std::fmt::Error
        })
    }
}

/// Whether both paths lead to one file.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Whether a path is that of standard output.
pub fn is_standard(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&path)
}

/// Writes a file as a whole or not at all: beside it first, then in its place. `-` is standard
/// output, which must not be a terminal.
pub fn binary(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if is_standard(path) {
        let mut out = Standard(io::stdout().lock());
        if out.0.is_terminal() {
            bail!("standard output is a terminal: not writing binary data to it");
        }
        out.write_all(bytes)?;
        return Ok(out.flush()?);
    }
    let is_special = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    let written = if is_special { fs::write(path, bytes) } else { replace(&behind_links(path), bytes) };
    written.with_context(|| path.display().to_string())
}

/// What a link points to, though it need not exist, is replaced, not the link.
fn behind_links(path: &Path) -> PathBuf {
    let mut target = path.to_path_buf();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(next) = fs::read_link(&target) else { break };
        target = target.parent().unwrap_or(Path::new("")).join(next);
    }
    target
}

/// Writes beside `target`, with the permissions of what is there already, and renames.
fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(target);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    let permissions = fs::metadata(target).ok().map(|metadata| metadata.permissions());
    let kept = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
    let written = kept.and_then(|()| file.write_all(bytes)).and_then(|()| {
        drop(file);
        fs::rename(&beside, target)
    });
    if written.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same directory that no other run of this program uses.
fn beside(target: &Path) -> PathBuf {
    // Not made from the target's name, which may be as long as names can be.
    target.with_file_name(format!(".cfi2sframe.{}.tmp", std::process::id()))
}
