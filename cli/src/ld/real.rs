//! Finds the real linker and starts it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// Names the linker: a path, or a name that is looked up in `PATH`.
pub const LINKER: &str = "CFI2SFRAME_LD";
/// The variable that counts how many copies of this command run each other.
const DEPTH: &str = "CFI2SFRAME_LD_DEPTH";
/// How many copies may run each other. If the linker is a compiler driver, it may run this command again for its own
/// linker. A longer chain means that the command runs itself without end.
const MAX_DEPTH: u32 = 4;

/// Returns the path of the real linker, for a command that was called by `name`.
pub fn linker(name: &Path) -> anyhow::Result<PathBuf> {
    let wanted = env::var_os(LINKER).filter(|linker| !linker.is_empty()).unwrap_or_else(|| by_name(name));
    if Path::new(&wanted).components().count() > 1 {
        return Ok(wanted.into());
    }
    let own = env::current_exe().and_then(fs::canonicalize).ok();
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|directory| directory.join(&wanted))
        .find(|program| is_program(program) && fs::canonicalize(program).ok() != own)
        .with_context(|| {
            format!("no linker {} in PATH: {LINKER} names another", Path::new(&wanted).display())
        })
}

/// Returns the linker's name from this command's name: `ld` for `cfi2sframe-ld`, `ld.lld` for `cfi2sframe-ld.lld` and
/// `ld.lld`.
fn by_name(name: &Path) -> OsString {
    let name = name.file_name().unwrap_or("ld".as_ref());
    match name.to_str().and_then(|name| name.strip_prefix("cfi2sframe-")) {
        Some(linker) => linker.into(),
        None => name.into(),
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Returns whether a program is a linker by its name (`ld`, `x86_64-linux-gnu-ld.bfd`, `mold`), and no compiler driver.
pub fn is_linker(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.split(['-', '.', '_']).any(|part| matches!(part, "ld" | "lld" | "gold" | "mold" | "wild"))
}

/// Returns the command that starts the linker. The caller adds the arguments.
pub fn command(linker: &Path) -> anyhow::Result<Command> {
    let depth = env::var(DEPTH).map_or(0, |depth| depth.parse().unwrap_or(0_u32));
    if depth >= MAX_DEPTH {
        bail!(
            "{}: this is a copy of cfi2sframe-ld, which would run itself: {LINKER} names the linker",
            linker.display()
        );
    }
    let mut command = Command::new(linker);
    // The variable is only for this copy. If a compiler driver runs another copy, that copy's own name decides.
    command.env_remove(LINKER).env(DEPTH, (depth + 1).to_string());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, linker) in [
            ("cfi2sframe-ld", "ld"),
            ("/usr/bin/cfi2sframe-ld.lld", "ld.lld"),
            ("cfi2sframe-cc", "cc"),
            ("/opt/bin/ld", "ld"),
            ("ld.mold", "ld.mold"),
            ("aarch64-linux-gnu-ld", "aarch64-linux-gnu-ld"),
        ] {
            assert_eq!(by_name(Path::new(name)), linker);
            assert_eq!(is_linker(Path::new(linker)), linker != "cc", "{linker}");
        }
    }
}
