//! Reads the goldens in `corpora/`.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cfipack_format::Arch;
use flate2::read::GzDecoder;

/// A golden object: CFI and usually a table, both by the same tool.
#[derive(Debug)]
pub struct Golden {
    /// `x86_64/x_min`: the directory below `corpora/sframe` and the case.
    pub name: String,
    /// The object's bytes.
    pub object: Vec<u8>,
    /// readelf 2.47's dump of its table, if it has a table.
    pub readelf: Option<String>,
    /// The architecture.
    pub arch: Arch,
}

/// Returns the path of `corpora/`.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora")
}

/// Returns every golden object of a tool (`gas247`, `gas244`, `llvm23`), in order of name.
pub fn sframe(tool: &str) -> Vec<Golden> {
    let mut goldens = Vec::new();
    for (directory, arch) in [
        ("aarch64", Arch::Aarch64),
        ("aarch64_be", Arch::Aarch64Be),
        ("s390x", Arch::S390x),
        ("x86_64", Arch::Amd64),
    ] {
        for path in files(&self::directory().join("sframe").join(directory)) {
            let file = path.file_name().unwrap().to_str().expect("goldens have plain names");
            let Some(case) = file.strip_suffix(&format!(".{tool}.o")) else { continue };
            goldens.push(Golden {
                name: format!("{directory}/{case}"),
                object: fs::read(&path).unwrap(),
                readelf: fs::read_to_string(path.with_extension("readelf")).ok(),
                arch,
            });
        }
    }
    assert!(!goldens.is_empty(), "no goldens of {tool} in {}", directory().display());
    goldens
}

/// A page layout: an object, the image that ld64.lld 23 links from it, and llvm-objdump 23's dump of the image.
#[derive(Debug)]
pub struct Link {
    /// The case: `l_2_alt_1020` for x86-64, with `la_` for arm64.
    pub name: String,
    /// The object, as llvm-mc wrote it.
    pub object: Vec<u8>,
    /// The image.
    pub image: Vec<u8>,
    /// llvm-objdump's `--unwind-info` from its contents on. Empty if there is no `__unwind_info`.
    pub dump: String,
}

/// Returns every page layout that ld64.lld has linked, in order of name.
pub fn compact_unwind_links() -> Vec<Link> {
    let mut links = Vec::new();
    for path in files(&directory().join("compact-unwind/link")) {
        let file = path.file_name().unwrap().to_str().expect("goldens have plain names");
        let Some(case) = file.strip_suffix(".dylib.gz") else { continue };
        let golden = |kind: &str| decompress(&path.with_file_name(format!("{case}.{kind}.gz")));
        links.push(Link {
            name: case.to_owned(),
            object: golden("o"),
            image: golden("dylib"),
            dump: String::from_utf8(golden("objdump")).unwrap(),
        });
    }
    assert!(links.len() > 100, "{} page layouts in {}", links.len(), directory().display());
    links
}

/// An object that llvm-mc 23 made of directives, with one function or two.
#[derive(Debug)]
pub struct Assembled {
    /// The case: `x…` is x86-64, `i…` i386, `a…` arm64.
    pub name: String,
    /// The object.
    pub object: Vec<u8>,
    /// llvm-objdump's `--unwind-info` from its contents on. Empty if there is no `__compact_unwind`.
    pub dump: String,
}

/// Returns every object that llvm-mc made of a function's directives, in order of name.
pub fn compact_unwind_objects() -> Vec<Assembled> {
    let objects = files(&directory().join("compact-unwind/mc")).into_iter();
    let objects = objects.filter(|path| path.extension().is_some_and(|extension| extension == "o"));
    let assembled: Vec<_> = objects
        .map(|path| Assembled {
            name: path.file_stem().unwrap().to_str().expect("goldens have plain names").to_owned(),
            object: fs::read(&path).unwrap(),
            dump: fs::read_to_string(path.with_extension("objdump")).unwrap(),
        })
        .collect();
    assert!(assembled.len() > 100, "{} objects in {}", assembled.len(), directory().display());
    assembled
}

/// Reads and decompresses a file `.gz`.
pub fn decompress(path: &Path) -> Vec<u8> {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
