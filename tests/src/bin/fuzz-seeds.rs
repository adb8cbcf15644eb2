//! Writes the goldens' tables, CFI and objects as seeds for the fuzz targets.
//!
//!     cargo run -p cfipack-tests --bin fuzz-seeds -- DIRECTORY

use std::fs;
use std::path::Path;

use cfipack_cfi::SectionKind;
use cfipack_container::File;
use cfipack_format::Arch;
use cfipack_tests::corpora;
use cfipack_tests::written_recording::{Mapped, written};

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).expect("usage: fuzz-seeds DIRECTORY");
    let directory = Path::new(&directory);
    let targets = [
        "decoder",
        "cfi",
        "code",
        "lines",
        "container",
        "structure",
        "unwind_info",
        "linker",
        "linker_unwind_info",
        "directives",
        "capi",
        "recording",
    ];
    for target in targets {
        fs::create_dir_all(directory.join(target))?;
    }
    let small = |bytes: &[u8]| bytes.len() < 8192;
    for tool in ["gas247", "gas244", "llvm23"] {
        for golden in corpora::sframe(tool).iter().filter(|golden| small(&golden.object)) {
            let name = format!("{}.{tool}", golden.name.replace('/', "-"));
            let file = File::parse(&golden.object).expect("goldens are objects");
            fs::write(directory.join("container").join(&name), &golden.object)?;
            // Twice the same file, half of it each.
            let pair = [&[0, 0x80][..], &golden.object, &golden.object].concat();
            fs::write(directory.join("structure").join(&name), pair)?;
            for table in file.sframe_sections().expect("goldens are whole") {
                fs::write(directory.join("decoder").join(&name), &table.bytes)?;
                // Its first byte is the length of a program: to read, and to link.
                for (call, program) in
                    [("read", [0, 255, 2, 0, 255, 255, 1]), ("link", [1, 0, 1, 255, 1, 1, 255])]
                {
                    let input = [&[program.len() as u8][..], &program, &table.bytes].concat();
                    fs::write(directory.join("capi").join(format!("{name}.{call}")), input)?;
                }
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
                // Any bytes are directives.
                fs::write(directory.join("directives").join(&name), &input)?;
                fs::write(directory.join("cfi").join(&name), input)?;
                let table = tables.first().map_or(&[][..], |table| &table.bytes);
                let len = (table.len() as u16).to_le_bytes();
                let input = [&[arch][..], &len, table, &section.section.bytes].concat();
                fs::write(directory.join("linker").join(&name), input)?;
            }
        }
    }
    for name in ["linked.so", "both_frames", "at_zero", "comdat.ld.o"] {
        let file = fs::read(corpora::directory().join("container").join(name))?;
        let pair = [&[0, 0x80][..], &file, &file].concat();
        fs::write(directory.join("structure").join(name), pair)?;
    }
    let source = fs::read(corpora::directory().join("container/annotate.o"))?;
    let file = File::parse(&source).expect("the object is whole");
    let bytes = |name| {
        file.debug_section(name).expect("the object is whole").map(|one| one.bytes).unwrap_or_default()
    };
    let (line, strings) = (bytes(".debug_line"), bytes(".debug_line_str"));
    let seed = [&[0][..], &(line.len() as u16).to_le_bytes(), &line, &strings].concat();
    fs::write(directory.join("lines").join("annotate"), seed)?;
    let mapped = Mapped { path: "/lib/a", start: 0x5000_1000, len: 0x1000, offset: 0x1000 };
    let recording = written(&mapped, &[0x5000_1004, 0x7000_0020, 0x5000_1008, 0, 0, 0, 0, 0]);
    fs::write(directory.join("recording").join("written"), recording)?;
    for link in corpora::compact_unwind_links() {
        let image = File::parse(&link.image).expect("goldens are images");
        let table =
            image.as_macho().expect("goldens are Mach-O").unwind_info_section().expect("goldens are whole");
        if let Some(table) = table.filter(|table| small(&table.bytes)) {
            fs::write(directory.join("unwind_info").join(&link.name), &table.bytes)?;
        }
        let object = File::parse(&link.object).expect("goldens are objects");
        let rows =
            object.as_macho().expect("goldens are Mach-O").compact_unwind().expect("goldens are whole");
        let rows = rows.map(|rows| rows.section.bytes).unwrap_or_default();
        let mut cfi = object.call_frame_sections().expect("goldens are whole");
        let cfi = cfi.pop().map(|cfi| cfi.section.bytes).unwrap_or_default();
        // Where the rows end, in 256 parts of both.
        let cut = (rows.len() * 256).div_ceil(rows.len() + cfi.len() + 1) as u8;
        let seed = [&[u8::from(object.arch() != Arch::Amd64) * 2, 3, 0, cut][..], &rows, &cfi].concat();
        if small(&seed) {
            fs::write(directory.join("linker_unwind_info").join(&link.name), seed)?;
        }
    }
    Ok(())
}
