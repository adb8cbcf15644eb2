//! `stats --link`: what each object contributes to the table of a link.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;

use anyhow::{Context as _, bail};
use cfipack_cfi::{Functions, SectionKind};
use cfipack_container::{File, Kind, Placement};
use cfipack_decoder::sframe;
use cfipack_format::sframe::Header;
use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Key};
use cfipack_linker::sframe::{Contribution, Field, Merger, Note, Object as LinkerObject, Options};
use serde::{Serialize, Serializer};

use crate::conversion::TableOptions;
use crate::io::input::{self, Input, Name, Object};
use crate::io::output;
use crate::report::count::{Counts, Number};
use crate::report::escaped::Escaped;
use crate::report::reasons::MALFORMED;
use crate::report::status::Status;

/// Bits of a key that are the address in an object, whose sections lie one after the other.
const ADDRESS_BITS: u32 = 44;

/// Counts all objects of all files, as if each function lived.
pub fn run(inputs: &[Input<'_>], options: &TableOptions, json: bool) -> anyhow::Result<Status> {
    let mut prepared = Vec::new();
    for input in inputs {
        for object in input.objects(Placement::Apart)? {
            let object = object?;
            let number = prepared.len().to_u64();
            let found = Prepared::of(&object, number).with_context(|| object.name.to_string())?;
            prepared.push(found);
        }
    }
    let Some(first) = prepared.first() else { bail!("there is no object in the input") };
    let options = Options::new().with_table(options.get());
    let mut link = Merger::new(first.arch, options)?;
    let mut inputs = Vec::new();
    for object in &prepared {
        if object.arch != first.arch {
            bail!("{}: it is for {}, {} for {}", object.name, object.arch, first.name, first.arch);
        }
        let mut alone = Merger::new(first.arch, options)?;
        object.push(&mut alone, |_| ());
        let mut reasons = BTreeMap::new();
        let mut skipped = None;
        let contribution = object.push(&mut link, |note| match note {
            Note::Omitted(unsupported) => *reasons.entry(unsupported.reason.name()).or_default() += 1,
            Note::Unread(_) => *reasons.entry(MALFORMED).or_default() += 1,
            Note::Skipped { .. } => skipped = Some(note.to_string()),
        });
        inputs.push(InputJson::new(object, contribution, &alone.finish(), reasons, skipped)?);
    }
    let total = link.finish();
    let report = LinkJson {
        schema: "cfipack/stats-link/1",
        functions: inputs.iter().map(|input| input.functions).sum(),
        rows: inputs.iter().map(|input| input.rows).sum(),
        bytes: total.len().to_u64(),
        bytes_apart: Header::SIZE.to_u64() + inputs.iter().map(|input| input.bytes).sum::<u64>(),
        omitted: inputs.iter().map(|input| input.contribution.omitted).sum(),
        inputs,
    };
    let mut out = output::standard();
    match json {
        true => output::json(&mut out, &report)?,
        false => report.print(&mut out)?,
    }
    out.flush()?;
    Ok(Status::Done)
}

/// An object's sections, and the keys of the functions that their start fields lead to.
struct Prepared<'i> {
    name: Name<'i>,
    arch: Arch,
    sframe: Vec<u8>,
    eh_frame: Vec<u8>,
    keys: HashMap<Field, Key>,
}

impl<'i> Prepared<'i> {
    fn of(object: &Object<'i>, number: u64) -> anyhow::Result<Self> {
        let file = object.file()?;
        if file.as_macho().is_some() {
            bail!("--link: a Mach-O file: .sframe is for ELF files");
        }
        if file.kind() != Kind::Relocatable {
            bail!("--link: this has been linked");
        }
        let (name, arch) = (object.name.clone(), file.arch());
        let mut prepared =
            Self { name, arch, sframe: Vec::new(), eh_frame: Vec::new(), keys: HashMap::new() };
        let key = |address: u64| Key(number << ADDRESS_BITS | address);
        prepared.read_tables(object, key)?;
        prepared.read_cfi(file, key)?;
        Ok(prepared)
    }

    /// Appends the `.sframe` sections, which may be several.
    fn read_tables(&mut self, object: &Object<'_>, key: impl Fn(u64) -> Key) -> anyhow::Result<()> {
        let sections = object.sframe_sections(Default::default())?;
        for section in &sections {
            // What cannot be read is skipped by the linker, with its reason.
            let tables = object.tables(std::slice::from_ref(section)).unwrap_or_default();
            for table in &tables {
                let base = self.sframe.len() + table.address().distance_from(section.address) as usize;
                for function in table.functions().filter_map(Result::ok) {
                    let field = Field::Sframe(cfipack_format::SectionOffset(
                        base + table.fde_offset(function.index()).0,
                    ));
                    self.keys.insert(field, key(function.start().0));
                }
            }
            self.sframe.extend_from_slice(&section.bytes);
        }
        Ok(())
    }

