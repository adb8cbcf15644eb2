//! Tests `cfi2sframe-ld` as cargo's linker.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cfipack_testkit::needs;

use crate::linker_driver::{DRIVER, check_table, successful};
use crate::program::scratch;

/// A crate with a build script and a procedural macro. cargo links both with the driver too, and runs them.
const CRATE: [(&str, &str); 5] = [
    (
        "Cargo.toml",
        r#"
[package]
name = "counts"
version = "0.0.0"
edition = "2021"
[workspace]
members = ["macros"]
[dependencies]
macros = { path = "macros" }
[profile.release]
strip = true
"#,
    ),
    (
        "macros/Cargo.toml",
        r#"
[package]
name = "macros"
version = "0.0.0"
edition = "2021"
[lib]
proc-macro = true
"#,
    ),
    ("build.rs", r#"fn main() { println!("cargo:rustc-env=BASE={}", std::env::args().count() + 39); }"#),
    (
        "macros/src/lib.rs",
        r#"
#[proc_macro]
pub fn base(_: proc_macro::TokenStream) -> proc_macro::TokenStream {
    "env!(\"BASE\").parse::<usize>().unwrap()".parse().unwrap()
}
"#,
    ),
    (
        "src/main.rs",
        r#"
fn main() {
    assert!(std::panic::catch_unwind(|| Vec::<u8>::new()[std::env::args().count()]).is_err());
    println!("{}", macros::base!() + std::env::args().count());
}
"#,
    ),
];

fn write_crate(directory: &Path) {
    for (name, text) in CRATE {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Returns the linked files that cargo keeps of a build: program, build script and procedural macro.
fn linked_by_cargo(profile: &Path) -> Vec<PathBuf> {
    let list = |directory: PathBuf| {
        let entries = fs::read_dir(&directory).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut scripts: Vec<_> =
        list(profile.join("build")).into_iter().map(|path| path.join("build-script-build")).collect();
    scripts.retain(|path| path.exists());
    let mut macros = list(profile.join("deps"));
    macros.retain(|path| path.extension().is_some_and(|extension| extension == "so"));
    assert!(!scripts.is_empty() && !macros.is_empty(), "{}", profile.display());
    [vec![profile.join("counts")], scripts, macros].concat()
}

/// The driver replaces the compiler driver that Rust calls.
#[test]
fn cargo_builds_with_a_compiler_driver() {
    let directory = scratch("linker-driver-cargo");
    let driver = directory.join("cfi2sframe-cc");
    symlink(DRIVER, &driver).unwrap();
    cargo_builds(&directory, &format!("linker = \"{}\"", driver.display()), None);
}

/// The compiler driver runs our driver as its linker.
#[test]
#[ignore = "needs gcc and ld.bfd"]
fn cargo_builds_with_fuse_ld() {
    [("gcc", "gcc"), ("ld.bfd", "binutils")].iter().for_each(|(tool, package)| needs::program(tool, package));
    let directory = scratch("linker-driver-cargo-gcc");
    fs::create_dir_all(directory.join("bin")).unwrap();
    symlink(DRIVER, directory.join("bin/ld.bfd")).unwrap();
    let bin = directory.join("bin");
    let flags = format!("\"-Clink-arg=-B{}\", \"-Clink-arg=-fuse-ld=bfd\"", bin.display());
    cargo_builds(&directory, &format!("linker = \"gcc\"\nrustflags = [{flags}]"), None);
}

#[test]
#[ignore = "needs clang and ld.lld"]
fn cargo_builds_with_ld_path() {
    [("clang", "clang"), ("ld.lld", "lld")].iter().for_each(|(tool, package)| needs::program(tool, package));
    let flags = format!("\"-Clink-arg=--ld-path={DRIVER}\"");
    let configuration = format!("linker = \"clang\"\nrustflags = [{flags}]");
    cargo_builds(&scratch("linker-driver-cargo-clang"), &configuration, Some("ld.lld"));
}

/// Builds the crate with `cargo` and this configuration of the target.
fn cargo_builds(directory: &Path, configuration: &str, linker: Option<&str>) {
    write_crate(directory);
    fs::create_dir_all(directory.join(".cargo")).unwrap();
    let text = format!("[target.x86_64-unknown-linux-gnu]\n{configuration}\n");
    fs::write(directory.join(".cargo/config.toml"), text).unwrap();
    for (profile, option) in [("debug", "--quiet"), ("release", "--release")] {
        let target = directory.join("target");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--offline", option, "--target-dir"]).arg(&target).current_dir(directory);
        cargo
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .envs(linker.map(|linker| ("CFI2SFRAME_LD", linker)));
        successful(&mut cargo);
        for file in linked_by_cargo(&target.join(profile)) {
            check_table(&file);
        }
        let output = successful(&mut Command::new(target.join(profile).join("counts")));
        assert_eq!(output.stdout, b"41\n", "{profile}");
    }
}
