//! Opens input files, and finds the objects and tables in them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use cfipack_cfi::Functions;
use cfipack_container::{CallFrameSection, File, Kind, Member, Placement, Section, members};
use cfipack_decoder::sframe;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use crate::edit::Skip;
use crate::io::absent;
use crate::io::debug_file::{DebugFile, DebugFileOption};
use crate::io::mmap::Bytes;
use crate::io::reach::{Bare, Reach};
use crate::report::escaped::FileName;
use crate::report::status;

/// The selected architecture of a fat file.
#[derive(clap::Args, Debug)]
pub struct Slice {
    /// Of fat Mach-O files read only this architecture: x86_64, arm64, i386, ... [default: all]
    #[arg(long, value_name = "ARCH", value_parser = parse_arch)]
    arch: Option<String>,
}

/// Names of architectures as `lipo` prints them, and the names of ELF architectures.
const ARCHES: [&str; 15] = [
    "x86_64",
    "x86_64h",
    "i386",
    "arm64",
    "arm64e",
    "arm64e.x1",
    "arm64_32",
    "armv7",
    "armv7s",
    "armv7k",
    "ppc",
    "ppc64",
    "aarch64",
    "aarch64_be",
    "s390x",
];

fn parse_arch(text: &str) -> Result<String, String> {
    match text {
        "x86-64" | "amd64" => Ok("x86_64".into()),
        _ if ARCHES.contains(&text) => Ok(text.into()),
        _ => Err(format!("not an architecture: {}", ARCHES.join(", "))),
    }
}

impl Slice {
    /// Refuses a chosen architecture. Call it if the verb writes a whole file.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.arch.is_some() {
            bail!("--arch: files are written with all their architectures");
        }
        Ok(())
    }
}

/// The parts of an input to read.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'s> {
    slice: &'s Slice,
    debug_file: Option<&'s DebugFileOption>,
    /// What to do about members of an archive without CFI, or `None` if the verb does not need their CFI.
    pub cfi: Option<Demand>,
}

/// What to do about members of an archive that have no CFI, or none that can be used, if other members have some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Warn of members whose CFI or code cannot be used.
    Warn,
    /// Warn of them and of members with code and no CFI, and end with status 1.
    Fail,
}

impl Demand {
    /// Returns `Fail` if a user asks for it with an option like `--strict`.
    pub fn fail_if(strict: bool) -> Self {
        if strict { Self::Fail } else { Self::Warn }
    }
}

impl Parts<'_> {
    /// Sets what to do about members without CFI.
    pub fn demand(self, demand: Demand) -> Self {
        Self { cfi: Some(demand), ..self }
    }
}

impl<'s> From<&'s Slice> for Parts<'s> {
    fn from(slice: &'s Slice) -> Self {
        Self { slice, debug_file: None, cfi: None }
    }
}

impl<'s> From<(&'s Slice, &'s DebugFileOption)> for Parts<'s> {
    fn from((slice, debug_file): (&'s Slice, &'s DebugFileOption)) -> Self {
        Self { slice, debug_file: Some(debug_file), cfi: None }
    }
}

/// An input file.
#[derive(Debug)]
pub struct Input<'s> {
    path: PathBuf,
    bytes: Bytes,
    slice: &'s Slice,
    debug_file: Option<DebugFile>,
}

/// An object, a linked file or a bare section.
#[derive(Debug)]
pub struct Object<'a> {
    pub name: Name<'a>,
    pub contents: Contents<'a>,
    /// The separate debug file, if the user asked for it and there is one.
    pub debug_file: Option<&'a DebugFile>,
}

