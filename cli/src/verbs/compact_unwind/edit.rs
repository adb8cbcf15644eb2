//! Changes a file: an object, or the objects in an archive or a fat file.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use cfipack_container::raw::archive::Entries;
use cfipack_container::{Error, File, Kind, Member};
use cfipack_edit::{CompactUnwindEditor, Rewrite, rewrite_members, rewrite_slices};
use cfipack_format::{Address, Arch};

use super::judge::{is_changeable, judge};
use super::personalities::Personalities;
use super::plan::Plan;
use super::request::{Request, Wishes};

/// A hint about objects that could have compact rows, but stay as they are.
const ARM64_32_STAYS: &str = ". Objects for arm64_32 stay as they are, because ld64.lld drops their rows with a frame \
    pointer: link them unchanged, with their FDEs";

/// A changed file.
#[derive(Debug)]
pub struct Edited<'a> {
    /// The bytes.
    pub rewrite: Rewrite<'a>,
    pub objects: Objects,
    /// Names of the slices that have no object to change, and stay as they are.
    pub other_slices: Vec<String>,
}

/// The objects of a file or of a slice, with the planned changes.
#[derive(Debug, Default)]
pub struct Objects {
    /// The plan of changes.
    pub plan: Plan,
    /// The number of objects that were read.
    pub count: u64,
    /// The number of archive members and slices that are no Mach-O objects for x86-64 or arm64. They stay as they are.
    pub others: u64,
    /// The personalities of compact rows, old and new.
    pub personalities: Personalities,
    /// The same, by architecture: the slices of a fat file are not for the same link.
    pub by_arch: Vec<(Arch, Personalities)>,
    /// True if an object is for arm64_32.
    has_arm64_32: bool,
    /// The architecture of the last object that was read.
    arch: Option<Arch>,
    /// The number of the first object. Objects of several files have different numbers.
    first: u64,
}

impl<'a> Edited<'a> {
    /// Changes a file. `first` is the number of its first object.
    pub fn new(bytes: &'a [u8], wishes: Wishes<'_>, first: u64) -> anyhow::Result<Self> {
        let objects = Objects { first, ..Objects::default() };
        let mut edited = Self { rewrite: Rewrite::new(), objects, other_slices: Vec::new() };
        let fat = rewrite_slices(bytes, |slice| edited.slice(slice, wishes))?;
        edited.rewrite = match fat {
            Some(rewrite) => rewrite,
            None => edited.objects.add(bytes, wishes)?,
        };
        if edited.objects.count == 0 {
            let hint = if edited.objects.has_arm64_32 { ARM64_32_STAYS } else { "" };
            bail!("there is no Mach-O object for x86-64 or arm64 in it{hint}");
        }
        Ok(edited)
    }

    /// Changes a slice of a fat file: an object, or an archive of objects. Slices for other architectures stay as they
    /// are, whatever they contain, because a linker chooses a slice by the fat header.
    fn slice(&mut self, slice: &Member<'a>, wishes: Wishes<'_>) -> anyhow::Result<Option<Rewrite<'a>>> {
        let name = slice.name.as_deref().unwrap_or_default();
        let before = self.objects.count;
        let rewrite = if is_other(slice)? {
            self.objects.others += 1;
            None
        } else {
            Some(self.objects.add(slice.bytes, wishes).with_context(|| name.to_owned())?)
        };
        if self.objects.count == before {
            self.other_slices.push(name.to_owned());
        }
        Ok(rewrite)
    }
}

impl Objects {
    /// Changes the members of an archive, or a file that is no archive.
    fn add<'a>(&mut self, bytes: &'a [u8], wishes: Wishes<'_>) -> anyhow::Result<Rewrite<'a>> {
        let change = |personalities| {
            let first = self.first + self.count;
            let mut objects = Self { personalities, first, ..Self::default() };
            let rewrite = rewrite_members(bytes, |member| objects.member(member, wishes))?;
            anyhow::Ok((rewrite, objects))
        };
        let (mut rewrite, mut objects) = change(Personalities::default())?;
        if objects.personalities.exceed() {
            (rewrite, objects) = change(objects.personalities.before())?;
        }
        self.plan.absorb(objects.plan);
        self.count += objects.count;
        self.others += objects.others;
        self.has_arm64_32 |= objects.has_arm64_32;
        self.by_arch.extend(objects.arch.map(|arch| (arch, objects.personalities.clone())));
        self.personalities.absorb(objects.personalities);
        Ok(rewrite)
    }

    fn member<'a>(&mut self, member: &Member<'a>, wishes: Wishes<'_>) -> anyhow::Result<Option<Rewrite<'a>>> {
        let changed = self.object(member, wishes);
        match &member.name {
            Some(name) => changed.with_context(|| name.clone().into_owned()),
            None => changed,
        }
    }

    fn object<'a>(&mut self, member: &Member<'a>, wishes: Wishes<'_>) -> anyhow::Result<Option<Rewrite<'a>>> {
        let file = match object(member)? {
            Some(file) if is_changeable(&file) => file,
            other => {
                self.others += 1;
                self.has_arm64_32 |= other.is_some_and(|file| file.arch() == Arch::Arm64_32);
                return Ok(None);
            }
        };
        if file.kind() == Kind::Linked {
            bail!("a linked file: its linker made its __unwind_info; change the objects before the link");
        }
        let (faulty, none) =
            (if wishes.repair { judge(&file)?.faulty() } else { BTreeSet::new() }, BTreeSet::new());
        let Some((plan, rewrite)) = self.changed(&file, wishes, &faulty, &none)? else { return Ok(None) };
        let divided = plan.divided();
        let (plan, rewrite) = if divided.is_empty() {
            (plan, rewrite)
        } else {
            // A row that begins inside a function may lack the body that its own part of the code has not reached.
            let new = rewrite.to_vec(file.bytes());
            let mut undivided = judge(&File::parse(&new)?)?.faulty();
            undivided.retain(|start| divided.contains(start));
            match self.changed(&file, wishes, &faulty, &undivided)? {
                Some(changed) if !undivided.is_empty() => changed,
                _ => (plan, rewrite),
            }
        };
        self.count += 1;
        self.arch = Some(file.arch());
        self.plan.absorb(plan);
        Ok(Some(rewrite))
    }

    /// Plans the changes of an object, and makes them.
    fn changed<'a>(
        &mut self,
        file: &File<'a>,
        wishes: Wishes<'_>,
        faulty: &BTreeSet<Address>,
        undivided: &BTreeSet<Address>,
    ) -> anyhow::Result<Option<(Plan, Rewrite<'a>)>> {
        let (Some(editor), Some(macho)) = (CompactUnwindEditor::of(file)?, file.as_macho()) else {
            return Ok(None);
        };
        let request = Request { wishes, object: self.first + self.count, faulty, undivided };
        let plan = Plan::for_object(file, &editor, macho.labels(), &request, &mut self.personalities)?;
        let rewrite = editor.rewrite(&plan.edits)?;
        Ok(Some((plan, rewrite)))
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

/// Returns a member as a file, if it is one that can be read.
fn object<'a>(member: &Member<'a>) -> anyhow::Result<Option<File<'a>>> {
    match File::parse(member.bytes) {
        Ok(file) => Ok(Some(file)),
        Err(Error::NotObject { .. } | Error::Unsupported { .. }) if member.is_of_archive => Ok(None),
        Err(error) => Err(error.into()),
    }
}
