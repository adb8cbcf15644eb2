//! Separate debug files, which have the `.debug_frame`, the line numbers and the symbols of stripped files.
//!
//! A debug file is read only if the user asks for it, so that a verb has the same result on every machine.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cfipack_container::{Elf, File, Kind};
use serde::Serialize;

use crate::io::input::CALL_FRAMES;
use crate::io::mmap::Bytes;
use crate::report::escaped::{Escaped, FileName};
use crate::report::status;

/// The option for a separate debug file.
#[derive(clap::Args, Clone, Debug)]
pub struct DebugFileOption {
    /// Read .debug_frame, symbols and source lines that the file does not have from this separate debug file; "auto"
    /// finds it by build-id and .gnu_debuglink
    #[arg(long = "debug-file", value_name = "FILE")]
    path: Option<PathBuf>,
}

/// The word that asks for a search. A file of this name is `./auto`.
const AUTO: &str = "auto";

/// Where debuggers look for debug files of the whole system.
const SYSTEM: &str = "/usr/lib/debug";

/// A debug file that belongs to an input.
#[derive(Debug)]
pub struct DebugFile {
    path: PathBuf,
    /// The bytes of the debug file.
    pub bytes: Bytes,
    proof: Proof,
}

/// What shows that a debug file belongs to a file.
#[derive(Debug)]
enum Proof {
    BuildId(Vec<u8>),
    Checksum(u32),
    /// The user named the debug file, and the file has neither a build-id nor a `.gnu_debuglink`.
    Nothing,
}

/// The debug file of a report.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DebugFileJson {
    /// The path.
    path: FileName,
    /// The build-id that both files have.
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<String>,
}

impl DebugFileOption {
    /// Returns whether an option is given that is only for one input.
    pub fn is_one_file(&self) -> bool {
        self.path.as_deref().is_some_and(|path| path != Path::new(AUTO))
    }

    /// Returns whether the option is given.
    pub fn is_given(&self) -> bool {
        self.path.is_some()
    }

    /// Refuses a named debug file for several inputs.
    pub fn check(&self, inputs: &[PathBuf]) -> anyhow::Result<()> {
        if self.is_one_file() && inputs.len() != 1 {
            bail!("--debug-file: one debug file, but {} inputs: \"auto\" finds that of each", inputs.len());
        }
        Ok(())
    }

    /// Opens the debug file of an input. A file that is not linked ELF has none.
    ///
    /// # Errors
    /// The named debug file cannot be read, or belongs to another file. A file that a search finds is passed over with
    /// a warning if it is damaged. It is an error if the search finds debug files of other builds alone.
    pub fn open(&self, input: &Path, bytes: &[u8]) -> anyhow::Result<Option<DebugFile>> {
        let Some(path) = &self.path else { return Ok(None) };
        let file = File::parse(bytes).ok().filter(|file| file.kind() == Kind::Linked);
        let Some(elf) = file.as_ref().and_then(File::as_elf) else {
            if self.is_one_file() {
                bail!("--debug-file: the input is not a linked ELF file");
            }
            return Ok(None);
        };
        if self.is_one_file() {
            return open(path, elf).with_context(|| path.display().to_string()).map(Some);
        }
        let mut other = None;
        let candidates = candidates(input, elf);
        // The name can lead to the input itself.
        let own = input.canonicalize().ok();
        let exists = |path: &&PathBuf| path.exists() && path.canonicalize().ok() != own;
        for path in candidates.iter().filter(exists) {
            match open(path, elf) {
                Ok(found) => return Ok(Some(found)),
                Err(error) if error.is::<OfAnotherBuild>() => {
                    other.get_or_insert_with(|| error.context(path.display().to_string()));
                }
                Err(error) => {
                    status::warn(&format_args!("{}: {error:#}: not used as debug file", path.display()));
                }
            }
        }
        other.map_or(Ok(()), Err)?;
        warn_of_search(input, &candidates);
        Ok(None)
    }
}

/// Warns that a search found no debug file.
fn warn_of_search(input: &Path, candidates: &[PathBuf]) {
    let input = input.display();
    if candidates.is_empty() {
        let words = "the file has neither a build-id nor a .gnu_debuglink by which to find its debug file";
        status::warn(&format_args!("{input}: --debug-file auto: {words}"));
        return;
    }
    let places: Vec<_> = candidates.iter().map(|path| path.display().to_string()).collect();
    status::warn(&format_args!("{input}: --debug-file auto: no debug file is at {}", places.join(" or ")));
}

