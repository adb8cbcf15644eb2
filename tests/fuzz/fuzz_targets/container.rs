//! Any bytes as a file: errors, and never a panic. Rows that are written into a Mach-O object change nothing else.

#![no_main]

use cfipack_edit::{CompactUnwindEdit, CompactUnwindEditor, EmbedError, Embedding, Rewrite, StartRelocation, embed_in_object, resize_thin_members, rewrite_members, without_sframe};
use cfipack_roundtrip::structure::check_compact_unwind_edit;
use cfipack_container::{Error, File, Placement};
use cfipack_container::members;
use cfipack_format::Address;
use cfipack_format::compact_unwind::Encoding;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(members) = members(bytes) {
        for member in members.take(100) {
            let _ = member;
        }
    }
    let longer = rewrite_members(bytes, |member| {
        let mut rewrite = Rewrite::unchanged(member.bytes.len());
        rewrite.bytes("test", &b"abc"[..]);
        Ok::<_, EmbedError>(Some(rewrite))
    });
    let _ = longer.map(|rewrite| rewrite.to_vec(bytes));
    let _ = resize_thin_members(bytes, |_| Ok::<u64, EmbedError>(1)).map(|rewrite| rewrite.to_vec(bytes));
    for placement in [Placement::Zero, Placement::Apart] {
        let Ok(file) = File::parse_with(bytes, placement) else { continue };
        if let Ok(sections) = file.call_frame_sections() {
            for section in sections.iter().take(20) {
                cfipack_cfi::Functions::new(&section.cfi()).take(1000).for_each(|function| {
                    let _ = function;
                });
            }
        }
        if let Ok(sections) = file.sframe_sections() {
            sections.iter().filter_map(|section| section.index).for_each(|index| {
                let _ = file.relocations(index);
            });
        }
        let start = StartRelocation { offset: 28, section: 1, addend: 0 };
        if let Ok(rewrite) = embed_in_object(&file, &[3; 40], &[start]) {
            let new = rewrite.to_vec(bytes);
            let again = File::parse_with(&new, placement).expect("an object still");
            let again = embed_in_object(&again, &[3; 40], &[start]).expect("a table is replaced");
            assert!(again.is_unchanged(&new));
        }
        for len in [100, 70_000] {
            if let Ok(embedding) = Embedding::of(&file, len) {
                let rewrite = embedding.rewrite(vec![1; len]);
                assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
            }
        }
        if let Ok(Some(rewrite)) = without_sframe(&file) {
            assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
        }
        let _ = file.code_sections();
        let _ = file.as_elf().map(|elf| elf.eh_frame_hdr_size());
        let _ = file.symbols().map(|symbols| symbols.lookup(Address(0)).is_some());
        let _ = file.locate(Address(0x1_0000));
        let _ = edit_rows(&file, bytes);
    }
});

/// Changes all rows of `__compact_unwind`, and adds some.
fn edit_rows(file: &File<'_>, bytes: &[u8]) -> Result<(), Error> {
    let Some(editor) = CompactUnwindEditor::of(file)? else { return Ok(()) };
    let (row, encoding, personality) = (None, Encoding(0x0200_1000), Some(0));
    let edit = |function| CompactUnwindEdit {
        row,
        function,
        length: 4,
        encoding,
        personality,
        lsda: Some(function),
    };
    let mut edits: Vec<_> = file.symbols()?.addresses().take(3).map(edit).collect();
    for row in file.as_macho().map_or(Ok(None), |macho| macho.compact_unwind())?.iter().flat_map(|compact| &compact.rows) {
        edits.push(CompactUnwindEdit { row: Some(row.offset), ..edit(row.function) });
    }
    let new = editor.rewrite(&edits)?.to_vec(bytes);
    if check_compact_unwind_edit(bytes, bytes).is_ok() {
        check_compact_unwind_edit(bytes, &new).unwrap();
    }
    Ok(())
}
