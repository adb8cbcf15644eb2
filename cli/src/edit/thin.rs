//! Thin archives. Their members are separate files, and the archive repeats the sizes of these files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use cfipack_container::{ThinMember, thin_members};
use cfipack_edit::{Rewrite, resize_thin_members};

use super::problem::{Problem, Skip};
use super::walk::Searched;
use crate::io::entry::{Entry, Location, directory_of};
use crate::io::original::{CHANGED, Original};

/// The places where members of a thin archive may be.
#[derive(Clone, Debug)]
pub enum Members {
    /// Wherever the archive names them, also through symbolic links. For an archive on the command line.
    Anywhere,
    /// In these directories, reached without symbolic links. For an archive that was found in a directory.
    In(Arc<Searched>),
}

/// Writes the present sizes of its members into a thin archive. Members that are out of reach keep their sizes. Returns
/// `None` if the file is no thin archive. `reach` is known if the file was a thin archive when it was found.
pub fn resized<'a>(
    archive: &Location,
    reach: Option<&Members>,
    bytes: &'a [u8],
) -> Result<Option<Rewrite<'a>>, Problem> {
    let Some(members) = thin_members(bytes)? else { return Ok(None) };
    let reach = reach.ok_or_else(|| anyhow!(CHANGED))?;
    if let Some(nested) = members.iter().find(|member| member.nested.is_some()) {
        let name = String::from_utf8_lossy(nested.path);
        return Err(Problem::Refused(format!("a thin archive with members of the archive {name}")));
    }
    resize_thin_members(bytes, |member| present_size(archive, member, reach)).map(Some)
}

/// Returns the present size of a member's file. A member that is out of reach keeps the size in the archive.
fn present_size(archive: &Location, member: &ThinMember<'_>, reach: &Members) -> Result<u64, Problem> {
    let file = path_of(archive.path(), member);
    let metadata = match reach {
        Members::Anywhere => fs::metadata(&file),
        Members::In(searched) => match reached(archive, member, searched) {
            Ok(member) => member.metadata(),
            Err(_) => return Ok(member.size),
        },
    };
    Ok(metadata.with_context(|| file.display().to_string())?.len())
}

/// Returns the paths of the members of a thin archive.
pub fn paths(archive: &Location) -> anyhow::Result<Vec<PathBuf>> {
    let members = chosen(archive, |_| Some(()))?;
    Ok(members.into_iter().map(|(path, ())| path).collect())
}

/// Returns the members that are not changed, with the reason. They are not files in the searched directories, or only
/// symbolic links lead to them.
pub fn skipped(archive: &Location, searched: &Searched) -> anyhow::Result<Vec<(PathBuf, Skip)>> {
    chosen(archive, |member| reached(archive, member, searched).err())
}

/// Returns the paths of the members for which `about` returns a value. The list is empty if the archive has members of
/// another archive, because such an archive is refused.
fn chosen<T>(
    archive: &Location,
    about: impl Fn(&ThinMember<'_>) -> Option<T>,
) -> anyhow::Result<Vec<(PathBuf, T)>> {
    let original = Original::open(archive.entry()?)?;
    let members = thin_members(original.bytes())?.unwrap_or_default();
    if members.iter().any(|member| member.nested.is_some()) {
        return Ok(Vec::new());
    }
    let chosen = members.iter().filter_map(|member| Some((path_of(archive.path(), member), about(member)?)));
    Ok(chosen.collect())
}

fn path_of(archive: &Path, member: &ThinMember<'_>) -> PathBuf {
    archive.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(member.path))
}

/// Returns a member that is a file in a searched directory, if its path leads there without a symbolic link.
fn reached(archive: &Location, member: &ThinMember<'_>, searched: &Searched) -> Result<Entry, Skip> {
    let of_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Skip::Missing,
        _ => Skip::Outside,
    };
    let path = Path::new(OsStr::from_bytes(member.path));
    let directory = archive.directory().lead(directory_of(path)).map_err(of_error)?;
    let directory = searched.get(&directory).ok_or(Skip::Outside)?;
    let entry = Location::new(directory.clone(), path.to_path_buf()).entry().map_err(of_error)?;
    let is_file = entry.metadata().map_err(of_error)?.is_file();
    if is_file { Ok(entry) } else { Err(Skip::Missing) }
}
