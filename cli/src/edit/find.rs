//! Finds the files that a command line names, in order, including files in directories. A file with several names is
//! found once.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};

use super::problem::Skip;
use super::thin::{self, Members};
use super::walk::{Searched, Seen, walk};
use crate::io::directory::{Directory, Identity};
use crate::io::entry::{Location, directory_of};
use crate::io::temporary::Temporary;

/// A file to change.
#[derive(Debug)]
pub struct Target {
    /// The name on the command line. For a file in a directory, the directory's name and the path in it.
    pub name: PathBuf,
    /// The place of the file. Symbolic links are followed if the command line names the file.
    pub location: Location,
    pub identity: Identity,
    /// The other names (hard links) of the file that the search found.
    pub others: Vec<Location>,
    /// How the file was found.
    pub origin: Origin,
    /// The places where members of a thin archive may be, or `None` if the file is no thin archive.
    pub members: Option<Members>,
}

/// How a file was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The command line names the file.
    Named,
    /// The file is a member of a thin archive that the command line names.
    Member,
    /// The file is in a directory that the command line names.
    Directory,
}

/// A result of a search.
#[derive(Debug)]
pub enum Found {
    /// A file.
    File(Target),
    /// A file that is left as it is.
    Skipped {
        name: PathBuf,
        /// The reason.
        skip: Skip,
    },
    /// A file that cannot be read.
    Failed { name: PathBuf, error: anyhow::Error },
}

/// Finds the files of a command line, in its order. Files of a directory are sorted by their names. Directories need
/// `recursive`.
///
/// The first list has the members of thin archives instead of the archives. The second list has the thin archives,
/// because they are changed after their members.
pub fn find(paths: &[PathBuf], recursive: bool) -> [Vec<Found>; 2] {
    let mut search = Search::default();
    for path in paths {
        if let Err(error) = search.named(path, recursive) {
            search.fail(path, error);
        }
    }
    search.finish()
}

#[derive(Default)]
struct Search {
    found: Vec<Found>,
    /// The index of each file in `found`, or `usize::MAX` for a thin archive.
    known: HashMap<Identity, usize>,
    /// The names that were found, each with the identity of its directory.
    names: HashSet<(Identity, OsString)>,
    /// The directories of files that the command line names, by path.
    directories: HashMap<PathBuf, Arc<Directory>>,
    /// The directories that were searched.
    searched: Searched,
    thin_archives: Vec<Found>,
    /// Thin archives in directories. They wait until the whole search is done, because then their members are known.
    in_directories: Vec<(Location, Identity)>,
}

impl Search {
    fn skip(&mut self, name: &Path, skip: Skip) {
        self.found.push(Found::Skipped { name: name.to_path_buf(), skip });
    }

    fn fail(&mut self, name: &Path, error: anyhow::Error) {
        self.found.push(Found::Failed { name: name.to_path_buf(), error });
    }

    /// Adds a path of the command line. Symbolic links are followed.
    fn named(&mut self, path: &Path, recursive: bool) -> anyhow::Result<()> {
        let metadata = fs::metadata(path)?;
        if metadata.is_file() {
            let location = self.location(path)?;
            return self.add(path, location, Origin::Named);
        }
        if !metadata.is_dir() {
            return Err(anyhow!("not a regular file"));
        }
        if !recursive {
            return Err(anyhow!("a directory: use --recursive"));
        }
        let mut searched = std::mem::take(&mut self.searched);
        walk(path, &mut searched, |seen| self.seen(seen));
        self.searched = searched;
        Ok(())
    }

    /// Follows the symbolic links of a path to a file.
    fn location(&mut self, path: &Path) -> io::Result<Location> {
        let path = if path.is_symlink() { fs::canonicalize(path)? } else { path.to_path_buf() };
        let parent = directory_of(&path);
        let directory = match self.directories.get(parent) {
            Some(directory) => directory.clone(),
            None => {
                let directory = Directory::at(parent)?;
                self.directories.insert(parent.to_path_buf(), directory.clone());
                directory
            }
        };
        Ok(Location::new(directory, path))
    }

