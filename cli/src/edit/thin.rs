//! Thin archives: their members are files of their own, whose sizes the archive repeats.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cfipack_container::{Rewrite, ThinMember, resize_thin_members, thin_members};

use super::problem::Problem;
use crate::io::original::Original;

/// A thin archive with the sizes that its members have now; none if the file is another.
pub fn resized<'a>(path: &Path, bytes: &'a [u8]) -> Result<Option<Rewrite<'a>>, Problem> {
    let Some(members) = thin_members(bytes)? else { return Ok(None) };
    if let Some(nested) = members.iter().find(|member| member.nested.is_some()) {
        let name = String::from_utf8_lossy(nested.path);
        return Err(Problem::Refused(format!("a thin archive with members of the archive {name}")));
    }
    let size = |member: &ThinMember<'a>| {
        let file = file_of(path, member);
        let metadata = fs::metadata(&file).with_context(|| file.display().to_string())?;
        Ok::<_, Problem>(metadata.len())
    };
    resize_thin_members(bytes, size).map(Some)
}

/// The files that are members of a thin archive; none if members of another archive are among them.
pub fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let archive = Original::open(path)?;
    let members = thin_members(archive.bytes())?.unwrap_or_default();
    if members.iter().any(|member| member.nested.is_some()) {
        return Ok(Vec::new());
    }
    Ok(members.iter().map(|member| file_of(path, member)).collect())
}

fn file_of(archive: &Path, member: &ThinMember<'_>) -> PathBuf {
    archive.parent().unwrap_or(Path::new("")).join(OsStr::from_bytes(member.path))
}