/// The contents of an input.
#[derive(Debug)]
pub enum Contents<'a> {
    /// An object or linked file.
    File(File<'a>),
    /// The bytes of a `.sframe` section.
    Table(&'a [u8]),
    /// The bytes of an `__unwind_info` section.
    UnwindInfo(&'a [u8]),
}

/// The name of an object: `FILE`, or `ARCHIVE(MEMBER)` as binutils write it, or `FILE(ARCH)`.
#[derive(Clone, Debug)]
pub struct Name<'a> {
    path: &'a Path,
    /// The name in the archive or fat file. It is not copied, because many members can share a long name.
    pub member: Option<Cow<'a, str>>,
}

impl Name<'_> {
    /// Returns the path of the file, without the name in an archive or fat file.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// Returns the name for a report that outlives the object.
    pub fn plain(&self) -> FileName {
        let member = self.member.as_ref().map(|member| format!("({member})"));
        FileName::new(format!("{}{}", self.path.display(), member.unwrap_or_default()))
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain().fmt(f)
    }
}

impl<'s> Input<'s> {
    /// Opens a file, and its debug file if `parts` has the option. Members for other architectures than the selected
    /// one are ignored.
    pub fn open(path: &Path, parts: impl Into<Parts<'s>>) -> anyhow::Result<Self> {
        let Parts { slice, debug_file, .. } = parts.into();
        let name = || path.display().to_string();
        let mut reach = Reach::default();
        let bytes = Bytes::open(or_standard_input(path), |bytes| reach.wanted(bytes)).with_context(name)?;
        let debug_file = debug_file.map(|option| option.open(path, &bytes)).transpose().with_context(name)?;
        Ok(Self { path: path.to_path_buf(), bytes, slice, debug_file: debug_file.flatten() })
    }

    /// Returns the file as a single object.
    ///
    /// # Errors
    /// The file is an archive, or it has several architectures.
    pub fn object(&self, placement: Placement) -> anyhow::Result<Object<'_>> {
        let name = self.path.display();
        let mut members = self.members()?;
        match (members.next(), members.next()) {
            (Some(member), None) => {
                let object = self.member(member, placement);
                object?.ok_or_else(|| self.without_object()).with_context(|| name.to_string())
            }
            _ => {
                let mut arches = arches(self.members()?);
                arches.retain(|arch| ARCHES.contains(&&arch[..]));
                if arches.len() > 1 {
                    let arches = arches.join(", ");
                    bail!("{name}: the file has several architectures, choose one with --arch: {arches}");
                }
                bail!("{name}: an archive; this command needs one object: extract its members")
            }
        }
    }

    /// Returns the file as a single object, or the objects of a fat file with an object for each architecture.
    pub fn slices(&self, placement: Placement) -> anyhow::Result<Vec<Object<'_>>> {
        let slices: Vec<_> = self.members()?.collect::<Result<_, _>>().unwrap_or_default();
        if slices.len() < 2 || slices.iter().any(|member| member.is_of_archive) {
            return Ok(vec![self.object(placement)?]);
        }
        self.objects(placement)?.collect()
    }

    /// Returns the objects in the file: the members of an archive that are objects, or the file itself.
    pub fn objects(
        &self,
        placement: Placement,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Object<'_>>>> {
        let members = self.members()?;
        Ok(members.filter_map(move |member| self.member(member, placement).transpose()))
    }

    /// Returns the error for a file without an object. It names the reason if a member of it is LLVM bitcode.
    pub fn without_object(&self) -> anyhow::Error {
        match self.bitcode().next() {
            Some(name) => anyhow!(
                "the file has no object: member {}: {}",
                name.member.unwrap_or_default(),
                Skip::Bitcode
            ),
            None => anyhow!("the file has no object"),
        }
    }

    /// Returns the names of the members that are LLVM bitcode.
    pub fn bitcode(&self) -> impl Iterator<Item = Name<'_>> {
        let members = self.members().into_iter().flatten().flatten();
        let bitcode = members.filter(|member| member.name.is_some() && member.is_bitcode());
        bitcode.map(|member| Name { path: &self.path, member: member.name })
    }

    /// Returns the members of the file for the selected architecture.
    fn members(&self) -> anyhow::Result<impl Iterator<Item = Result<Member<'_>, cfipack_container::Error>>> {
        let name = || self.path.display().to_string();
        let all = || members(&self.bytes).with_context(name);
        let is_selected = |member: &Result<Member<'_>, _>| {
            let arch = member.as_ref().ok().and_then(|member| member.arch.as_ref());
            self.slice.arch.as_ref().is_none_or(|selected| arch.is_none_or(|arch| arch == selected))
        };
        if let Some(selected) = &self.slice.arch
            && !all()?.any(|member| is_selected(&member))
        {
            bail!("{}: the file has no {selected}, but {}", name(), arches(all()?).join(", "));
        }
        Ok(all()?.filter(is_selected))
    }

    fn member<'a>(
        &'a self,
        member: Result<Member<'a>, cfipack_container::Error>,
        placement: Placement,
    ) -> anyhow::Result<Option<Object<'a>>> {
        let member = member.with_context(|| self.path.display().to_string())?;
        let is_of_archive = member.is_of_archive;
        let name = Name { path: &self.path, member: member.name };
        let debug_file = self.debug_file.as_ref();
        match contents(member.bytes, placement, debug_file) {
            Ok(contents) => Ok(Some(Object { name, contents, debug_file })),
            // An archive may contain any file.
            Err(cfipack_container::Error::NotObject { .. }) if is_of_archive => Ok(None),
            // A member for an unsupported architecture has no table that could be wrong.
            Err(error @ cfipack_container::Error::Unsupported { .. }) if is_of_archive => {
                status::warn(&format_args!("{name}: {error}"));
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| name.to_string()),
        }
    }
}

