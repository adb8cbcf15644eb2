//! Finds a page's blocks of code, with their info strings and comments.
//!
//! The info string of a block is its language, then words that readers of the page do not see. Pages that are documentation
//! of a crate have them in parentheses, as rustdoc requires:
//!
//! | word | |
//! |---|---|
//! | `file=PATH` | the block is the contents of a file, which later blocks of the page use |
//! | `needs=PROGRAM` | the block is skipped, and listed, on machines without the program |
//! | `no-run=REASON` | the block cannot run; dashes stand for spaces |
//! | `in-source-tree` | the block runs in the source tree, as in a second terminal |
//! | `run-by=PATH` | that program of the source tree runs it: it has the commands, or takes them out of the page, which it names |
//!
//! Comments on the line before a block: `<!-- from FILE -->` means that the block is lines of the file, and `<!-- bytes
//! of FILE -->` that it is a listing of the file. `<!-- outputs of FILE HASH -->` holds for the rest of a section, or
//! before all sections for the page: with another FILE, outputs are not compared. `<!-- blocks run in DIRECTORY -->` of
//! the source tree holds for a page. Without it, blocks run in a directory beside the tree.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag};

/// A document with blocks.
#[derive(Debug)]
pub struct Page {
    /// Its path in the source tree.
    pub path: String,
    pub text: String,
    /// The directory of the source tree in which its blocks run.
    pub directory: Option<String>,
    pub blocks: Vec<Block>,
}

/// A fenced block of code.
#[derive(Debug)]
pub struct Block {
    /// The line of its fence, counted from 1.
    pub line: usize,
    pub kind: Kind,
    pub is_in_source_tree: bool,
    /// The files that the shown outputs describe, each with the start of its SHA-256.
    pub inputs: Vec<(String, String)>,
    /// Programs that the block needs. Without them it is skipped.
    pub needs: Vec<String>,
    pub text: String,
    /// The bytes of the page that are the block's text.
    pub place: Range<usize>,
}

/// How a block is checked.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// Commands that must succeed.
    Commands,
    /// Commands after `$ `, and what they print.
    Console,
    /// The contents of the file.
    File(String),
    /// A listing of the file's bytes.
    Bytes(String),
    /// Lines of the file.
    Lines(String),
    /// Rust that a doc test compiles and runs.
    DocTest,
    /// Neither commands nor a program.
    Text,
    NotRun(String),
    RunBy(String),
}

impl Page {
    /// Finds the blocks of a page. An error names the line.
    pub fn parse(path: &str, text: String) -> Result<Page, String> {
        let is_at_root = !path.contains('/');
        let mut page = Page {
            path: path.into(),
            text: String::new(),
            directory: is_at_root.then(|| ".".into()),
            blocks: Vec::new(),
        };
        let mut inputs = Vec::new();
        // Once a section has started: how many inputs belong to the whole page.
        let mut of_page = None;
        let mut comment = String::new();
        for (event, range) in Parser::new(&text).into_offset_iter() {
            match event {
                Event::Html(html) => {
                    comment = html.trim().into();
                    if let Some(directory) = inside(&comment, "blocks run in ") {
                        page.directory = Some(directory.into());
                    }
                    if let Some((file, hash)) =
                        inside(&comment, "outputs of ").and_then(|it| it.split_once(' '))
                    {
                        inputs.push((file.into(), hash.into()));
                    }
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let line = text[..range.start].matches('\n').count() + 1;
                    let block = block(&text, range, line, &info, &comment);
                    let block = block.map_err(|error| format!("{path}:{line}: {error}"))?;
                    page.blocks.push(Block { inputs: inputs.clone(), ..block });
                    comment.clear();
                }
                Event::Start(Tag::Heading { level, .. }) if level > HeadingLevel::H1 => {
                    inputs.truncate(*of_page.get_or_insert(inputs.len()));
                    comment.clear();
                }
                Event::Start(_) => comment.clear(),
                _ => {}
            }
        }
        page.text = text;
        Ok(page)
    }
}

/// Returns the rest of a comment that begins with `start`.
fn inside<'a>(comment: &'a str, start: &str) -> Option<&'a str> {
    comment.strip_prefix("<!-- ")?.strip_suffix(" -->")?.strip_prefix(start)
}

fn block(page: &str, range: Range<usize>, line: usize, info: &str, comment: &str) -> Result<Block, String> {
    let fenced = &page[range.clone()];
    let first = fenced.find('\n').map_or(fenced.len(), |end| end + 1);
    let last = fenced.trim_end_matches('\n').rfind('\n').map_or(first, |end| (end + 1).max(first));
    if !fenced.trim_end().ends_with("```") || page[..range.start].ends_with(' ') {
        return Err("a block must be fenced by lines that start with ```".into());
    }
    let place = range.start + first..range.start + last;
    let mut block = Block {
        line,
        kind: Kind::Text,
        is_in_source_tree: false,
        inputs: Vec::new(),
        needs: Vec::new(),
        text: page[place.clone()].into(),
        place,
    };
    block.heed(info, comment)?;
    Ok(block)
}