/// A debug file belongs to another build of the file.
#[derive(thiserror::Error, Debug)]
#[error("a debug file of another build: its {what} is {debug_file}, that of the file {file}")]
struct OfAnotherBuild {
    what: &'static str,
    debug_file: String,
    file: String,
}

/// Opens a debug file and checks that it belongs to a file.
fn open(path: &Path, elf: &Elf<'_>) -> anyhow::Result<DebugFile> {
    // A FIFO would block, and the content of a device never ends.
    if !std::fs::metadata(path)?.is_file() {
        bail!("not a regular file");
    }
    let bytes = Bytes::open(path, |_| u64::MAX)?;
    let file = File::parse(&bytes)?;
    let Some(debug_file) = file.as_elf() else { bail!("a Mach-O file is no debug file for ELF") };
    let proof = prove(elf, debug_file, &bytes)?;
    Ok(DebugFile { path: path.to_path_buf(), proof, bytes })
}

/// Compares the build-ids of two files, or without build-ids the CRC of the debug file.
fn prove(elf: &Elf<'_>, debug_file: &Elf<'_>, bytes: &[u8]) -> Result<Proof, OfAnotherBuild> {
    let (own, other) = (elf.build_id(), debug_file.build_id());
    if own != other {
        let [debug_file, file] = [other, own].map(|id| id.map_or_else(|| "missing".into(), hexadecimal));
        return Err(OfAnotherBuild { what: "build-id", debug_file, file });
    }
    if let Some(id) = own {
        return Ok(Proof::BuildId(id.to_vec()));
    }
    let Some((_, expected)) = elf.debug_link() else { return Ok(Proof::Nothing) };
    let found = crc32fast::hash(bytes);
    if found != expected {
        let [debug_file, file] = [found, expected].map(|checksum| format!("{checksum:#010x}"));
        return Err(OfAnotherBuild { what: "CRC", debug_file, file });
    }
    Ok(Proof::Checksum(found))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the places where the debug file of an input can be, in the order in which gdb tries them.
fn candidates(input: &Path, elf: &Elf<'_>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some((first, rest)) =
        elf.build_id().and_then(|id| id.split_first()).filter(|(_, rest)| !rest.is_empty())
    {
        let name = format!("{}.debug", hexadecimal(rest));
        paths.push(Path::new(SYSTEM).join(".build-id").join(hexadecimal(&[*first])).join(name));
    }
    let own = input.canonicalize().ok();
    let name = elf.debug_link().and_then(|(name, _)| file_name(name));
    if let (Some(name), Some(directory)) = (name, own.as_deref().and_then(Path::parent)) {
        paths.push(directory.join(name));
        paths.push(directory.join(".debug").join(name));
        let below_root = directory.strip_prefix("/").unwrap_or(directory);
        paths.push(Path::new(SYSTEM).join(below_root).join(name));
    }
    paths
}

/// Returns a name of `.gnu_debuglink`, or `None` for a name that is a path and leads to another directory.
fn file_name(name: &[u8]) -> Option<&OsStr> {
    let name = std::str::from_utf8(name).ok()?;
    let is_path = name.contains(['/', '\\']) || matches!(name, "" | "." | "..");
    (!is_path).then(|| OsStr::new(name))
}

impl DebugFile {
    /// Returns the debug file for JSON.
    pub fn json(&self) -> DebugFileJson {
        let build_id = if let Proof::BuildId(id) = &self.proof { Some(hexadecimal(id)) } else { None };
        DebugFileJson { path: FileName::of_path(&self.path), build_id }
    }
}

impl fmt::Display for DebugFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "debug file: {}", Escaped(self.path.display()))?;
        match &self.proof {
            Proof::BuildId(id) => write!(f, " (build-id {})", hexadecimal(id)),
            Proof::Checksum(checksum) => write!(f, " (CRC {checksum:#010x})"),
            Proof::Nothing => write!(f, " (neither a build-id nor a CRC to check)"),
        }
    }
}

/// Returns what to add to the message about a file without CFI if a debug file may have it.
pub fn hint(file: &File<'_>, what: &str) -> &'static str {
    let may_be_split =
        file.as_elf().is_some_and(|elf| elf.debug_link().is_some() || elf.build_id().is_some());
    if may_be_split && what == CALL_FRAMES {
        " (--debug-file auto looks for its separate debug file)"
    } else {
        ""
    }
}
