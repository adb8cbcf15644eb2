//! Tests every linker with every kind of file and every kind of table in the objects. Each file gets a table, then
//! longer and shorter ones, and is stripped by us and by binutils. `CFIPACK_MATRIX=all` adds all versions of linkers,
//! C++, and files without symbols.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cfipack_container::File;
use cfipack_edit::{EmbedError, Embedding, without_sframe};
use cfipack_encoder::sframe::Options;
use cfipack_roundtrip::structure::check_structure;
use cfipack_testkit::needs;
use cfipack_tests::convert::{cfi_of, convert};
use cfipack_tests::embedded::{Embedded, embed};
use cfipack_tests::linkers::{Linker, LinkerKind};
use cfipack_tests::reference::Tools;

use crate::linked::{loaded_table, run, scratch, tools};

/// A kind of file: name, whether its objects are position-independent, and options for `cc`.
const KINDS: [(&str, bool, &[&str]); 9] = [
    ("pie", true, &["-pie"]),
    ("no-pie", false, &["-no-pie"]),
    ("static", false, &["-static", "-no-pie"]),
    ("static-pie", true, &["-static-pie"]),
    ("shared", true, &["-shared"]),
    ("gc-sections", true, &["-pie", "-Wl,--gc-sections"]),
    ("-N", false, &["-static", "-no-pie", "-nostdlib", "-Wl,-N"]),
    ("separate-code", true, &["-pie", "-Wl,-z,separate-code"]),
    ("emit-relocs", true, &["-pie", "-Wl,--emit-relocs"]),
];

/// The tables that objects can have, by the tool that makes them.
const TABLES: [&str; 3] = ["no tables", "V3", "V2"];

/// A result, or what is wrong.
type Outcome<T> = Result<T, String>;

/// Returns an error if a claim about the case does not hold.
fn must(is_true: bool, what: &str) -> Outcome<()> {
    is_true.then_some(()).ok_or_else(|| what.to_owned())
}

#[test]
#[ignore = "needs the reference tools and g++"]
fn every_linker_kind_and_table() {
    let is_all = env::var_os("CFIPACK_MATRIX").is_some_and(|value| value == "all");
    let directory = scratch("matrix");
    let linkers = linkers(is_all);
    needs::program("strip", "binutils");
    needs::program("c++", "g++");
    let assembler = Tools::find();
    let languages: &[&'static str] = if is_all { &["c", "cc"] } else { &["c"] };
    let symbols: &[&[&str]] = if is_all { &[&[], &["-s"]] } else { &[&[]] };
    let (mut totals, mut faults) = (BTreeMap::<String, usize>::new(), Vec::new());
    for (language, tables) in languages.iter().flat_map(|language| TABLES.map(|tables| (*language, tables))) {
        let objects = Objects::assemble(&directory, language, tables, &assembler);
        // Libraries, and programs without a C library, are in C only.
        let is_there = |kind: &&(&str, bool, &[&str])| language == "c" || !["shared", "-N"].contains(&kind.0);
        let kinds = KINDS.iter().filter(is_there);
        for ((kind, is_pic, options), symbols) in
            kinds.flat_map(|kind| symbols.iter().map(move |it| (kind, it)))
        {
            for (number, linker) in linkers.iter().enumerate() {
                let path = directory.join(format!("{language}-{tables}-{kind}-{number}"));
                let case = Case { linker, kind, path, is_library: *kind == "shared" };
                let options = [*options, symbols, objects.driver()].concat();
                let Some(old) = case.link(&options, objects.files(*is_pic, kind)) else { continue };
                let way = case.check(&old).unwrap_or_else(|why| {
                    faults.push(format!("{} {language} {tables} {kind} {symbols:?}: {why}", linker.name));
                    "fault".to_owned()
                });
                *totals.entry(format!("{}: {way}", linker.name)).or_default() += 1;
            }
        }
    }
    println!("{totals:#?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(totals.values().sum::<usize>() >= 7 * linkers.len(), "enough has been linked: {totals:#?}");
}

/// Returns all linkers, or one of each kind.
fn linkers(is_all: bool) -> Vec<&'static Linker> {
    let all = &tools().0;
    // The machine's linkers come first, then those of the newest reference tools.
    let newest = |kind| all.iter().filter(|one| one.kind == kind).take(2).last();
    let kinds = [LinkerKind::Bfd, LinkerKind::Gold, LinkerKind::Lld, LinkerKind::Mold, LinkerKind::Wild];
    if is_all { all.iter().collect() } else { kinds.into_iter().filter_map(newest).collect() }
}

/// Objects of one language with one kind of table.
struct Objects {
    directory: PathBuf,
    language: &'static str,
}

impl Objects {
    fn assemble(directory: &Path, language: &'static str, tables: &str, tools: &Tools) -> Self {
        let directory = directory.join(format!("{language}-{tables}"));
        fs::create_dir_all(&directory).expect("a directory for objects");
        let older = tools.older();
        let assembler = match tables {
            "V3" => Some(tools),
            "V2" => Some(&older),
            _ => None,
        };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let sources = match language {
            "c" => ["program.c", "library.c", "freestanding.c"]
                .map(|name| sources.join("embed").join(name))
                .to_vec(),
            _ => ["throws.cc", "other_half.cc"]
                .map(|name| sources.join("../linkers/programs").join(name))
                .to_vec(),
        };
        let compiler = if language == "c" { "cc" } else { "c++" };
        for (number, source) in sources.iter().enumerate() {
            for option in ["-fPIC", "-fno-pic"] {
                let object = directory.join(format!("{number}{option}.o"));
                let mut cc = Command::new(compiler);
                cc.args(["-O1", "-ffunction-sections", "-fno-stack-protector", option]).arg(source);
                match assembler {
                    None => cc.arg("-c").arg("-o").arg(&object),
                    Some(assembler) => cc.arg("-S").arg("-o").arg(assembler.path("source.s")),
                };
                assert!(cc.status().is_ok_and(|status| status.success()), "a compiler");
                if let Some(assembler) = assembler {
                    assembler.run_well(&["as", "--gsframe", "-o", "object.o", "source.s"]);
                    fs::write(&object, assembler.read("object.o")).expect("a file can be written");
                }
            }
        }
        Self { directory, language }
    }

    /// Returns the objects of a program or a library.
    fn files(&self, is_pic: bool, kind: &str) -> Vec<PathBuf> {
        let option = if is_pic { "-fPIC" } else { "-fno-pic" };
        let numbers = match kind {
            "-N" => 2..3,
            "shared" => 1..2,
            _ => 0..2,
        };
        numbers.map(|number| self.directory.join(format!("{number}{option}.o"))).collect()
    }

    fn driver(&self) -> &'static [&'static str] {
        if self.language == "c" { &[] } else { &["-lstdc++", "-lgcc_eh", "-lgcc"] }
    }
}

/// A link, and the path where its result runs.
struct Case<'c> {
    linker: &'c Linker,
    kind: &'c str,
    path: PathBuf,
    is_library: bool,
}

