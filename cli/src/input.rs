//! Files named on the command line, with the objects and tables in them.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cfipack_container::{CallFrameSection, File, Layout, Member, Section, members};
use cfipack_decoder::sframe;
use cfipack_encoder::cfi::SectionKind;
use cfipack_format::Address;

use crate::mmap::Bytes;
use crate::status::{self, Status};

/// A file named on the command line.
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    bytes: Bytes,
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

/// The name of an object: `FILE`, or `ARCHIVE(MEMBER)` as binutils write it.
#[derive(Clone, Debug)]
pub struct Name<'a> {
    path: &'a Path,
    /// Its name in the archive that the file is.
    pub member: Option<String>,
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        self.member.as_ref().map_or(Ok(()), |member| write!(f, "({member})"))
    }
}

impl Input {
    /// Opens a file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let bytes = Bytes::open(path).with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_path_buf(), bytes })
    }

    /// The file as one object.
    pub fn object(&self, layout: Layout) -> anyhow::Result<Object<'_>> {
        let name = Name { path: &self.path, member: None };
        if members(&self.bytes).is_ok_and(|members| members.is_archive()) {
            anyhow::bail!(
                "{name}: an archive or a fat file, where one object is needed: extract its members"
            );
        }
        let contents = contents(&self.bytes, layout).with_context(|| name.to_string())?;
        Ok(Object { name, contents })
    }

    /// The objects in the file: the members of an archive that are objects, or itself.
    pub fn objects(
        &self,
        layout: Layout,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Object<'_>>>> {
        let members = members(&self.bytes).with_context(|| self.path.display().to_string())?;
        Ok(members.filter_map(move |member| self.member(member, layout).transpose()))
    }

    fn member<'a>(
        &'a self,
        member: Result<Member<'a>, cfipack_container::Error>,
        layout: Layout,
    ) -> anyhow::Result<Option<Object<'a>>> {
        let member = member.with_context(|| self.path.display().to_string())?;
        let name = Name { path: &self.path, member: member.name.map(String::from) };
        match contents(member.bytes, layout) {
            Ok(contents) => Ok(Some(Object { name, contents })),
            // An archive holds what it likes.
            Err(cfipack_container::Error::NotObject { .. }) if name.member.is_some() => Ok(None),
            Err(error) => Err(error).with_context(|| name.to_string()),
        }
    }
}

fn contents(bytes: &[u8], layout: Layout) -> Result<Contents<'_>, cfipack_container::Error> {
    match bytes {
        [0xe2, 0xde, ..] | [0xde, 0xe2, ..] => Ok(Contents::Table(bytes)),
        // The version, which no object starts with.
        [1, 0, 0, 0, ..] => Ok(Contents::UnwindInfo(bytes)),
        _ => File::parse_with(bytes, layout).map(Contents::File),
    }
}

/// Does the same to every object in every file. What fails is reported and the rest still done.
/// `each` is told whether there may be more than one, which asks for a heading.
pub fn for_each(
    paths: &[PathBuf],
    layout: Layout,
    mut each: impl FnMut(&Object<'_>, bool) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let mut worst = Status::Done;
    let mut note = |result: anyhow::Result<Status>| match result {
        Ok(status) => {
            worst = worst.max(status);
            Ok(())
        }
        Err(error) if status::is_broken_pipe(&error) => Err(error),
        Err(error) => {
            worst = Status::Failed;
            status::report_error(&format_args!("{error:#}"));
            Ok(())
        }
    };
    for path in paths {
        let input = match Input::open(path) {
            Ok(input) => input,
            Err(error) => {
                note(Err(error))?;
                continue;
            }
        };
        let objects = match input.objects(layout) {
            Ok(objects) => objects,
            Err(error) => {
                note(Err(error))?;
                continue;
            }
        };
        for object in objects {
            note(object.and_then(|object| {
                let several = paths.len() > 1 || object.name.member.is_some();
                each(&object, several).with_context(|| object.name.to_string())
            }))?;
        }
    }
    Ok(worst)
}

impl<'a> Object<'a> {
    /// The object or linked file, where a table alone does not do.
    pub fn file(&self) -> anyhow::Result<&File<'a>> {
        match &self.contents {
            Contents::File(file) => Ok(file),
            Contents::Table(_) => anyhow::bail!("this is a bare .sframe section, without code or CFI"),
            Contents::UnwindInfo(_) => {
                anyhow::bail!("this is a bare __unwind_info section, without code or CFI")
            }
        }
    }

    /// Whether its tables are of compact unwind: a Mach-O file, or a bare `__unwind_info`.
    pub fn is_compact(&self) -> bool {
        match &self.contents {
            Contents::File(file) => file.is_mach_o(),
            Contents::Table(_) => false,
            Contents::UnwindInfo(_) => true,
        }
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
/// input had a function.
pub fn tables<'s>(section: &'s Section<'_>) -> anyhow::Result<Vec<sframe::Section<'s>>> {
    let mut tables = Vec::new();
    let mut rest = &section.bytes[..];
    while let Some(zeros) = rest.iter().position(|&byte| byte != 0) {
        rest = &rest[zeros..];
        let offset = section.bytes.len() - rest.len();
        let (table, behind) = sframe::Section::parse_first(rest, section.address.offset(offset as i64))
            .with_context(|| match offset {
                0 => format!("section {}", section.name),
                _ => format!("section {}: table at offset {offset:#x}", section.name),
            })?;
        tables.push(table);
        rest = behind;
    }
    Ok(tables)
}

/// The call frame information of a file: every `.eh_frame`, and `.debug_frame` where there is none.
/// A file with both describes the same functions twice.
pub fn call_frame_sections<'a>(file: &File<'a>) -> anyhow::Result<Vec<CallFrameSection<'a>>> {
    let mut sections = file.call_frame_sections()?;
    let is_eh_frame = |section: &CallFrameSection<'_>| section.kind == SectionKind::EhFrame;
    if sections.iter().any(is_eh_frame) {
        sections.retain(is_eh_frame);
    }
    if sections.is_empty() {
        anyhow::bail!("there is no call frame information in it");
    }
    Ok(sections)
}

/// An address as people write them: decimal, or hexadecimal with `0x`.
pub fn parse_address(text: &str) -> Result<Address, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    value.map(Address).map_err(|error| format!("{error}; an address is written 1234 or 0x4d2"))
}
