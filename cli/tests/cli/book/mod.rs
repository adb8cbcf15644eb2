//! The book's pages of the formats, held to their inputs in `docs/formats/example/`: every command is run and every output
//! compared, every listing of bytes is made of the bytes, and every bit in a picture is that of the number it belongs to.
//!
//! `CFIPACK_UPDATE_BOOK=1` writes outputs and listings into the pages; the difference is then read by a person.

mod blocks;
mod listing;
mod pictures;
mod sframe;
mod unwind_info;

use std::fs;
use std::path::{Path, PathBuf};

use blocks::Block;
use cfipack_tests::reference::Tools;

use crate::program::{run_in, scratch};

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/formats")
}

#[test]
fn sframe_page() {
    page_is_true("sframe.md");
}

#[test]
fn unwind_info_page() {
    page_is_true("unwind-info.md");
}

#[test]
fn frames_page() {
    page_is_true("frames.md");
}

#[test]
fn bits_in_pictures() {
    let pages: Vec<_> = files_with("md").iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let mut checked = 0;
    for path in files_with("svg") {
        for number in pictures::numbers(&fs::read_to_string(&path).unwrap()) {
            assert!(
                pages.iter().any(|page| page.contains(&number)),
                "{}: no page has {number}",
                path.display()
            );
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked} numbers in all pictures");
}

#[test]
fn inputs_are_those_of_their_sources() {
    let Some(tools) = Tools::find("the inputs of the book's pages") else { return };
    for entry in fs::read_dir(formats().join("example")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".s") || name == "regenerate" {
            tools.write(&name, fs::read(entry.path()).unwrap());
        }
    }
    tools.run_well(&["LLVM_SUFFIX=-23", "bash", "./regenerate"]);
    for name in ["example", "apple.dylib", "arm64.o"] {
        let committed = fs::read(formats().join("example").join(name)).unwrap();
        assert!(tools.read(name) == committed, "{name}: run docs/formats/example/regenerate");
    }
}

fn files_with(extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(formats()).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|it| it == extension)).collect()
}

/// Makes the page's blocks again, in a copy of its inputs, in the order of the page.
fn page_is_true(name: &str) {
    let directory = scratch(&format!("book-{name}"));
    for entry in fs::read_dir(formats().join("example")).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), directory.join(entry.file_name())).unwrap();
    }
    let path = formats().join(name);
    let page = fs::read_to_string(&path).unwrap();
    let made = blocks::replace(&page, |block| match block {
        Block::Console(text) => transcript(&directory, text),
        Block::Bytes(file) => {
            let bytes = fs::read(directory.join(file)).unwrap();
            if bytes.starts_with(&[0xe2, 0xde]) {
                sframe::listing(&bytes)
            } else {
                unwind_info::listing(&bytes)
            }
        }
        Block::Source { file, text } => {
            let source = fs::read_to_string(directory.join(file)).unwrap();
            assert!(source.contains(text), "{name}: {file} has not this part:\n{text}");
            text.to_owned()
        }
    });
    if std::env::var_os("CFIPACK_UPDATE_BOOK").is_some() {
        fs::write(path, made).unwrap();
    } else {
        for (line, (shown, made)) in page.lines().zip(made.lines()).enumerate() {
            assert_eq!(shown, made, "docs/formats/{name}:{}; left: the page", line + 1);
        }
        assert_eq!(page.len(), made.len(), "docs/formats/{name}");
    }
    fs::remove_dir_all(directory).unwrap();
}

/// Each command of a block with what it prints now: standard output, then standard error.
fn transcript(directory: &Path, block: &str) -> String {
    let mut text = String::new();
    for command in block.lines().filter(|line| line.starts_with("$ ")) {
        let mut words = command[2..].split_whitespace();
        assert_eq!(words.next(), Some("cfi2sframe"), "{command}");
        let output = run_in(directory, &words.collect::<Vec<_>>());
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        text += &format!("{command}\n{stdout}{stderr}");
    }
    text
}
