//! Output: files that appear whole or not at all, and standard output.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::ser::Formatter;

use super::descriptors;
use super::destination::Destination;
use super::replace::replace;

/// Standard output for text and JSON, buffered.
pub fn standard() -> BufWriter<Standard> {
    BufWriter::with_capacity(1 << 16, Standard(io::stdout().lock()))
}

/// Standard output. Its errors name standard output.
///
/// It is an error if standard output is closed when the program starts. Rust's runtime opens `/dev/null` in its place.
#[derive(Debug)]
pub struct Standard(io::StdoutLock<'static>);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        descriptors::check_open(1).and_then(|()| self.0.write(bytes)).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Writes an object as a line of JSON. All control characters in names are escaped, also DEL and U+0080 to U+009F,
/// which JSON allows and terminals obey.
pub fn json(out: &mut impl Write, object: &impl Serialize) -> anyhow::Result<()> {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, ControlEscapes);
    object.serialize(&mut serializer).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// Formats JSON in a single line. serde_json itself escapes the control characters below U+0020.
struct ControlEscapes;

impl Formatter for ControlEscapes {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        for piece in fragment.split_inclusive(char::is_control) {
            let plain = piece.trim_end_matches(char::is_control);
            out.write_all(plain.as_bytes())?;
            for char in piece[plain.len()..].chars() {
                write!(out, "\\u{:04x}", u32::from(char))?;
            }
        }
        Ok(())
    }
}

/// Prints an object as a line of JSON on standard output.
pub fn print_json(object: &impl Serialize) -> anyhow::Result<()> {
    let mut out = standard();
    json(&mut out, object)?;
    Ok(out.flush()?)
}

/// Returns a value that is displayed by calling `print`.
pub fn from_fn(print: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result) -> impl fmt::Display {
    struct FromFn<F>(F);

    impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for FromFn<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(f)
        }
    }

    FromFn(print)
}

/// Returns whether both paths lead to the same file.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Returns whether a path names standard output.
pub fn is_standard(path: &Path) -> bool {
    Destination::resolve(path) == Destination::Descriptor(1)
}

/// Writes binary data to a path. Links are followed.
///
/// A regular file appears completely or not at all. FIFOs, devices and descriptors (`-`, `/dev/fd/3`) are written
/// directly, except an inherited terminal.
pub fn binary(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = match Destination::resolve(path) {
        Destination::File(target) => replace(&target, bytes),
        Destination::Special(target) => {
            OpenOptions::new().write(true).open(target).and_then(|mut file| file.write_all(bytes))
        }
        Destination::Descriptor(number) => {
            let name = if number == 1 { "standard output".into() } else { path.display().to_string() };
            let mut file = descriptors::copy(number).with_context(|| name.clone())?;
            if file.is_terminal() {
                bail!("{name} is a terminal, to which binary data is not written");
            }
            return file.write_all(bytes).context(name);
        }
    };
    written.with_context(|| path.display().to_string())
}
