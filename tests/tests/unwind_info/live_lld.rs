//! Links random objects, and compares ld64.lld's `__unwind_info` with cfipack's.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::Arch;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::linked::Linked;
use cfipack_tests::mach_object::{self, Mix};
use cfipack_tests::reference::Tools;
use cfipack_tests::unwind_table::{Table, lay_out};

/// Returns the arguments of a link.
fn arguments(arch: Arch) -> Vec<&'static str> {
    let arch = if arch == Arch::Amd64 { "x86_64" } else { "arm64" };
    let dylib = ["-dylib", "-undefined", "dynamic_lookup", "-platform_version", "macos", "11.0", "11.0"];
    [&["-arch", arch][..], &dylib, &["f.o", "-o", "f.dylib"]].concat()
}

/// Links random objects with `link`, and compares the tables.
fn compare(what: &str, count: usize, link: impl Fn(Arch, &[u8]) -> Vec<u8>) {
    let (seed, count) = cases(what, count);
    let mut random = Random::new(seed);
    let (mut functions, mut dwarf) = (0, 0);
    for number in 0..count {
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        let limit = random.pick(&[3, 600, 5000]);
        let mix = Mix::random(&mut random, limit);
        let object = mach_object::random(&mut random, arch, mix);
        let linked = Linked::new(&object, &link(arch, &object));
        let of_layout = |layout| {
            let options = Options::new().with_layout(layout);
            lay_out(arch, options, &linked.entries, None, |number| linked.slots[number as usize - 1])
        };
        let (lld, small) = (of_layout(Layout::Lld), of_layout(Layout::Small));
        let theirs = linked.table.unwrap_or_default();
        assert!(lld == theirs, "object {number}, {arch:?}, {mix:?}: {}", difference(&lld, &theirs));
        assert!(small.len() <= lld.len(), "object {number}: {} bytes, lld {}", small.len(), lld.len());
        functions += mix.functions;
        dwarf += linked.entries.iter().filter(|entry| entry.fde.is_some()).count();
    }
    println!("{what}: {count} objects, {functions} functions, {dwarf} of them with FDEs");
}

fn difference(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let pages = |bytes: &[u8]| (!bytes.is_empty()).then(|| Table::read(bytes).pages);
    format!(
        "{} bytes, lld {}, first difference at {at:x?}\n{:?}\n{:?}",
        ours.len(),
        theirs.len(),
        pages(ours),
        pages(theirs)
    )
}

/// Returns the lld of the Rust toolchain, in its directory `gcc-ld`.
fn toolchain_lld() -> PathBuf {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let print = |what: &[&str]| {
        let output = Command::new(&rustc).args(what).output().expect("rustc runs");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = print(&["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    let root = PathBuf::from(print(&["--print", "sysroot"]).trim());
    let lld = root.join("lib/rustlib").join(host).join("bin/gcc-ld/ld64.lld");
    assert!(
        lld.exists(),
        "this test needs {}, which is a part of the Rust toolchains of rustup",
        lld.display()
    );
    lld
}

#[test]
fn the_toolchains_lld() {
    let what = "layout lld against the Rust toolchain's ld64.lld";
    let lld = toolchain_lld();
    let directory = env::temp_dir().join(format!("cfipack-lld-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    compare(what, 60, |arch, object| {
        fs::write(directory.join("f.o"), object).unwrap();
        let output = Command::new(&lld).args(arguments(arch)).current_dir(&directory).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::read(directory.join("f.dylib")).unwrap()
    });
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "needs the reference tools"]
fn lld_23() {
    let what = "layout lld against ld64.lld 23";
    let tools = Tools::find();
    compare(what, 60, |arch, object| {
        tools.write("f.o", object);
        tools.run_well(&[&["ld64.lld-23"][..], &arguments(arch)].concat());
        tools.read("f.dylib")
    });
}
