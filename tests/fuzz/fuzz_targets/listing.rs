//! Any text as a listing or a source: no panic, errors with places that can be printed, and tables of what has none.

#![no_main]

use cfipack_assembler::text::{Format, Reader};
use cfipack_assembler::{Dialect, ObjectOptions};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::Arch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&choice, text)) = input.split_first() else { return };
    let arches =
        [Arch::Amd64, Arch::Aarch64, Arch::S390x, Arch::Aarch64Be, Arch::I386, Arch::Arm64_32, Arch::Amd64];
    let arch = arches[usize::from(choice % 7)];
    // A text after an empty line of NUL is the source of a listing.
    let split = text.windows(3).position(|window| window == b"\n\0\n");
    let (text, source) = split.map_or((text, None), |at| (&text[..at], Some(&text[at + 3..])));
    let mut reader = Reader::new(arch);
    if choice & 0x80 != 0 {
        reader = reader.with_format(Format::MachO);
    }
    if let Some(source) = source {
        reader = reader.with_source(source);
    }
    let unit = match reader.read(text) {
        Ok(unit) => unit,
        Err(errors) => {
            assert!(!errors.list().is_empty());
            assert!(!errors.print("f.s").is_empty());
            return;
        }
    };
    let dialect = if choice & 0x40 == 0 { Dialect::Gas } else { Dialect::Llvm };
    let Ok(assembly) = unit.assembly(dialect) else { return };
    let _ = assembly.eh_frame();
    let _ = assembly.debug_frame();
    let options = Options::new().with_layout(Layout::Gnu);
    let _ = assembly.sframe(options);
    let _ = unit.object(ObjectOptions::new(Options::default()).with_eh_frame(true));
});
