//! The source tree, and the places where blocks run. Each page has a directory outside the tree with nothing but
//! `cfipack`, a copy of the tree that stands for a clone. Pages about the tree start in the copy, other pages beside
//! it. Variables are those of a reader who has installed the command.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::check::Surroundings;
use crate::page::Page;
use crate::session::Session;

/// The source tree, and the work directory of `.ci/blocks`. In the latter, `bin` has the command, and `cargo-home` has
/// the packed crates in place of the registry's.
pub struct Tree {
    root: PathBuf,
    work: PathBuf,
    /// Files that git has, or would add.
    files: Vec<String>,
    /// The directory outside, removed at the end.
    outside: PathBuf,
}

impl Tree {
    pub fn new(root: &Path, work: &Path) -> Result<Tree, String> {
        let absolute =
            |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
        let (root, work) = (absolute(root)?, absolute(work)?);
        let git = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let files =
            Command::new("git").arg("-C").arg(&root).args(git).output().map_err(|it| format!("git: {it}"))?;
        let files = String::from_utf8(files.stdout).map_err(|_| "a file's name is not UTF-8")?;
        let files = files.split_terminator('\0').map(str::to_owned).collect::<BTreeSet<_>>();
        let files = files.into_iter().filter(|file| root.join(file).symlink_metadata().is_ok()).collect();
        let outside = std::env::temp_dir().join(format!("cfipack-blocks-{}", std::process::id()));
        fs::create_dir_all(&outside).map_err(|error| format!("{}: {error}", outside.display()))?;
        Ok(Tree { root, work, files, outside })
    }

    /// Returns every Markdown file except symbolic links and those of `corpora/`.
    pub fn documents(&self) -> Vec<String> {
        let is_document = |file: &&String| {
            file.ends_with(".md") && !file.starts_with("corpora/") && !self.root.join(file).is_symlink()
        };
        self.files.iter().filter(is_document).cloned().collect()
    }

    /// Makes a clean place for the page's blocks.
    pub fn session(&self, page: &Page) -> Result<Session, String> {
        let name = page.path.replace('/', "-");
        let beside = self.outside.join(&name);
        let clone = beside.join("cfipack");
        let home = self.outside.join("home");
        let in_order = |result: io::Result<()>| result.map_err(|error| format!("{}: {error}", page.path));
        in_order(fs::create_dir_all(&home))?;
        let mut variables = self.variables(&home);
        let source_tree = self.work.join("source");
        in_order(self.copy_to(&source_tree))?;
        in_order(fs::create_dir_all(&beside))?;
        // The copy keeps its builds for the next pages.
        in_order(std::os::unix::fs::symlink(&source_tree, &clone))?;
        let source_cargo_home = PathBuf::from(&variables["CARGO_HOME"]);
        let directory = if let Some(directory) = &page.directory {
            if directory == "." { clone } else { clone.join(directory) }
        } else {
            variables.insert("CARGO_HOME".into(), self.work.join("cargo-home").display().to_string());
            // All crates share intermediate files. Results are in each crate's own `target`.
            variables.insert("CARGO_BUILD_BUILD_DIR".into(), self.work.join("outside").display().to_string());
            beside
        };
        let work = self.outside.join("outputs").join(name);
        Ok(Session { directory, source_tree, source_cargo_home, work, variables })
    }

    fn variables(&self, home: &Path) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
        let path = std::env::var("PATH").unwrap_or_default();
        set("PATH", format!("{}:{path}", self.work.join("bin").display()));
        let old_home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
        for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            set(name, std::env::var(name).unwrap_or_else(|_| old_home.join(default).display().to_string()));
        }
        set("HOME", home.display().to_string());
        set("CARGO_INSTALL_ROOT", home.join("installed").display().to_string());
        set("LC_ALL", "C.UTF-8".into());
        set("TERM", "dumb".into());
        // Blocks only try what they build, so we build without optimization.
        for profile in ["RELEASE", "CAPI", "CAPI_READER"] {
            for (setting, value) in [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "0")] {
                set(&format!("CARGO_PROFILE_{profile}_{setting}"), value.into());
            }
        }
        set("CARGO_PROFILE_DEV_DEBUG", "0".into());
        variables
    }

    /// Copies exactly the files of the tree. `target` stays, so that unchanged crates are not built again.
    fn copy_to(&self, to: &Path) -> io::Result<()> {
        let kept: BTreeSet<_> = self.files.iter().map(PathBuf::from).collect();
        fs::create_dir_all(to)?;
        remove_others(to, Path::new(""), &kept)?;
        for file in &kept {
            let (from, to) = (self.root.join(file), to.join(file));
            fs::create_dir_all(to.parent().expect("a directory"))?;
            if from.is_symlink() {
                let _ = fs::remove_file(&to);
                std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
            } else if !to.is_file() || fs::read(&from)? != fs::read(&to)? {
                fs::copy(&from, &to)?;
            }
        }
        Ok(())
    }
}

/// Removes every file below the directory that is not in `kept`.
fn remove_others(root: &Path, below: &Path, kept: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if path == Path::new("target") || kept.contains(&path) {
            continue;
        }
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        } else if kept.range(path.clone()..).next().is_some_and(|next| next.starts_with(&path)) {
            remove_others(root, &path, kept)?;
        } else {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outside);
    }
}

impl Surroundings for Tree {
    fn has_program(&self, name: &str) -> bool {
        let path = std::env::var("PATH").unwrap_or_default();
        path.split(':').any(|directory| Path::new(directory).join(name).is_file())
    }

    fn hash(&self, file: &Path) -> Option<String> {
        let output = Command::new("sha256sum").arg(file).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn has_doc_tests(&self, page: &Page) -> bool {
        let page = self.root.join(&page.path).canonicalize().ok();
        let libraries = self.files.iter().filter(|file| file.ends_with("src/lib.rs"));
        libraries.into_iter().any(|library| {
            let library = self.root.join(library);
            let text = fs::read_to_string(&library).unwrap_or_default();
            let included = text
                .lines()
                .filter_map(|line| line.strip_prefix("#[doc = include_str!(\"")?.strip_suffix("\")]"));
            included.into_iter().any(|path| library.with_file_name("").join(path).canonicalize().ok() == page)
        })
    }

    fn program(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}
