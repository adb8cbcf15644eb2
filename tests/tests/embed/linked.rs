//! Links and runs the files of these tests, and reads them with `object`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use cfipack_container::File;
use cfipack_edit::without_sframe;
use cfipack_encoder::sframe::Options;
use cfipack_roundtrip::structure::check_structure;
use cfipack_tests::embedded::{Embedded, embed};
use cfipack_tests::linkers::{Linker, linkers};
use object::elf;
use object::read::elf::{ElfFile64, ProgramHeader as _};

/// Makes a new directory for a test's files.
pub fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embed").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a directory for files");
    path
}

/// Returns the linkers, and the objects of the sources next to this file. Panics without the reference tools and `cc`.
pub fn tools() -> &'static (Vec<Linker>, PathBuf) {
    static TOOLS: OnceLock<(Vec<Linker>, PathBuf)> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let directory = scratch("objects-and-linkers");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/embed");
        for name in ["program", "library", "opener"] {
            for (suffix, option) in [("", "-fPIC"), (".fixed", "-fno-pic")] {
                let object = directory.join(format!("{name}{suffix}.o"));
                let mut cc = Command::new("cc");
                cc.args(["-O1", "-g", option, "-c", "-o"]).arg(object).arg(sources.join(format!("{name}.c")));
                assert!(cc.status().is_ok_and(|status| status.success()), "a C compiler");
            }
        }
        let opener = directory.join("opener");
        let object = directory.join("opener.o");
        let status = Command::new("cc").arg("-o").arg(opener).arg(object).status();
        assert!(status.is_ok_and(|status| status.success()), "a C compiler");
        (linkers(&directory), directory)
    })
}

/// Kinds of linked files: name, object, and options for `cc`.
pub const KINDS: [(&str, &str, &[&str]); 11] = [
    ("pie", "program.o", &["-pie"]),
    ("fixed", "program.fixed.o", &["-no-pie"]),
    ("static", "program.fixed.o", &["-static", "-no-pie"]),
    ("static-pie", "program.o", &["-static-pie"]),
    ("library", "library.o", &["-shared"]),
    ("build-id", "program.o", &["-pie", "-Wl,--build-id"]),
    ("library-build-id", "library.o", &["-shared", "-Wl,--build-id", "-Wl,--hash-style=both"]),
    ("relr", "program.o", &["-pie", "-Wl,-z,pack-relative-relocs"]),
    ("large-pages", "program.o", &["-pie", "-Wl,-z,max-page-size=0x10000"]),
    ("huge-pages", "program.o", &["-pie", "-Wl,-z,max-page-size=0x200000"]),
    ("sysv-hash", "program.o", &["-pie", "-Wl,--hash-style=sysv", "-Wl,-z,noseparate-code"]),
];

/// Links an object. Returns `None` if the linker refuses.
pub fn link(linker: &Linker, output: &Path, object: &str, options: &[&str]) -> Option<Vec<u8>> {
    let object = tools().1.join(object);
    let paths = ["-o", output.to_str()?, object.to_str()?];
    let linked = linker.cc(&[&paths, options].concat()).ok()?;
    linked.status.success().then(|| fs::read(output).ok())?
}

/// Runs a program, or a program that opens the library. Returns standard output and exit status.
pub fn run(path: &Path, bytes: &[u8], is_library: bool) -> String {
    fs::write(path, bytes).expect("a file can be written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its mode can be changed");
    let mut command = if is_library { Command::new(tools().1.join("opener")) } else { Command::new(path) };
    let argument = if is_library { path } else { Path::new("argument") };
    let output = command.arg(argument).stdin(Stdio::null()).output();
    // A file that is open for writing cannot be run. A thread that forks in that moment keeps it open, so we try again.
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
            std::thread::sleep(std::time::Duration::from_millis(200));
            command.output()
        }
        other => other,
    };
    let output = output.expect("it starts");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), output.status)
}

/// Embeds the table of the file's CFI.
pub fn with_table(bytes: &[u8]) -> (Vec<u8>, Embedded<'_>) {
    let file = File::parse(bytes).expect("a linked file");
    let embedded = embed(&file, Options::new()).expect("call frame information");
    let embedded = embedded.expect("the file has a place");
    let new = embedded.rewrite.to_vec(bytes);
    check_structure(bytes, &new).unwrap_or_else(|error| panic!("{:?}: {error}", embedded.way));
    (new, embedded)
}

/// Removes the file's table.
pub fn without_table(bytes: &[u8]) -> Vec<u8> {
    let file = File::parse(bytes).expect("a linked file");
    without_sframe(&file).expect("nothing in the way").expect("a table").to_vec(bytes)
}

/// Returns address and bytes of the table that a dynamic loader finds: by its program header, in a read-only segment.
pub fn loaded_table(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let file = ElfFile64::<object::Endianness>::parse(bytes).expect("an ELF file");
    let endian = file.endian();
    let of_type = |kind| file.elf_program_headers().iter().filter(move |one| one.p_type(endian) == kind);
    let mut tables = of_type(elf::PT_GNU_SFRAME);
    let table = tables.next()?;
    assert!(tables.next().is_none(), "one program header of a table");
    let (address, offset, size) = (table.p_vaddr(endian), table.p_offset(endian), table.p_filesz(endian));
    let load = of_type(elf::PT_LOAD).find(|load| {
        let (start, from) = (load.p_vaddr(endian), load.p_offset(endian));
        start <= address
            && address + size <= start + load.p_filesz(endian)
            && address - start == offset - from
            && load.p_flags(endian) == elf::PF_R
    });
    load?;
    Some((address, &bytes[offset as usize..][..size as usize]))
}
