//! Makes valid inputs of the goldens' tables, CFI and objects, from which damaged inputs are made.

use std::fs;

use cfipack_cfi::SectionKind;
use cfipack_container::File;
use cfipack_format::Arch;

use crate::corpora;
use crate::written_recording::{Mapped, written};

/// An input of a fuzz target, or of one of the functions beside this file.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The target.
    pub target: &'static str,
    /// The golden that it is made of.
    pub name: String,
    /// The input.
    pub bytes: Vec<u8>,
}

/// Files of `corpora/container`.
const FILES: [&str; 9] = [
    "linked.so",
    "both_frames",
    "at_zero",
    "comdat.ld.o",
    "linkable.o",
    "debug_frame.zlib.o",
    "debug_frame.zstd.o",
    "sectionless.so",
    "members.a",
];

/// Returns the seeds of all targets.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, name: &str, bytes: &[u8]| {
        seeds.push(Seed { target, name: name.to_owned(), bytes: bytes.to_vec() });
    };
    let small = |bytes: &[u8]| bytes.len() < 8192;
    for tool in ["gas247", "gas244", "llvm23"] {
        for golden in corpora::sframe(tool).iter().filter(|golden| small(&golden.object)) {
            let name = format!("{}.{tool}", golden.name.replace('/', "-"));
            let file = File::parse(&golden.object).expect("goldens are objects");
            add("container", &name, &golden.object);
            // The file twice. The cut is in the middle.
            let pair = [&[0, 0x80][..], &golden.object, &golden.object].concat();
            add("structure", &name, &pair);
            for table in file.sframe_sections().expect("goldens are whole") {
                add("decoder", &name, &table.bytes);
                // The first byte is the length of a program. One program reads, one links.
                for (call, program) in
                    [("read", [0, 255, 2, 0, 255, 255, 1]), ("link", [1, 0, 1, 255, 1, 1, 255])]
                {
                    let input = [&[program.len() as u8][..], &program, &table.bytes].concat();
                    add("capi", &format!("{name}.{call}"), &input);
                }
            }
            for (at, code) in file.code_sections().expect("goldens are whole").iter().enumerate() {
                let arch = Arch::ALL.iter().position(|arch| *arch == golden.arch).unwrap_or_default();
                let input = [&[arch as u8, 1, 4, 8, 0][..], &code.bytes].concat();
                add("code", &format!("{name}.{at}"), &input);
            }
            let tables = file.sframe_sections().expect("goldens are whole");
            let arch = |arch| match arch {
                Arch::Amd64 => 0,
                Arch::Aarch64 => 1,
                Arch::Aarch64Be => 2,
                _ => 3,
            };
            for section in file.call_frame_sections().expect("goldens are whole") {
                let arch = arch(golden.arch);
                let kind = if section.kind == SectionKind::EhFrame { 0 } else { 4 };
                let input = [&[arch | kind][..], &section.section.bytes].concat();
                // Directives can be made of any bytes, so the input needs no form.
                add("directives", &name, &input);
                add("cfi", &name, &input);
                let table = tables.first().map_or(&[][..], |table| &table.bytes);
                let len = (table.len() as u16).to_le_bytes();
                let input = [&[arch][..], &len, table, &section.section.bytes].concat();
                add("linker", &name, &input);
                add("verify", &name, &input);
            }
        }
    }
    for name in FILES {
        let path = corpora::directory().join("container").join(name);
        let file = fs::read(path).expect("a file of the corpora");
        add("container", name, &file);
        let pair = [&[0, 0x80][..], &file, &file].concat();
        add("structure", name, &pair);
    }
    let source = fs::read(corpora::directory().join("container/annotate.o")).expect("a file of the corpora");
    let file = File::parse(&source).expect("the object is whole");
    let bytes = |name| {
        file.debug_section(name).expect("the object is whole").map(|one| one.bytes).unwrap_or_default()
    };
    let (line, strings) = (bytes(".debug_line"), bytes(".debug_line_str"));
    let seed = [&[0][..], &(line.len() as u16).to_le_bytes(), &line, &strings].concat();
    add("lines", "annotate", &seed);
    let mapped = Mapped { path: "/lib/a", start: 0x5000_1000, len: 0x1000, offset: 0x1000 };
    let recording = written(&mapped, &[0x5000_1004, 0x7000_0020, 0x5000_1008, 0, 0, 0, 0, 0]);
    add("recording", "written", &recording);
    for link in corpora::compact_unwind_links() {
        let image = File::parse(&link.image).expect("goldens are images");
        let table =
            image.as_macho().expect("goldens are Mach-O").unwind_info_section().expect("goldens are whole");
        if let Some(table) = table.filter(|table| small(&table.bytes)) {
            add("unwind_info", &link.name, &table.bytes);
        }
        if small(&link.object) {
            add("container", &link.name, &link.object);
        }
        let object = File::parse(&link.object).expect("goldens are objects");
        let rows =
            object.as_macho().expect("goldens are Mach-O").compact_unwind().expect("goldens are whole");
        let rows = rows.map(|rows| rows.section.bytes).unwrap_or_default();
        let mut cfi = object.call_frame_sections().expect("goldens are whole");
        let cfi = cfi.pop().map(|cfi| cfi.section.bytes).unwrap_or_default();
        // Where the rows end, in 256ths of rows and CFI.
        let cut = (rows.len() * 256).div_ceil(rows.len() + cfi.len() + 1) as u8;
        let seed = [&[u8::from(object.arch() != Arch::Amd64) * 2, 3, 0, cut][..], &rows, &cfi].concat();
        if small(&seed) {
            add("linker_unwind_info", &link.name, &seed);
        }
    }
    seeds
}