    /// Reads the `.eh_frame`, of which an object has one.
    fn read_cfi(&mut self, file: &File<'_>, key: impl Fn(u64) -> Key) -> anyhow::Result<()> {
        let sections = file.call_frame_sections()?;
        if let Some(section) = sections.iter().find(|section| section.kind == SectionKind::EhFrame) {
            for function in Functions::new(&section.cfi()).filter_map(Result::ok) {
                self.keys.insert(Field::EhFrame(function.start_field), key(function.key.0));
            }
            self.eh_frame = section.section.bytes.to_vec();
        }
        Ok(())
    }

    /// Adds all functions of the object.
    fn push<'p>(&'p self, merger: &mut Merger<'p>, report: impl FnMut(Note)) -> Contribution {
        let object = LinkerObject::new().with_sframe(&self.sframe).with_eh_frame(&self.eh_frame);
        merger.push_object(&object, |field| self.keys.get(&field).copied().map(Into::into), report)
    }
}

/// The report, as `cfipack/stats-link/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkJson<'r> {
    schema: &'static str,
    inputs: Vec<InputJson<'r>>,
    functions: u64,
    rows: u64,
    /// Bytes of the table of the link.
    bytes: u64,
    /// Bytes that it would have if objects shared no rows.
    bytes_apart: u64,
    omitted: u64,
}

/// The contribution of an object.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct InputJson<'r> {
    #[serde(serialize_with = "plain")]
    #[cfg_attr(test, schemars(with = "String"))]
    file: &'r Name<'r>,
    /// With rows in the table: `copied`, `reencoded` and `from_cfi` together.
    functions: u64,
    #[serde(flatten)]
    contribution: Contribution,
    rows: u64,
    /// Bytes that it needs alone, without a header.
    bytes: u64,
    reasons: BTreeMap<&'static str, u64>,
    /// The reason why its own table is not used.
    reason: Option<String>,
}

impl<'r> InputJson<'r> {
    fn new(
        object: &'r Prepared<'r>,
        contribution: Contribution,
        alone: &cfipack_linker::sframe::Section,
        reasons: BTreeMap<&'static str, u64>,
        reason: Option<String>,
    ) -> anyhow::Result<Self> {
        let mut bytes = vec![0; alone.len()];
        alone.write_relocatable(&mut bytes)?;
        let table = sframe::Section::parse(&bytes, Default::default())?;
        Ok(Self {
            file: &object.name,
            functions: contribution.functions(),
            contribution,
            rows: table.header().num_fres.into(),
            bytes: (bytes.len() - Header::SIZE).to_u64(),
            reasons,
            reason,
        })
    }
}

impl LinkJson<'_> {
    fn print(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        for input in &self.inputs {
            let (functions, rows) = (Number(input.functions, "function"), Number(input.rows, "row"));
            write!(out, "{}: {functions}, {rows}, {}", input.file, Number(input.bytes, "byte"))?;
            let origins = [
                ("copied", input.contribution.copied),
                ("encoded again", input.contribution.reencoded),
                ("from CFI", input.contribution.from_cfi),
                ("omitted", input.contribution.omitted),
            ];
            writeln!(out, "{}", Counts(&origins).to_string().replacen(", ", ": ", 1))?;
            if let Some(reason) = &input.reason {
                writeln!(out, "  {}", Escaped(reason))?;
            }
            let reasons: Vec<_> = input.reasons.iter().map(|(name, count)| (*name, *count)).collect();
            if !reasons.is_empty() {
                writeln!(out, "  omitted: {}", Counts(&reasons).list())?;
            }
        }
        let Self { bytes, bytes_apart, .. } = self;
        let (functions, rows) = (Number(self.functions, "function"), Number(self.rows, "row"));
        write!(out, "link: {functions}, {rows}, {}", Number(*bytes, "byte"))?;
        writeln!(out, ", {} saved by rows that objects share", bytes_apart - bytes)
    }
}

/// A name without escapes, made when it is written: those of all members may be much longer than the archive.
fn plain<S: Serializer>(name: &&Name<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&name.plain())
}

/// Opens all files.
pub fn open<'s>(paths: &[std::path::PathBuf], slice: &'s input::Slice) -> anyhow::Result<Vec<Input<'s>>> {
    paths.iter().map(|path| Input::open(path, slice)).collect()
}
