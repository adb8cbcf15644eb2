//! Copies a program with its loader and libraries into a directory, each with a table.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use object::{Object, ObjectSection};

use crate::embedded::embed;

/// A program and its libraries, copied.
#[derive(Clone, Debug)]
pub struct EmbeddedCopy {
    /// The file that was copied.
    pub original: PathBuf,
    /// The directory.
    pub directory: PathBuf,
    loader: PathBuf,
    program: PathBuf,
}

impl EmbeddedCopy {
    /// Copies a dynamically linked program with its loader and libraries. Each copy gets a table.
    ///
    /// # Errors
    /// A message: what could not be read, written or embedded.
    pub fn make(original: &Path, directory: &Path) -> Result<Self, String> {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let interpreter = interpreter(original)?;
        for library in libraries(&interpreter, original)? {
            copy(&library, directory)?;
        }
        let (loader, program) = (copy(&interpreter, directory)?, copy(original, directory)?);
        Ok(Self { original: original.into(), directory: directory.into(), loader, program })
    }

    /// Returns a command that runs the copies. It starts the loader by name, which finds the libraries beside the program.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.loader);
        command.arg("--argv0").arg(&self.original).arg("--library-path").arg(&self.directory);
        command.arg(&self.program);
        command
    }
}

/// Writes a file with a table into the directory.
fn copy(path: &Path, directory: &Path) -> Result<PathBuf, String> {
    let message = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = fs::read(path).map_err(|error| message(&error))?;
    let file = File::parse(&bytes).map_err(|error| message(&error))?;
    let new = match embed(&file, Options::new()) {
        Some(embedded) => embedded.map_err(|error| message(&error))?.rewrite.to_vec(&bytes),
        None => bytes.clone(),
    };
    let copied = directory.join(path.file_name().expect("a file has a name"));
    fs::write(&copied, new).map_err(|error| message(&error))?;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&copied, permissions).map_err(|error| message(&error))?;
    Ok(copied)
}

/// Returns the loader that the program names.
fn interpreter(program: &Path) -> Result<PathBuf, String> {
    let message = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
    let bytes = fs::read(program).map_err(|error| message(&error))?;
    let file = object::File::parse(&*bytes).map_err(|error| message(&error))?;
    let section = file.section_by_name(".interp").ok_or_else(|| message(&"no interpreter"))?;
    let name = section.data().map_err(|error| message(&error))?;
    let name = std::str::from_utf8(name).map_err(|error| message(&error))?;
    Ok(name.trim_end_matches('\0').into())
}

/// Returns the libraries that the loader would load, from its list `NAME => PATH (ADDRESS)`.
fn libraries(interpreter: &Path, program: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = Command::new(interpreter).arg("--list").arg(program).output();
    let listed = listed.map_err(|error| format!("{}: {error}", interpreter.display()))?;
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let path = |line: &str| {
        let (_, path) = line.split_once(" => ")?;
        path.split_once(" (").map(|(path, _)| PathBuf::from(path)).filter(|path| path.is_absolute())
    };
    let loader = interpreter.file_name();
    Ok(text.lines().filter_map(path).filter(|path| path.file_name() != loader).collect())
}