impl Case<'_> {
    fn link(&self, options: &[&str], objects: Vec<PathBuf>) -> Option<Vec<u8>> {
        let objects = objects.iter().map(|object| object.to_str().expect("a path"));
        let output = self.path.to_str().expect("a path");
        let arguments: Vec<&str> =
            ["-o", output].into_iter().chain(objects).chain(options.iter().copied()).collect();
        let linked = self.linker.cc(&arguments).ok()?;
        if !linked.status.success() {
            let text = String::from_utf8_lossy(&linked.stderr);
            let why = text.lines().find(|line| !line.contains("warning")).unwrap_or_default();
            println!("refused: {} by {}: {why}", self.kind, self.linker.name);
            return None;
        }
        fs::read(&self.path).ok()
    }

    /// Does all steps. Returns how the table got room.
    fn check(&self, old: &[u8]) -> Outcome<String> {
        let had_table = has_table(old);
        let before = run(&self.path, old, self.is_library);
        let stripped_old = if had_table { without(old)? } else { old.to_vec() };
        check(old, &stripped_old)?;
        must(
            run(&self.path, &stripped_old, self.is_library) == before,
            "the original without its table runs otherwise",
        )?;

        // Every other kind of file must have a way.
        if self.kind == "-N" && has_no_way(&stripped_old) {
            return Ok("refused".to_owned());
        }
        let (new, embedded) = with(old)?;
        let way = format!("{:?}{}", embedded.way, if had_table { ", had a table" } else { "" });
        self.check_embedded(&new, &embedded, &before, "embedded")?;
        let again = with(&new)?.0;
        must(again == new, "a second run changes it")?;
        must(without(&new)? == stripped_old, &format!("stripped, {way}: not the original"))?;

        let mut now = new.clone();
        for len in [embedded.table.len() + 20_000, 64, 300] {
            let next = with_length(&now, &embedded.table, len)?;
            let what = format!("with {len} bytes");
            must(loaded_table(&next).is_some_and(|(_, table)| table.len() == len), &what)?;
            must(run(&self.path, &next, self.is_library) == before, &format!("{what}: it runs otherwise"))?;
            must(without(&next)? == stripped_old, &format!("{what}, stripped: not the original"))?;
            now = next;
        }
        let (now, last) = with(&now)?;
        self.check_embedded(&now, &last, &before, "embedded again")?;
        must(without(&now)? == stripped_old, "embedded again, stripped: not the original")?;

        // If binutils break the file with a table, they must break the file without one too.
        let stripped = self.by_binutils(old)?.map(|stripped| run(&self.path, &stripped, self.is_library));
        if let Some(after) =
            self.by_binutils(&new)?.filter(|_| stripped.is_some_and(|printed| printed == before))
        {
            self.check_embedded(&after, &embedded, &before, "after strip of binutils")?;
            let without = without(&after)?;
            check(&after, &without)?;
            must(
                run(&self.path, &without, self.is_library) == before,
                "strip, then ours: it runs otherwise",
            )?;
        }
        Ok(way)
    }

    fn check_embedded(&self, new: &[u8], embedded: &Embedded<'_>, before: &str, what: &str) -> Outcome<()> {
        let what = format!("{what}, {:?}", embedded.way);
        let now = run(&self.path, new, self.is_library);
        must(now == before, &format!("{what}: it runs otherwise: {now} for {before}"))?;
        let expected = Some((embedded.address.0, &embedded.table[..]));
        must(loaded_table(new) == expected, &format!("{what}: the table is not loaded"))?;
        let file = File::parse(new).map_err(|error| format!("{what}: {error}"))?;
        let sections = file.call_frame_sections().map_err(|error| format!("{what}: {error}"))?;
        let cfi = cfi_of(&sections);
        let converted = convert(&cfi, file.arch(), embedded.address, Options::new());
        must(converted.bytes == embedded.table, &format!("{what}: not the table of its CFI"))?;
        must(converted.verify(&cfi).is_true(), &format!("{what}: the table is not what the CFI describes"))
    }

    /// Returns the file that `strip` makes, or `None` if it refuses.
    fn by_binutils(&self, bytes: &[u8]) -> Outcome<Option<Vec<u8>>> {
        fs::write(&self.path, bytes).map_err(|error| error.to_string())?;
        let output = Command::new("strip").arg(&self.path).output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Ok(None);
        }
        fs::read(&self.path).map(Some).map_err(|error| error.to_string())
    }
}

