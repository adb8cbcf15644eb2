//! Generates man pages and shell completions from the command's definition, and writes them to a directory. Copies the
//! man page of `cfi2sframe-ld` from `man/`, because that command has no options to generate a page from.
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

/// The meaning of exit status 0, 1 and 2, for verbs whose help does not describe it.
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

/// Writes the man page of a command and the pages of its verbs.
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

/// Returns the section "SYNOPSIS". Man pages write arguments without angle brackets: `[OPTIONS] INPUT...`.
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
    /// The lines about exit status 0, 1 and 2. They are empty if the text does not describe the status.
    statuses: [Vec<&'t str>; 3],
    examples: Vec<&'t str>,
}

impl<'t> Help<'t> {
    /// Divides the text into parts. A part ends at a blank line, or before a line that starts with "Exit status".
    fn parse(text: &'t str) -> Self {
        let mut help = Self::default();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut rest = || std::iter::from_fn(|| lines.next_if(continues_part)).collect::<Vec<_>>();
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

    /// Adds the lines below "Exit status:". A line without a status belongs to the status of the line before it.
    fn list_statuses(&mut self, lines: &[&'t str]) {
        let mut status = 0;
        for line in lines.iter().map(|line| line.trim()) {
            let text = match line.chars().next().and_then(|first| first.to_digit(10)) {
                Some(digit) if digit < 3 => {
                    status = digit as usize;
                    line[1..].trim()
                }
                _ => line,
            };
            self.statuses[status].push(text);
        }
    }

    fn description(&self) -> String {
        self.paragraphs.iter().map(|lines| format!(".PP\n{}", roff(lines))).collect()
    }

    fn exit_status(&self) -> String {
        let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
        for (status, (lines, usual)) in self.statuses.iter().zip(STATUSES).enumerate() {
            let meaning = if lines.is_empty() { roff(&[usual]) } else { sentence(&roff(lines)) };
            let _ = write!(text, ".TP\n\\fB{status}\\fR\n{meaning}");
        }
        text
    }

    /// Returns the section "EXAMPLES". roff keeps the line breaks of the commands.
    fn examples(&self) -> String {
        if self.examples.is_empty() {
            return String::new();
        }
        let lines: Vec<_> = self.examples.iter().map(|line| line.trim_start()).collect();
        format!(".SH EXAMPLES\n.nf\n{}.fi\n", roff(&lines))
    }
}

/// Returns whether a line of help belongs to the same part as the line before it.
fn continues_part(line: &&str) -> bool {
    !line.is_empty() && !line.starts_with("Exit status")
}

/// Returns the text with a capital first letter and a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase()).into_iter().collect::<String>();
    let end = if text.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}\n", letters.as_str())
}

/// Escapes lines of text for roff.
fn roff(lines: &[&str]) -> String {
    let mut escaped = String::new();
    for line in lines {
        let text = line.replace('\\', "\\e").replace('-', "\\-");
        let guard = if text.starts_with(['.', '\'']) { "\\&" } else { "" };
        escaped += &format!("{guard}{text}\n");
    }
    escaped
}