/// Returns the path to open. `-` is standard input.
pub fn or_standard_input(path: &Path) -> &Path {
    if path == Path::new("-") { Path::new("/dev/stdin") } else { path }
}

/// Returns the architectures of objects and linked files, without repetition.
fn arches<'a>(members: impl Iterator<Item = Result<Member<'a>, cfipack_container::Error>>) -> Vec<String> {
    let mut seen = HashSet::new();
    let arches = members.flatten().filter_map(|member| member.arch).map(Cow::into_owned);
    arches.filter(|arch| seen.insert(arch.clone())).collect()
}

fn contents<'a>(
    bytes: &'a [u8],
    placement: Placement,
    debug_file: Option<&'a DebugFile>,
) -> Result<Contents<'a>, cfipack_container::Error> {
    match Bare::recognise(bytes) {
        Some(Bare::Sframe) => Ok(Contents::Table(bytes)),
        Some(Bare::UnwindInfo) => Ok(Contents::UnwindInfo(bytes)),
        None => {
            let file = File::parse_with(bytes, placement)?;
            let Some(debug_file) = debug_file else { return Ok(Contents::File(file)) };
            file.with_debug_file(File::parse(&debug_file.bytes)?).map(Contents::File)
        }
    }
}

impl<'a> Object<'a> {
    /// Returns the object or linked file. A bare section is an error.
    pub fn file(&self) -> anyhow::Result<&File<'a>> {
        match &self.contents {
            Contents::File(file) => Ok(file),
            Contents::Table(_) => bail!("a bare .sframe section has no code and no CFI"),
            Contents::UnwindInfo(_) => {
                bail!("a bare __unwind_info section has no code and no CFI")
            }
        }
    }

    /// Prints the line of a report about the debug file, if there is one.
    pub fn print_debug_file(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.debug_file.map_or(Ok(()), |debug_file| writeln!(out, "  {debug_file}"))
    }

    /// Refuses `--address` for everything except a bare `.sframe` section. All other inputs contain the address.
    pub fn check_address(&self, address: Option<Address>) -> anyhow::Result<()> {
        if address.is_some() && !self.is_bare_sframe() {
            bail!("--address: the input is not a bare .sframe section");
        }
        Ok(())
    }

    /// Returns whether it is a bare `.sframe` section.
    pub fn is_bare_sframe(&self) -> bool {
        matches!(self.contents, Contents::Table(_))
    }

    /// Returns whether its tables are compact unwind tables. This is so for a Mach-O file or a bare `__unwind_info`.
    pub fn is_compact(&self) -> bool {
        match &self.contents {
            Contents::File(file) => file.as_macho().is_some(),
            Contents::Table(_) => false,
            Contents::UnwindInfo(_) => true,
        }
    }

    /// Returns whether it is a relocatable object. The sections of relocatable objects have no addresses yet.
    pub fn is_relocatable(&self) -> bool {
        matches!(&self.contents, Contents::File(file) if file.kind() == Kind::Relocatable)
    }

    /// Returns the tables in its `.sframe` sections. In a relocatable object, relocations decide whether starts are
    /// relative to their fields, not the header.
    pub fn tables<'s>(&self, sections: &'s [Section<'_>]) -> anyhow::Result<Vec<sframe::Section<'s>>> {
        let mut all = Vec::new();
        for section in sections {
            all.append(&mut match &self.contents {
                Contents::File(file) => relocated_tables(file, section)?,
                _ => tables(section)?,
            });
        }
        Ok(all)
    }

    /// Returns the `.sframe` sections. `address` is the address of a bare section.
    pub fn sframe_sections(&self, address: Address) -> anyhow::Result<Vec<Section<'a>>> {
        match &self.contents {
            Contents::File(file) => Ok(file.sframe_sections()?),
            Contents::Table(bytes) => Ok(vec![Section::new(".sframe".into(), address, (*bytes).into())]),
            Contents::UnwindInfo(_) => Ok(Vec::new()),
        }
    }
}

