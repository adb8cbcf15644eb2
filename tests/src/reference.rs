//! Runs other people's tools to compare cfipack with. `tests/reference-tools/install DIR` installs them, and
//! `CFIPACK_REFERENCE_TOOLS=DIR` names their directory. Tests that need them are ignored by default, and fail without
//! the variable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use cfipack_testkit::needs;

/// Returns the directory of the trees. Panics if the variable is not set, or a tree is incomplete.
pub fn trees() -> PathBuf {
    let trees = needs::directory(
        "CFIPACK_REFERENCE_TOOLS",
        "`tests/reference-tools/install DIR` installs the tools there",
    );
    for tree in ["sid", "trixie"] {
        assert!(trees.join(tree).join(".complete").exists(), "no tools in {}", trees.join(tree).display());
    }
    trees
}

/// The tree of the newest tools (binutils 2.46 or later, LLVM 23), with a working directory in it.
#[derive(Debug)]
pub struct Tools {
    root: PathBuf,
    directory: String,
}

static DIRECTORIES: AtomicUsize = AtomicUsize::new(0);

impl Tools {
    /// Finds the tools. Panics without them.
    pub fn find() -> Self {
        let root = trees().join("sid");
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let directory = format!("/tmp/cfipack-{}-{number}", std::process::id());
        let tools = Self { root, directory };
        fs::create_dir_all(tools.path("")).expect("the tools' tree can be written to (root?)");
        tools
    }

    /// Returns the tree of older tools (binutils 2.44), with a working directory in it.
    pub fn older(&self) -> Self {
        let root = self.root.with_file_name("trixie");
        let tools = Self { root, directory: self.directory.clone() };
        fs::create_dir_all(tools.path("")).expect("the tools' tree can be written to (root?)");
        tools
    }

    /// Returns the path of the tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in the working directory, seen from outside the tree.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(&self.directory[1..]).join(name)
    }

    /// Writes a file into the working directory.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("the tools' tree can be written to");
    }

    /// Reads a file of the working directory.
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a tool in the working directory.
    pub fn run(&self, command: &[&str]) -> Output {
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.root).args(["/usr/bin/env", "-C", &self.directory, "LC_ALL=C"]).args(command);
        chroot.output().expect("chroot runs")
    }

    /// Runs a tool, which may fail. Returns its standard output.
    pub fn print(&self, command: &[&str]) -> String {
        String::from_utf8_lossy(&self.run(command).stdout).into_owned()
    }

    /// Runs a tool, which must succeed. Returns its standard output.
    pub fn run_well(&self, command: &[&str]) -> String {
        let output = self.run(command);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {}\n{error}", output.status);
        String::from_utf8(output.stdout).expect("the tools print text")
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path(""));
    }
}
