//! Files named on the command line, with the objects and tables in them.

use std::collections::HashSet;
use std::fmt;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Member, Placement, Section, members};
use cfipack_decoder::sframe;
use cfipack_format::Address;

use crate::escaped::Escaped;
use crate::mmap::Bytes;
use crate::reach::{Bare, Reach};

/// Which of the architectures in a file is meant.
#[derive(clap::Args, Debug)]
pub struct Slice {
    /// Only this architecture: x86_64, arm64, i386, aarch64, s390x, ...
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
}

/// A file named on the command line.
#[derive(Debug)]
pub struct Input<'s> {
    path: PathBuf,
    bytes: Bytes,
    slice: &'s Slice,
}

/// An object or linked file, or the bytes of a section that stand alone.
#[derive(Debug)]
pub struct Object<'a> {
    /// Where it was found.
    pub name: Name<'a>,
    /// What it is.
    pub contents: Contents<'a>,
}

/// What an input is.
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
    /// Its name in the archive or the fat file that the file is.
    pub member: Option<String>,
}

impl Name<'_> {
    /// The name as it is, for JSON.
    pub fn plain(&self) -> String {
        let member = self.member.as_ref().map(|member| format!("({member})"));
        format!("{}{}", self.path.display(), member.unwrap_or_default())
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(self.plain()).fmt(f)
    }
}

impl<'s> Input<'s> {
    /// Opens a file, of which what is not of the architecture in `slice` is left aside.
    pub fn open(path: &Path, slice: &'s Slice) -> anyhow::Result<Self> {
        let mut reach = Reach::default();
        let bytes =
            Bytes::open(path, |bytes| reach.wanted(bytes)).with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_path_buf(), bytes, slice })
    }

    /// The file as one object.
    pub fn object(&self, placement: Placement) -> anyhow::Result<Object<'_>> {
        let name = self.path.display();
        let mut members = self.members()?;
        match (members.pop(), members.is_empty()) {
            (Some(member), true) => {
                let object = self.member(member, placement)?;
                object.with_context(|| format!("{name}: there is no object in it"))
            }
            (last, _) => {
                let arches = arches(members.iter().chain(&last));
                if arches.contains(", ") {
                    bail!("{name}: there are several architectures in it, choose one with --arch: {arches}");
                }
                bail!("{name}: an archive, where one object is needed: extract its members")
            }
        }
    }

    /// The objects in the file: the members of an archive that are objects, or itself.
    pub fn objects(
        &self,
        placement: Placement,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Object<'_>>>> {
        let members = self.members()?;
        Ok(members.into_iter().filter_map(move |member| self.member(member, placement).transpose()))
    }

    /// What is in the file, but for other architectures than the one that is meant.
    fn members(&self) -> anyhow::Result<Vec<Result<Member<'_>, cfipack_container::Error>>> {
        let name = || self.path.display().to_string();
        let all: Vec<_> = members(&self.bytes).with_context(name)?.collect();
        let Some(meant) = &self.slice.arch else { return Ok(all) };
        let arches = arches(&all);
        let is_meant = |member: &Result<Member<'_>, _>| {
            let arch = member.as_ref().ok().and_then(|member| member.arch.as_ref());
            arch.is_none_or(|arch| arch == meant)
        };
        let members: Vec<_> = all.into_iter().filter(is_meant).collect();
        if members.is_empty() && !arches.is_empty() {
            bail!("{}: there is no {meant} in it, but {arches}", name());
        }
        Ok(members)
    }

    fn member<'a>(
        &'a self,
        member: Result<Member<'a>, cfipack_container::Error>,
        placement: Placement,
    ) -> anyhow::Result<Option<Object<'a>>> {
        let member = member.with_context(|| self.path.display().to_string())?;
        let is_of_archive = member.is_of_archive;
        let name = Name { path: &self.path, member: member.name.map(String::from) };
        match contents(member.bytes, placement) {
            Ok(contents) => Ok(Some(Object { name, contents })),
            // An archive holds what it likes.
            Err(cfipack_container::Error::NotObject { .. }) if is_of_archive => Ok(None),
            Err(error) => Err(error).with_context(|| name.to_string()),
        }
    }
}

/// The architectures of objects and linked files, each once.
fn arches<'m, 'a: 'm>(
    members: impl IntoIterator<Item = &'m Result<Member<'a>, cfipack_container::Error>>,
) -> String {
    let mut arches = Vec::new();
    for arch in members.into_iter().flatten().filter_map(|member| member.arch.as_deref()) {
        if !arches.contains(&arch) {
            arches.push(arch);
        }
    }
    arches.join(", ")
}