impl Block {
    /// Follows the info string, and the comment before the block.
    fn heed(&mut self, info: &str, comment: &str) -> Result<(), String> {
        let mut words = info.split([' ', ',', '(', ')']).filter(|word| !word.is_empty());
        let language =
            words.next().ok_or("a block has a language; `text` is what is neither commands nor a program")?;
        let is_run = matches!(language, "sh" | "console");
        let mut asked = None;
        for word in words {
            let kind = match (word, word.split_once('=')) {
                (_, Some((_, ""))) => return Err(format!("`{word}` has no value")),
                (_, Some(("file", path))) if !is_run => Kind::File(path.into()),
                (_, Some(("no-run", reason))) => Kind::NotRun(reason.replace('-', " ")),
                (_, Some(("run-by", path))) => Kind::RunBy(path.into()),
                (_, Some(("needs", program))) => {
                    self.needs.push(program.into());
                    continue;
                }
                ("in-source-tree", _) if is_run => {
                    self.is_in_source_tree = true;
                    continue;
                }
                // Words that rustdoc knows.
                ("no_run" | "should_panic", _) if language == "rust" => continue,
                _ => return Err(format!("`{word}` has no meaning after `{language}`")),
            };
            if asked.replace(kind).is_some() {
                return Err(format!("`{word}` contradicts a word before it"));
            }
        }
        let of_comment = inside(comment, "bytes of ")
            .map(|file| Kind::Bytes(file.into()))
            .or_else(|| inside(comment, "from ").map(|file| Kind::Lines(file.into())));
        self.kind = match (asked.or(of_comment), language) {
            (Some(kind), _) => kind,
            (None, "sh") => Kind::Commands,
            (None, "console") => Kind::Console,
            (None, "rust") => Kind::DocTest,
            (None, "text") => Kind::Text,
            (None, language) => {
                return Err(format!(
                    "`{language}` needs `file=PATH` or `no-run=REASON`, or a comment `<!-- from FILE -->`"
                ));
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Result<Page, String> {
        Page::parse("docs/page.md", text.into())
    }

    fn error(text: &str) -> String {
        page(text).unwrap_err()
    }

    #[test]
    fn blocks_are_found_with_their_lines() {
        let page = page(
            "# A\n\n```sh\nls\n```\n\nText `sh`.\n\n- item\n\n```c file=a.c\nint x;\n```\n\n```text\n```\n",
        )
        .unwrap();
        let found: Vec<_> = page.blocks.iter().map(|it| (it.line, &it.kind, it.text.as_str())).collect();
        let file = Kind::File("a.c".into());
        assert_eq!(found, [(3, &Kind::Commands, "ls\n"), (11, &file, "int x;\n"), (15, &Kind::Text, "")]);
        assert!(page.blocks.iter().all(|it| page.text[it.place.clone()] == it.text));
    }

    #[test]
    fn comments_count_for_the_next_block_alone() {
        let text = "<!-- blocks run in docs -->\n<!-- outputs of /bin/a 12ab -->\n\n<!-- from a.s -->\n```asm\nret\n```\n\n\
                    <!-- bytes of t -->\n```text\n00\n```\n\n<!-- from a.s -->\ntext\n\n```text\n```\n";
        let page = page(text).unwrap();
        assert_eq!(page.directory.as_deref(), Some("docs"));
        let kinds: Vec<_> = page.blocks.iter().map(|it| &it.kind).collect();
        assert_eq!(kinds, [&Kind::Lines("a.s".into()), &Kind::Bytes("t".into()), &Kind::Text]);
    }

    #[test]
    fn inputs_are_of_the_page_or_of_a_section() {
        let text = "# P\n<!-- outputs of a 1 -->\n\n```text\n```\n## S\n<!-- outputs of b 2 -->\n\n```text\n```\n## T\n\n```text\n```\n";
        let page = page(text).unwrap();
        let inputs: Vec<Vec<_>> = page
            .blocks
            .iter()
            .map(|block| block.inputs.iter().map(|(file, _)| file.as_str()).collect())
            .collect();
        assert_eq!(inputs, [vec!["a"], vec!["a", "b"], vec!["a"]]);
    }

    #[test]
    fn words_that_mean_nothing_are_errors_with_their_line() {
        assert_eq!(error("\n```sh norun\nls\n```\n"), "docs/page.md:2: `norun` has no meaning after `sh`");
        assert!(error("```sh file=a\nls\n```\n").contains("`file=a` has no meaning"));
        assert!(error("```sh no-run=\nls\n```\n").contains("no value"));
        assert!(error("```sh no-run=a run-by=b\nls\n```\n").contains("contradicts"));
        assert!(error("```rust ignore\nls\n```\n").contains("`ignore` has no meaning"));
        assert!(error("```c\nint x;\n```\n").contains("`c` needs `file=PATH`"));
        assert!(error("```\nls\n```\n").contains("has a language"));
    }

    #[test]
    fn a_block_in_a_list_is_refused() {
        assert!(error("- a\n\n  ```sh\n  ls\n  ```\n").contains("must be fenced"));
    }

    #[test]
    fn reasons_are_words() {
        let page = page("```sh (no-run=it-needs-root, needs=clang) in-source-tree\nls\n```\n").unwrap();
        assert!(page.blocks[0].is_in_source_tree);
        assert_eq!(page.blocks[0].kind, Kind::NotRun("it needs root".into()));
        assert_eq!(page.blocks[0].needs, ["clang"]);
    }
}
