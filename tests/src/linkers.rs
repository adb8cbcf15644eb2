//! Finds linkers for x86-64 programs: this machine's, and those in the trees of reference tools. The latter run here by
//! the dynamic loaders of their trees, so they link with this machine's C library. The trees have at least one of each
//! GNU linker, lld and mold. wild is used if `PATH` has it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use cfipack_testkit::needs;

use crate::reference;

/// A linker, as `cc` finds it.
#[derive(Debug)]
pub struct Linker {
    /// The linker's own name, its version included.
    pub name: String,
    /// The kind of linker.
    pub kind: LinkerKind,
    /// A directory that has the linker as `ld`, for `cc -B`.
    directory: PathBuf,
}

/// A kind of linker, by who makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkerKind {
    /// GNU ld.
    Bfd,
    /// GNU gold.
    Gold,
    /// LLVM's.
    Lld,
    /// mold.
    Mold,
    /// wild.
    Wild,
}

/// File names of each kind of linker. The first name is used in the trees.
const NAMES: [(LinkerKind, &[&str]); 5] = [
    (LinkerKind::Bfd, &["x86_64-linux-gnu-ld.bfd", "ld.bfd"]),
    (LinkerKind::Gold, &["x86_64-linux-gnu-ld.gold", "ld.gold"]),
    (LinkerKind::Lld, &["ld.lld-23", "ld.lld"]),
    (LinkerKind::Mold, &["mold"]),
    (LinkerKind::Wild, &["wild"]),
];

/// Returns all linkers. Panics without the reference tools and `cc`. `scratch` is a directory for what `cc` needs.
pub fn linkers(scratch: &Path) -> Vec<Linker> {
    needs::program("cc", "gcc");
    let path = env::var_os("PATH").unwrap_or_default();
    let own: Vec<_> = env::split_paths(&path).collect();
    let trees = ["sid", "trixie"].map(|tree| reference::trees().join(tree));
    let mut all = Vec::new();
    for (kind, names) in NAMES {
        let before = all.len();
        let mut add = |program: String| {
            let directory = scratch.join(format!("ld{}", all.len()));
            all.extend(Linker::new(kind, &program, directory));
        };
        let found = |names: &[&str], directory: &Path| {
            names.iter().map(|name| directory.join(name)).find(|program| program.exists())
        };
        if let Some(program) = own.iter().find_map(|directory| found(names, directory)) {
            add(format!("'{}'", program.display()));
        }
        for tree in &trees {
            if let Some(program) = found(names, &tree.join("usr/bin")) {
                let root = tree.display();
                let libraries = format!("{root}/usr/lib/x86_64-linux-gnu:{root}/usr/lib/llvm-23/lib");
                let loader = format!("'{root}/lib64/ld-linux-x86-64.so.2' --library-path '{libraries}'");
                add(format!("{loader} '{}'", program.display()));
            }
        }
        if all.len() == before {
            assert_eq!(kind, LinkerKind::Wild, "none in the trees of the reference tools runs here");
            eprintln!("not tested with wild, which is not in PATH");
        }
    }
    all
}

impl Linker {
    /// Returns the linker that a shell command runs, or `None` if it does not run.
    fn new(kind: LinkerKind, program: &str, directory: PathBuf) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        fs::create_dir_all(&directory).ok()?;
        let script = directory.join("ld");
        fs::write(&script, format!("#!/bin/sh\nexec {program} \"$@\"\n")).ok()?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).ok()?;
        let version = Command::new(&script).arg("--version").output().ok()?;
        let version = String::from_utf8_lossy(&version.stdout);
        let name = version.lines().next().filter(|_| !version.is_empty())?.to_string();
        Some(Self { name, kind, directory })
    }

    /// Returns whether the linker's name ends in this version or a later one, as names of binutils do.
    pub fn is_at_least(&self, version: (u32, u32)) -> bool {
        let mut numbers =
            self.name.rsplit(' ').next().unwrap_or_default().split('.').map_while(|it| it.parse().ok());
        numbers.next().zip(numbers.next()).is_some_and(|found| found >= version)
    }

    /// Runs `cc` with this linker.
    pub fn cc(&self, arguments: &[&str]) -> std::io::Result<Output> {
        let mut cc = Command::new("cc");
        cc.arg("-B").arg(&self.directory).arg("-fno-use-linker-plugin").args(arguments);
        cc.env("LC_ALL", "C").output()
    }

    /// Runs the linker itself.
    pub fn ld(&self, arguments: &[&str]) -> std::io::Result<Output> {
        Command::new(self.directory.join("ld")).args(arguments).env("LC_ALL", "C").output()
    }
}
