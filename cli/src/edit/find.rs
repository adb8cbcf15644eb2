//! The files that a command line names, in order: those in directories too, and each file once whatever its names.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use walkdir::WalkDir;

use super::problem::Skip;
use super::thin;
use crate::io::temporary::Temporary;

/// A file to change.
#[derive(Debug)]
pub struct Target {
    /// The name that was given, or the path in a directory that was.
    pub name: PathBuf,
    /// The file, all symbolic links followed.
    pub path: PathBuf,
    /// Its other names (hard links) among the files.
    pub others: Vec<PathBuf>,
    /// Whether it was named itself, not found in a directory.
    pub is_named: bool,
}

/// What a search finds.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Target),
    /// What is left as it is.
    Skipped {
        /// Its name.
        name: PathBuf,
        /// Why.
        skip: Skip,
    },
    /// What cannot be read.
    Failed {
        /// Its name.
        name: PathBuf,
        /// Why.
        error: anyhow::Error,
    },
}

/// The files of a command line, in its order, those of a directory by their names; of thin archives the members. The
/// second list has the thin archives, which are changed after their members. Directories need `recursive`.
pub fn find(paths: &[PathBuf], recursive: bool) -> [Vec<Found>; 2] {
    let mut search = Search::default();
    for path in paths {
        if let Err(error) = search.named(path, recursive) {
            search.fail(path, error);
        }
    }
    [search.found, search.thin_archives]
}

#[derive(Default)]
struct Search {
    found: Vec<Found>,
    /// The place in `found` of files, by device and inode.
    known: HashMap<(u64, u64), usize>,
    thin_archives: Vec<Found>,
}

impl Search {
    fn skip(&mut self, name: &Path, skip: Skip) {
        self.found.push(Found::Skipped { name: name.to_path_buf(), skip });
    }

    fn fail(&mut self, name: &Path, error: anyhow::Error) {
        self.found.push(Found::Failed { name: name.to_path_buf(), error });
    }

    /// A path of the command line, whose symbolic links are followed.
    fn named(&mut self, path: &Path, recursive: bool) -> anyhow::Result<()> {
        let metadata = fs::metadata(path)?;
        if metadata.is_file() {
            let target = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_path_buf() };
            return self.add(path, target, &metadata, true);
        }
        if !metadata.is_dir() {
            return Err(anyhow!("not a regular file"));
        }
        if !recursive {
            return Err(anyhow!("a directory: use --recursive"));
        }
        for entry in WalkDir::new(path).sort_by_file_name() {
            match entry {
                Ok(entry) if entry.file_type().is_dir() => {}
                Ok(entry) => {
                    if let Err(error) = self.in_directory(&entry) {
                        self.fail(entry.path(), error);
                    }
                }
                Err(error) => {
                    let name = error.path().unwrap_or(path).to_path_buf();
                    let error = error.into_io_error().map_or_else(|| anyhow!("cannot be read"), Into::into);
                    self.fail(&name, error);
                }
            }
        }
        Ok(())
    }

    fn in_directory(&mut self, entry: &walkdir::DirEntry) -> anyhow::Result<()> {
        let skip = match entry.file_type() {
            kind if kind.is_symlink() => Skip::SymbolicLink,
            kind if !kind.is_file() => Skip::Special,
            _ if Temporary::is_left_over(entry.file_name()) => Skip::LeftOver,
            _ => return self.add(entry.path(), entry.path().to_path_buf(), &entry.metadata()?, false),
        };
        self.skip(entry.path(), skip);
        Ok(())
    }

    /// Adds a file, and if it is a thin archive the files that are its members.
    fn add(&mut self, name: &Path, path: PathBuf, metadata: &Metadata, is_named: bool) -> anyhow::Result<()> {
        match Format::of(&path)? {
            Format::Other if !is_named => {
                self.skip(name, Skip::NotElf);
                return Ok(());
            }
            Format::Other | Format::Whole => return self.add_file(name, path, metadata, is_named),
            Format::ThinArchive => {}
        }
        if self.known.insert((metadata.dev(), metadata.ino()), usize::MAX).is_some() {
            return Ok(());
        }
        for member in thin::files(&path)? {
            let metadata = fs::metadata(&member).map_err(anyhow::Error::from);
            let added =
                metadata.and_then(|metadata| self.add_file(&member, member.clone(), &metadata, false));
            if let Err(error) = added {
                self.fail(&member, error);
            }
        }
        let target = Target { name: name.to_path_buf(), path, others: Vec::new(), is_named };
        self.thin_archives.push(Found::File(target));
        Ok(())
    }

    /// Adds a file, or another name of one that is known.
    fn add_file(
        &mut self,
        name: &Path,
        path: PathBuf,
        metadata: &Metadata,
        is_named: bool,
    ) -> anyhow::Result<()> {
        if !metadata.is_file() {
            return Err(anyhow!("not a regular file"));
        }
        let identity = (metadata.dev(), metadata.ino());
        let Some(&place) = self.known.get(&identity) else {
            self.known.insert(identity, self.found.len());
            let target = Target { name: name.to_path_buf(), path, others: Vec::new(), is_named };
            self.found.push(Found::File(target));
            return Ok(());
        };
        let Some(Found::File(target)) = self.found.get_mut(place) else { return Ok(()) };
        let canonical = |path: &Path| fs::canonicalize(path).with_context(|| path.display().to_string());
        let new = canonical(&path)?;
        for other in [&target.path].into_iter().chain(&target.others) {
            if canonical(other)? == new {
                return Ok(());
            }
        }
        target.others.push(path);
        Ok(())
    }
}

/// What a file is by its first bytes.
enum Format {
    /// An ELF file, or an archive with its members in it.
    Whole,
    /// An archive whose members are other files.
    ThinArchive,
    /// Anything else.
    Other,
}

impl Format {
    fn of(path: &Path) -> io::Result<Self> {
        let mut magic = Vec::with_capacity(8);
        File::open(path)?.take(8).read_to_end(&mut magic)?;
        Ok(match &magic[..] {
            b"!<thin>\n" => Self::ThinArchive,
            b"!<arch>\n" | [0x7f, b'E', b'L', b'F', ..] => Self::Whole,
            _ => Self::Other,
        })
    }
}