/// Returns the tables in a `.sframe` section.
///
/// There is usually a single table. But linkers that do not know the format concatenate the tables of their inputs, and
/// ld writes a section of size 0 if no input has a function. The search stops after more than
/// [`sframe::Section::MAX_ZEROS`] zeros.
pub fn tables<'s>(section: &'s Section<'_>) -> anyhow::Result<Vec<sframe::Section<'s>>> {
    let tables = sframe::Section::concatenated(&section.bytes, section.address);
    tables.collect::<Result<_, _>>().with_context(|| format!("section {}", section.name))
}

/// Returns the tables in a `.sframe` section of a file. In a relocatable object, relocations decide whether starts are
/// relative to their fields, not the header.
pub fn relocated_tables<'s>(
    file: &File<'_>,
    section: &'s Section<'_>,
) -> anyhow::Result<Vec<sframe::Section<'s>>> {
    let mut found = tables(section)?;
    let Some(index) = section.index else { return Ok(found) };
    let relocations = file.relocations(index)?.into_iter();
    let relative: HashSet<_> =
        relocations.filter(|relocation| relocation.relative).map(|field| field.offset).collect();
    for table in &mut found {
        let base = table.address().distance_from(section.address) as u64;
        *table = table.relocated(|field| relative.contains(&(base + field.0.to_u64())));
    }
    Ok(found)
}

/// The name of the contents of `.eh_frame` and `.debug_frame` in messages.
pub const CALL_FRAMES: &str = "call frame information";

/// Returns the sections of call frame information of a file. It is an error if the file has none.
pub fn call_frame_sections<'a>(file: &File<'a>) -> anyhow::Result<Vec<CallFrameSection<'a>>> {
    let sections = file.call_frame_sections()?;
    if !describe_functions(&sections) {
        return Err(absent::from_file(file, CALL_FRAMES));
    }
    Ok(sections)
}

/// Returns false if there is no section, or if all FDEs are excluded (for example, FDEs of discarded functions).
pub fn describe_functions(sections: &[CallFrameSection<'_>]) -> bool {
    let has_excluded = sections.iter().any(|section| !section.excluded.is_empty());
    sections.iter().any(|section| !has_excluded || Functions::new(&section.cfi()).next().is_some())
}
