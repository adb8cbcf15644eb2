//! The terminal of a page: one bash runs its blocks in order, so directories and variables stay from block to block.
//! Standard output and error of each command go to a separate file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The time limit of a page's blocks, in seconds.
const LIMIT: u32 = 900;

/// A command: the number of its block, and its own number in the block.
pub type Id = (usize, usize);

/// A step of the session.
pub enum Step<'a> {
    /// Run one command, which `id` names.
    Run { id: Id, text: &'a str, in_source_tree: bool },
    /// Put a text into a file.
    Write { path: &'a str, text: &'a str },
    /// Keep a file's bytes as they are now, as the output of `id`.
    Keep { id: Id, path: &'a str },
}

/// The result of a command.
#[derive(Debug)]
pub struct Done {
    pub output: Vec<u8>,
    /// `None`: the command has ended the terminal.
    pub status: Option<i32>,
    /// The simple commands that failed within it.
    pub failed: String,
}

/// Where blocks run, and with which variables.
pub struct Session {
    pub directory: PathBuf,
    /// A copy of the source tree, for blocks that ask for it. cargo's home is there too.
    pub source_tree: PathBuf,
    pub source_cargo_home: PathBuf,
    /// A directory for the session's own files.
    pub work: PathBuf,
    pub variables: BTreeMap<String, String>,
}

impl Session {
    /// Runs the steps. Returns the result of each command by its id.
    pub fn run(&self, steps: &[Step<'_>]) -> io::Result<BTreeMap<Id, Done>> {
        fs::create_dir_all(&self.work)?;
        // As in a terminal, a failing command does not end the session.
        let mut script = format!("cd {} || exit\nset -E -o pipefail\n", quoted(&self.directory));
        let second_terminal = format!(
            "( cd {} && unset CARGO_BUILD_BUILD_DIR && export CARGO_HOME={} &&",
            quoted(&self.source_tree),
            quoted(&self.source_cargo_home)
        );
        let mut ids = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let file = |extension: &str| self.work.join(format!("{number}.{extension}"));
            match step {
                Step::Run { id, text, in_source_tree } => {
                    fs::write(file("sh"), text)?;
                    let [open, close] = if *in_source_tree { [&*second_terminal, ")"] } else { ["{", "; }"] };
                    let [text, output, status, failed] =
                        ["sh", "output", "status", "failed"].map(|it| quoted(&file(it)));
                    // bash reads the block from a file, so that an open quote ends with its block.
                    write!(
                        script,
                        "trap 'printf \"%s\\n\" \"$BASH_COMMAND\" >>{failed}' ERR\n\
                         {open} . {text}{close} >{output} 2>&1 </dev/null\n\
                         echo $? >{status}\ntrap - ERR\n"
                    )
                    .unwrap();
                    ids.push((id, file("output"), file("status"), file("failed")));
                }
                Step::Write { path, text } => {
                    fs::write(file("text"), text)?;
                    let (from, to) = (quoted(&file("text")), quoted(Path::new(path)));
                    writeln!(script, "mkdir -p \"$(dirname {to})\" && cp {from} {to}").unwrap();
                }
                Step::Keep { id, path } => {
                    let [output, status, failed] = ["output", "status", "failed"].map(|it| quoted(&file(it)));
                    let path = quoted(Path::new(path));
                    write!(script, "cat {path} >{output} 2>{failed}\necho $? >{status}\n").unwrap();
                    ids.push((id, file("output"), file("status"), file("failed")));
                }
            }
        }
        let script_file = self.work.join("session");
        fs::write(&script_file, script)?;
        let mut command = Command::new("timeout");
        command
            .args([&format!("{LIMIT}"), "bash"])
            .arg(script_file)
            .envs(&self.variables)
            .stdin(Stdio::null());
        let removed = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            is_of_the_build(&name) && !self.variables.contains_key(&*name)
        });
        removed.for_each(|name| {
            command.env_remove(name);
        });
        command.status()?;
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let done = |(id, output, status, failed): (&Id, PathBuf, PathBuf, PathBuf)| {
            let done = Done {
                output: fs::read(&output).unwrap_or_default(),
                status: text(&status).trim().parse().ok(),
                failed: text(&failed),
            };
            (*id, done)
        };
        Ok(ids.into_iter().map(done).collect())
    }
}

/// Returns whether a variable changes what cargo or the check does. A reader's terminal does not have it.
fn is_of_the_build(name: &str) -> bool {
    ["CARGO", "CFIPACK_", "RUSTFLAGS", "RUSTC", "INSTA_"].iter().any(|start| name.starts_with(start))
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
