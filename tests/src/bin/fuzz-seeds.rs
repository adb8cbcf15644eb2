//! Writes the goldens' tables, CFI and objects as seeds for the fuzz targets.
//!
//!     cargo run -p cfipack-tests --bin fuzz-seeds -- DIRECTORY

use std::fs;
use std::path::Path;

use cfipack_container::File;
use cfipack_encoder::cfi::SectionKind;
use cfipack_format::Arch;
use cfipack_tests::corpora;

fn main() -> std::io::Result<()> {
    let directory = std::env::args_os().nth(1).expect("usage: fuzz-seeds DIRECTORY");
    let directory = Path::new(&directory);
    for target in ["decoder", "cfi", "container", "unwind_info", "directives"] {
        fs::create_dir_all(directory.join(target))?;
    }
    let small = |bytes: &[u8]| bytes.len() < 8192;
    for tool in ["gas247", "gas244", "llvm23"] {
        for golden in corpora::sframe(tool).iter().filter(|golden| small(&golden.object)) {
            let name = format!("{}.{tool}", golden.name.replace('/', "-"));
            let file = File::parse(&golden.object).expect("goldens are objects");
            fs::write(directory.join("container").join(&name), &golden.object)?;
            for table in file.sframe_sections().expect("goldens are whole") {
                fs::write(directory.join("decoder").join(&name), &table.bytes)?;
            }
            for section in file.call_frame_sections().expect("goldens are whole") {
                let arch = match golden.arch {
                    Arch::Amd64 => 0,
                    Arch::Aarch64 => 1,
                    Arch::Aarch64Be => 2,
                    _ => 3,
                };
                let kind = if section.kind == SectionKind::EhFrame { 0 } else { 4 };
                let input = [&[arch | kind][..], &section.section.bytes].concat();
                // Any bytes are directives.
                fs::write(directory.join("directives").join(&name), &input)?;
                fs::write(directory.join("cfi").join(&name), input)?;
            }
        }
    }
    for link in corpora::compact_unwind_links() {
        let image = File::parse(&link.image).expect("goldens are images");
        let table = image.unwind_info_section().expect("goldens are whole");
        if let Some(table) = table.filter(|table| small(&table.bytes)) {
            fs::write(directory.join("unwind_info").join(&link.name), &table.bytes)?;
        }
    }
    Ok(())
}