/// Returns whether a file is refused because nothing makes room for a program header.
fn has_no_way(bytes: &[u8]) -> bool {
    let refusal = File::parse(bytes).ok().and_then(|file| Embedding::of(&file, 300).err());
    matches!(refusal, Some(EmbedError::NoWay { .. }))
}

fn has_table(bytes: &[u8]) -> bool {
    File::parse(bytes).and_then(|file| Ok(!file.sframe_sections()?.is_empty())).unwrap_or(false)
}

fn check(old: &[u8], new: &[u8]) -> Outcome<()> {
    check_structure(old, new).map(|_| ()).map_err(|error| format!("structure: {error}"))
}

/// Embeds the table of the file's CFI.
fn with(old: &[u8]) -> Outcome<(Vec<u8>, Embedded<'_>)> {
    let file = File::parse(old).map_err(|error| error.to_string())?;
    let embedded = embed(&file, Options::new()).ok_or_else(|| "no call frame information".to_owned())?;
    let embedded = embedded.map_err(|error| format!("refused: {error}"))?;
    let new = embedded.rewrite.to_vec(old);
    check(old, &new).map_err(|problem| format!("embedded, {:?}: {problem}", embedded.way))?;
    Ok((new, embedded))
}

/// Embeds bytes of another length that only start like a table.
fn with_length(old: &[u8], table: &[u8], len: usize) -> Outcome<Vec<u8>> {
    let file = File::parse(old).map_err(|error| error.to_string())?;
    let embedding = Embedding::of(&file, len).map_err(|error| format!("{len} bytes: {error}"))?;
    let way = embedding.way();
    let mut table = table.to_vec();
    table.resize(len, 0x5a);
    let new = embedding.rewrite(table).to_vec(old);
    check(old, &new).map_err(|problem| format!("{len} bytes, {way:?}: {problem}"))?;
    Ok(new)
}

/// Removes the file's table.
fn without(old: &[u8]) -> Outcome<Vec<u8>> {
    let file = File::parse(old).map_err(|error| error.to_string())?;
    let rewrite = without_sframe(&file).map_err(|error| format!("strip: {error}"))?;
    let new = rewrite.ok_or_else(|| "strip: no table".to_owned())?.to_vec(old);
    check(old, &new).map_err(|problem| format!("strip: {problem}"))?;
    must(!has_table(&new), "strip: a table is left")?;
    Ok(new)
}
