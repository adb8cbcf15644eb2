//! `cfi2sframe-ld` as cargo's linker.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use cfipack_tests::not_tested::skipped;

use crate::linker_driver::{DRIVER, check_table, is_installed, successful};
use crate::program::scratch;

/// A crate with a build script and a procedural macro, which cargo links with the driver too, and runs.
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

/// The linked files that cargo keeps of a build: program, build script and procedural macro.
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

/// `cargo` with the driver as the linker of a configuration: a compiler driver, or the linker that one runs.
#[test]
fn cargo_builds() {
    let what = "cfi2sframe-ld as cargo's linker";
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) || !is_installed("readelf") {
        return skipped(what, "there is no readelf for x86-64 Linux");
    }
    let directory = scratch("linker-driver-cargo");
    write_crate(&directory);
    let driver = directory.join("cfi2sframe-cc");
    symlink(DRIVER, &driver).unwrap();
    fs::create_dir_all(directory.join("bin")).unwrap();
    symlink(DRIVER, directory.join("bin/ld.bfd")).unwrap();
    let (driver, bin) = (driver.display(), directory.join("bin").display().to_string());
    let by_bfd = format!("\"-Clink-arg=-B{bin}\", \"-Clink-arg=-fuse-ld=bfd\"");
    let by_path = format!("\"-Clink-arg=--ld-path={DRIVER}\"");
    let configurations = [
        ("linker", format!("linker = \"{driver}\""), &["cc"][..], None),
        ("fuse-ld", format!("linker = \"gcc\"\nrustflags = [{by_bfd}]"), &["gcc", "ld.bfd"], None),
        (
            "ld-path",
            format!("linker = \"clang\"\nrustflags = [{by_path}]"),
            &["clang", "ld.lld"],
            Some("ld.lld"),
        ),
    ];
    for (name, configuration, needs, linker) in configurations {
        if let Some(missing) = needs.iter().find(|program| !is_installed(program)) {
            skipped(&format!("{what}: {name}"), &format!("there is no {missing}"));
            continue;
        }
        fs::create_dir_all(directory.join(".cargo")).unwrap();
        let text = format!("[target.x86_64-unknown-linux-gnu]\n{configuration}\n");
        fs::write(directory.join(".cargo/config.toml"), text).unwrap();
        for (profile, option) in [("debug", "--quiet"), ("release", "--release")] {
            let target = directory.join(name);
            let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
            cargo.args(["build", "--offline", option, "--target-dir"]).arg(&target).current_dir(&directory);
            cargo
                .env_remove("RUSTFLAGS")
                .env_remove("CARGO_ENCODED_RUSTFLAGS")
                .envs(linker.map(|linker| ("CFI2SFRAME_LD", linker)));
            successful(&mut cargo);
            for file in linked_by_cargo(&target.join(profile)) {
                check_table(&file);
            }
            let output = successful(&mut Command::new(target.join(profile).join("counts")));
            assert_eq!(output.stdout, b"41\n", "{name}, {profile}");
        }
    }
}