fn contents(bytes: &[u8], placement: Placement) -> Result<Contents<'_>, cfipack_container::Error> {
    match Bare::of(bytes) {
        Some(Bare::Sframe) => Ok(Contents::Table(bytes)),
        Some(Bare::UnwindInfo) => Ok(Contents::UnwindInfo(bytes)),
        None => File::parse_with(bytes, placement).map(Contents::File),
    }
}

impl<'a> Object<'a> {
    /// The object or linked file, where a table alone does not do.
    pub fn file(&self) -> anyhow::Result<&File<'a>> {
        match &self.contents {
            Contents::File(file) => Ok(file),
            Contents::Table(_) => bail!("this is a bare .sframe section, without code or CFI"),
            Contents::UnwindInfo(_) => {
                bail!("this is a bare __unwind_info section, without code or CFI")
            }
        }
    }

    /// Whether it can be told where it lies: only a bare `.sframe` section does not say so itself.
    pub fn check_address(&self, address: Option<Address>) -> anyhow::Result<()> {
        if address.is_some() && !self.is_bare_sframe() {
            bail!("--address: this is not a bare .sframe section");
        }
        Ok(())
    }

    /// Whether it is a bare `.sframe` section.
    pub fn is_bare_sframe(&self) -> bool {
        matches!(self.contents, Contents::Table(_))
    }

    /// Whether its tables are of compact unwind: a Mach-O file, or a bare `__unwind_info`.
    pub fn is_compact(&self) -> bool {
        match &self.contents {
            Contents::File(file) => file.is_mach_o(),
            Contents::Table(_) => false,
            Contents::UnwindInfo(_) => true,
        }
    }

    /// Whether it has sections, and no addresses yet.
    pub fn is_relocatable(&self) -> bool {
        matches!(&self.contents, Contents::File(file) if file.kind() == Kind::Relocatable)
    }

    /// The tables in its `.sframe` sections. In a relocatable object starts are read as their
    /// relocations made them, whatever the header says.
    pub fn tables<'s>(&self, sections: &'s [Section<'_>]) -> anyhow::Result<Vec<sframe::Section<'s>>> {
        let mut all = Vec::new();
        for section in sections {
            let mut found = tables(section)?;
            if let (Contents::File(file), Some(index)) = (&self.contents, section.index) {
                let relocations = file.relocations(index)?.into_iter();
                let relative: HashSet<_> =
                    relocations.filter(|relocation| relocation.relative).map(|field| field.offset).collect();
                for table in &mut found {
                    let base = table.address().distance_from(section.address) as u64;
                    *table = table.relocated(|field| relative.contains(&(base + field.0 as u64)));
                }
            }
            all.append(&mut found);
        }
        Ok(all)
    }

    /// Its `.sframe` sections; `address` is where a bare one lies.
    pub fn sframe_sections(&self, address: Address) -> anyhow::Result<Vec<Section<'a>>> {
        match &self.contents {
            Contents::File(file) => Ok(file.sframe_sections()?),
            Contents::Table(bytes) => {
                Ok(vec![Section { index: None, name: ".sframe".into(), address, bytes: (*bytes).into() }])
            }
            Contents::UnwindInfo(_) => Ok(Vec::new()),
        }
    }
}

/// The tables in a `.sframe` section: one, but for linkers that do not know the format and leave
/// their inputs' one behind the other, and none in a section of size 0, which ld leaves when no
/// input had a function. Behind more than [`sframe::Section::MAX_ZEROS`] zeros nothing is looked for.
pub fn tables<'s>(section: &'s Section<'_>) -> anyhow::Result<Vec<sframe::Section<'s>>> {
    let tables = sframe::Section::concatenated(&section.bytes, section.address);
    tables.collect::<Result<_, _>>().with_context(|| format!("section {}", section.name))
}

/// What there is none of in a file without `.eh_frame` and `.debug_frame`.
pub const CALL_FRAMES: &str = "call frame information";

/// The call frame information of a file, which must have some.
pub fn call_frame_sections<'a>(file: &File<'a>) -> anyhow::Result<Vec<CallFrameSection<'a>>> {
    let sections = file.call_frame_sections()?;
    if !describe_functions(&sections) {
        bail!("there is no {CALL_FRAMES} in it");
    }
    Ok(sections)
}

/// Whether sections are more than what the linker left of discarded functions.
pub fn describe_functions(sections: &[CallFrameSection<'_>]) -> bool {
    !sections.iter().all(CallFrameSection::is_superfluous)
}

/// A number between these two.
pub fn number_in<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + fmt::Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("not a number from {} to {}", range.start(), range.end()))
    }
}

/// An address as people write them: decimal, or hexadecimal with `0x`.
pub fn parse_address(text: &str) -> Result<Address, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    let explained = |error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => "it does not fit into 64 bits",
        _ => "an address is written 1234 or 0x4d2",
    };
    value.map(Address).map_err(|error| explained(error).to_string())
}
