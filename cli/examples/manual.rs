//! Writes the man pages and shell completions of the command, generated from its definition, to a directory; and the page of
//! `cfi2sframe-ld`, which has no options of its own.
//!
//! ```sh
//! cargo run -p cfi2sframe --example manual -- DIR
//! ```
//!
//! `DIR/man1` then holds `cfi2sframe.1`, a page for each verb and `cfi2sframe-ld.1`, `DIR/completions` a file for each of
//! bash, elvish, fish, PowerShell and zsh.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

use clap::{Command, ValueEnum as _};
use clap_complete::Shell;
use clap_mangen::Man;

/// Exit statuses of a verb whose help has no text about one of them.
const STATUSES: [&str; 3] = [
    "Done.",
    "Done, and something differs, is not covered, or fails the requested check.",
    "Error: usage, input or output, malformed input.",
];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [directory] = &arguments[..] else { return Err("usage: manual DIR".into()) };
    let [pages, completions] = ["man1", "completions"].map(|name| Path::new(directory).join(name));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let mut command = cfi2sframe::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &pages)?;
    let linker = include_str!("../man/cfi2sframe-ld.1").replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(pages.join("cfi2sframe-ld.1"), linker)?;
    for &shell in Shell::value_variants() {
        clap_complete::generate_to(shell, &mut cfi2sframe::command(), "cfi2sframe", &completions)?;
    }
    Ok(())
}

/// The page of a command, and those of its verbs.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, directory)?;
    }
    let man = Man::new(command.clone()).source(concat!("cfi2sframe ", env!("CARGO_PKG_VERSION")));
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = Help::parse(&help);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis(command).bytes());
    man.render_description_section(&mut page)?;
    page.extend(help.description().bytes());
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(help.exit_status().bytes());
    page.extend(help.examples().bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    fs::write(directory.join(man.get_filename()), page)
}

/// The lines of the usage, with arguments as man pages have them: `[OPTIONS] INPUT...`.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").replace(['<', '>'], "");
    let lines: Vec<_> = usage.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!(
        ".SH SYNOPSIS\n{}",
        roff(&lines.join("\n.br\n").lines().collect::<Vec<_>>()).replace("\\&.br", ".br")
    )
}

/// The parts of the text that a command prints after its options.
#[derive(Default)]
struct Help<'t> {
    paragraphs: Vec<Vec<&'t str>>,
    /// What each exit status means, if the text has it.
    statuses: [Vec<&'t str>; 3],
    examples: Vec<&'t str>,
}

impl<'t> Help<'t> {
    /// Paragraphs are separated by blank lines, and by a line that starts with "Exit status".
    fn parse(text: &'t str) -> Self {
        let mut help = Self::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut rest = || {
                let more = |line: &&str| !line.is_empty() && !line.starts_with("Exit status");
                std::iter::from_fn(|| lines.next_if(more)).collect::<Vec<_>>()
            };
            if line == "Examples:" {
                help.examples = rest();
            } else if line == "Exit status:" {
                help.list_statuses(&rest());
            } else if let Some(first) = line.strip_prefix("Exit status 1: ") {
                help.statuses[1] = [vec![first], rest()].concat();
            } else if !line.is_empty() {
                help.paragraphs.push([vec![line], rest()].concat());
            }
        }
        help
    }

    /// Lines that start with a status, and those that continue one.
    fn list_statuses(&mut self, lines: &[&'t str]) {
        let mut status = 0;
        for line in lines.iter().map(|line| line.trim()) {
            let digit = line.chars().next().and_then(|digit| digit.to_digit(10));
            let text = match digit.map(|digit| digit as usize).filter(|&digit| digit < self.statuses.len()) {
                Some(digit) => {
                    status = digit;
                    line[1..].trim()
                }
                None => line,
            };
            self.statuses[status].push(text);
        }
    }

    fn description(&self) -> String {
        let paragraph = |lines: &Vec<&str>| format!(".PP\n{}", roff(lines));
        self.paragraphs.iter().map(paragraph).collect()
    }

    fn exit_status(&self) -> String {
        let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
        for (status, (lines, usual)) in self.statuses.iter().zip(STATUSES).enumerate() {
            let meaning = if lines.is_empty() { roff(&[usual]) } else { sentence(&roff(lines)) };
            let _ = write!(text, ".TP\n\\fB{status}\\fR\n{meaning}");
        }
        text
    }

    /// Commands as they are typed: not filled.
    fn examples(&self) -> String {
        if self.examples.is_empty() {
            return String::new();
        }
        let lines: Vec<_> = self.examples.iter().map(|line| line.trim_start()).collect();
        format!(".SH EXAMPLES\n.nf\n{}.fi\n", roff(&lines))
    }
}

/// A text that begins with a capital and ends with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().collect::<String>();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}\n", letters.as_str())
}

/// Lines of text as roff has them.
fn roff(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let text = line.replace('\\', "\\e").replace('-', "\\-");
        let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
        format!("{guard}{text}\n")
    };
    lines.iter().map(line).collect()
}