    /// Adds an entry of a directory.
    fn seen(&mut self, seen: Seen) {
        match seen {
            Seen::File(location) if Temporary::is_left_over(location.path()) => {
                self.skip(location.path(), Skip::LeftOver);
            }
            Seen::File(location) => {
                let name = location.path().to_path_buf();
                if let Err(error) = self.add(&name, location, Origin::Directory) {
                    self.fail(&name, error);
                }
            }
            Seen::Skipped(name, skip) => self.skip(&name, skip),
            Seen::Failed(name, error) => self.fail(&name, error.into()),
        }
    }

    /// Adds a file. The members of a thin archive are added instead of the archive.
    fn add(&mut self, name: &Path, location: Location, origin: Origin) -> anyhow::Result<()> {
        let (identity, format) = Format::detect(&location)?;
        match (format, origin) {
            (Format::Other, Origin::Directory) => self.skip(name, Skip::NotElf),
            (Format::ThinArchive, Origin::Directory) => self.in_directories.push((location, identity)),
            (Format::ThinArchive, Origin::Named) => return self.thin_archive(name, location, identity),
            _ => return self.add_file(name, location, identity, origin),
        }
        Ok(())
    }

    /// Adds a thin archive that the command line names. Its members are changed wherever they are.
    fn thin_archive(&mut self, name: &Path, location: Location, identity: Identity) -> anyhow::Result<()> {
        if self.known.insert(identity, usize::MAX).is_some() {
            return Ok(());
        }
        for member in thin::paths(&location)? {
            if let Err(error) = self.member(&member) {
                self.fail(&member, error);
            }
        }
        let members = Some(Members::Anywhere);
        let (name, origin) = (name.to_path_buf(), Origin::Named);
        let target = Target { name, location, identity, others: Vec::new(), origin, members };
        self.thin_archives.push(Found::File(target));
        Ok(())
    }

    /// Adds a member of a thin archive that the command line names.
    fn member(&mut self, path: &Path) -> anyhow::Result<()> {
        let location = self.location(path)?;
        let name = location.path().to_path_buf();
        let (identity, format) = Format::detect(&location)?;
        if matches!(format, Format::ThinArchive) {
            bail!("a thin archive as the member of one");
        }
        self.add_file(&name, location, identity, Origin::Member)
    }

    /// Adds a file, or another name of a known file.
    fn add_file(
        &mut self,
        name: &Path,
        location: Location,
        identity: Identity,
        origin: Origin,
    ) -> anyhow::Result<()> {
        if !self.names.insert(location.key()?) {
            return Ok(());
        }
        let Some(&place) = self.known.get(&identity) else {
            self.known.insert(identity, self.found.len());
            let name = name.to_path_buf();
            let target = Target { name, location, identity, others: Vec::new(), origin, members: None };
            self.found.push(Found::File(target));
            return Ok(());
        };
        if let Some(Found::File(target)) = self.found.get_mut(place) {
            target.others.push(location);
        }
        Ok(())
    }

    /// Adds the thin archives in directories, and ends the search. Members outside of the directories are skipped.
    fn finish(mut self) -> [Vec<Found>; 2] {
        let searched = Arc::new(std::mem::take(&mut self.searched));
        for (location, identity) in std::mem::take(&mut self.in_directories) {
            if self.known.insert(identity, usize::MAX).is_some() {
                continue;
            }
            let name = location.path().to_path_buf();
            match thin::skipped(&location, &searched) {
                Ok(skipped) => skipped.iter().for_each(|(member, skip)| self.skip(member, *skip)),
                Err(error) => self.fail(&name, error),
            }
            let members = Some(Members::In(searched.clone()));
            let origin = Origin::Directory;
            let target = Target { name, location, identity, others: Vec::new(), origin, members };
            self.thin_archives.push(Found::File(target));
        }
        [self.found, self.thin_archives]
    }
}

/// The format of a file by its first bytes.
enum Format {
    /// An ELF file, or an archive with its members in it.
    Whole,
    /// An archive with members that are other files.
    ThinArchive,
    /// Anything else.
    Other,
}

impl Format {
    /// Finds the file's identity and format.
    fn detect(location: &Location) -> io::Result<(Identity, Self)> {
        let file: File = location.entry()?.open()?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut magic = Vec::with_capacity(8);
        file.take(8).read_to_end(&mut magic)?;
        let format = match &magic[..] {
            b"!<thin>\n" => Self::ThinArchive,
            b"!<arch>\n" | [0x7f, b'E', b'L', b'F', ..] => Self::Whole,
            _ => Self::Other,
        };
        Ok((Identity::from_metadata(&metadata), format))
    }
}
