//! Changes a file: an object, or the objects in an archive or a fat file.

use anyhow::{Context as _, bail};
use cfipack_container::raw::archive::Entries;
use cfipack_container::{Error, File, Kind, Member};
use cfipack_edit::{CompactUnwindEditor, Rewrite, rewrite_members, rewrite_slices};

use super::plan::Plan;

/// A changed file.
#[derive(Debug)]
pub struct Edited<'a> {
    /// The bytes.
    pub rewrite: Rewrite<'a>,
    /// The plan of changes.
    pub plan: Plan,
    /// The number of objects that were read.
    pub objects: u64,
    /// The number of archive members and slices that are no Mach-O objects for x86-64 or arm64. They stay as they are.
    pub others: u64,
    /// Names of the slices that have no object to change, and stay as they are.
    pub other_slices: Vec<String>,
}

impl<'a> Edited<'a> {
    /// Changes a file. `personalities` has the names of the personalities that rows may have. If it is empty, rows may
    /// have any personality.
    pub fn new(bytes: &'a [u8], personalities: &[String]) -> anyhow::Result<Self> {
        let (rewrite, plan) = (Rewrite::new(), Plan::default());
        let mut edited = Self { rewrite, plan, objects: 0, others: 0, other_slices: Vec::new() };
        let fat = rewrite_slices(bytes, |slice| edited.slice(slice, personalities))?;
        edited.rewrite = match fat {
            Some(rewrite) => rewrite,
            None => rewrite_members(bytes, |member| edited.member(member, personalities))?,
        };
        if edited.objects == 0 {
            bail!("there is no Mach-O object for x86-64 or arm64 in it");
        }
        Ok(edited)
    }

    /// Changes a slice of a fat file: an object, or an archive of objects. Slices for other architectures stay as they
    /// are, whatever they contain, because a linker chooses a slice by the fat header.
    fn slice(&mut self, slice: &Member<'a>, personalities: &[String]) -> anyhow::Result<Option<Rewrite<'a>>> {
        let name = slice.name.as_deref().unwrap_or_default();
        let before = self.objects;
        let rewrite = if is_other(slice)? {
            self.others += 1;
            None
        } else {
            let rewrite = rewrite_members(slice.bytes, |member| self.member(member, personalities));
            Some(rewrite.with_context(|| name.to_owned())?)
        };
        if self.objects == before {
            self.other_slices.push(name.to_owned());
        }
        Ok(rewrite)
    }

    /// Changes a member of an archive, or a file that is no archive.
    fn member(
        &mut self,
        member: &Member<'a>,
        personalities: &[String],
    ) -> anyhow::Result<Option<Rewrite<'a>>> {
        let changed = self.object(member, personalities);
        match &member.name {
            Some(name) => changed.with_context(|| name.clone().into_owned()),
            None => changed,
        }
    }

    fn object(
        &mut self,
        member: &Member<'a>,
        personalities: &[String],
    ) -> anyhow::Result<Option<Rewrite<'a>>> {
        let Some(file) = object(member)? else {
            self.others += 1;
            return Ok(None);
        };
        let Some(editor) = CompactUnwindEditor::of(&file)? else { return Ok(None) };
        self.objects += 1;
        let plan = Plan::for_object(&file, &editor, personalities)?;
        let rewrite = editor.rewrite(&plan.edits)?;
        self.plan.absorb(plan);
        Ok(Some(rewrite))
    }
}

/// Returns whether a slice stays as it is. This is so if the fat header names another architecture, or if the slice is
/// neither an object nor an archive, for example bitcode.
fn is_other(slice: &Member<'_>) -> anyhow::Result<bool> {
    let name = slice.arch.as_deref().unwrap_or_default();
    if !["x86_64", "arm64"].contains(&without_subtype(name)) {
        return Ok(true);
    }
    match Member::only(slice.bytes).arch {
        Some(own) if without_subtype(&own) != without_subtype(name) => {
            bail!("{name}: the slice's own header says {own}")
        }
        Some(_) => Ok(false),
        None => Ok(Entries::parse(slice.bytes).is_none()),
    }
}

/// Returns the name of an architecture without its subtype. Subtypes may differ: a linker takes code of an older
/// subtype.
fn without_subtype(name: &str) -> &str {
    name.trim_end_matches(".x1").trim_end_matches(['e', 'h'])
}

/// Returns a member as an object, if it is an object for x86-64 or arm64.
fn object<'a>(member: &Member<'a>) -> anyhow::Result<Option<File<'a>>> {
    let file = match File::parse(member.bytes) {
        Ok(file) => file,
        Err(Error::NotObject { .. } | Error::Unsupported { .. }) if member.is_of_archive => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if file.as_macho().is_none() || !file.arch().has_compact_unwind() || file.arch().pointer_size() != 8 {
        return Ok(None);
    }
    if file.kind() == Kind::Linked {
        bail!("a linked file: its linker made its __unwind_info; change the objects before the link");
    }
    Ok(Some(file))
}
