//! Reads any bytes as a file: errors are fine, panics are not. Writing rows into a Mach-O object changes nothing else.

use cfipack_container::{Error, File, Placement, members, thin_members};
use cfipack_edit::{
    CompactUnwindEdit, CompactUnwindEditor, EmbedError, Embedding, Rewrite, StartRelocation, embed_in_object,
    resize_thin_members, rewrite_members, without_sframe,
};
use cfipack_format::Address;
use cfipack_format::compact_unwind::Encoding;
use cfipack_roundtrip::structure::check_compact_unwind_edit;

/// Reads and edits the input as a file, and each member of an archive or a fat file.
pub fn container(bytes: &[u8]) {
    rewrite(bytes);
    let Ok(members) = members(bytes) else { return };
    for member in members.take(100).flatten() {
        for placement in [Placement::Zero, Placement::Apart] {
            let Ok(file) = File::parse_with(member.bytes, placement) else { continue };
            read(&file, member.bytes);
            edit(&file, member.bytes, placement);
            let _ = edit_rows(&file, member.bytes);
        }
    }
}

/// Changes every member of an archive in two ways.
fn rewrite(bytes: &[u8]) {
    let _ = thin_members(bytes).map(|members| members.map(|members| members.len()));
    let longer = rewrite_members(bytes, |member| {
        let mut rewrite = Rewrite::unchanged(member.bytes.len());
        rewrite.bytes("test", &b"abc"[..]);
        Ok::<_, EmbedError>(Some(rewrite))
    });
    if let Ok(longer) = longer.map(|rewrite| rewrite.to_vec(bytes))
        && let (Ok(old), Ok(new)) = (members(bytes), members(&longer))
    {
        assert_eq!(old.flatten().count(), new.flatten().count());
    }
    let _ = resize_thin_members(bytes, |_| Ok::<u64, EmbedError>(1)).map(|rewrite| rewrite.to_vec(bytes));
}

/// Calls every method that reads a file.
fn read(file: &File<'_>, bytes: &[u8]) {
    for section in file.call_frame_sections().unwrap_or_default().iter().take(20) {
        for function in cfipack_cfi::Functions::new(&section.cfi()).take(1000).flatten() {
            let _ = file.locate(function.key.address());
        }
        let _ = section.section.index.map(|index| file.relocations(index).is_ok());
    }
    for section in file.sframe_sections().unwrap_or_default() {
        let _ = section.index.map(|index| file.relocations(index).is_ok());
    }
    let _ = file.code_sections();
    let _ = file.as_elf().map(|elf| elf.eh_frame_hdr_size());
    let _ = file.symbols().map(|symbols| symbols.lookup(Address(0)).is_some());
    let _ = file.locate(Address(0x1_0000));
    let Some(file) = file.as_macho() else { return };
    let _ = file.function_starts().map(|starts| assert!(starts.len() <= bytes.len()));
    let _ = file.unwind_info_section();
    if let Ok(Some(compact)) = file.compact_unwind() {
        assert!(compact.rows.len() <= bytes.len() / 20);
    }
}

/// Embeds tables in the file, and removes them.
fn edit(file: &File<'_>, bytes: &[u8], placement: Placement) {
    let start = StartRelocation { offset: 28, section: 1, addend: 0 };
    if let Ok(rewrite) = embed_in_object(file, &[3; 40], &[start]) {
        let new = rewrite.to_vec(bytes);
        let again = File::parse_with(&new, placement).expect("an object still");
        let again = embed_in_object(&again, &[3; 40], &[start]).expect("a table is replaced");
        assert!(again.is_unchanged(&new), "a second time changes the object");
        // A damaged section may refer to the new section by a number that did not exist before.
        let _ = File::parse(&new).map(|file| without_sframe(&file).map(|_| ()));
    }
    for len in [100, 70_000] {
        if let Ok(embedding) = Embedding::of(file, len) {
            let rewrite = embedding.rewrite(vec![1; len]);
            assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
        }
    }
    if let Ok(Some(rewrite)) = without_sframe(file) {
        assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
    }
}

/// Changes all rows of `__compact_unwind`, and adds rows.
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
    for row in file
        .as_macho()
        .map_or(Ok(None), |macho| macho.compact_unwind())?
        .iter()
        .flat_map(|compact| &compact.rows)
    {
        edits.push(CompactUnwindEdit { row: Some(row.offset), ..edit(row.function) });
    }
    let new = editor.rewrite(&edits)?.to_vec(bytes);
    if check_compact_unwind_edit(bytes, bytes).is_ok() {
        check_compact_unwind_edit(bytes, &new).unwrap();
    }
    Ok(())
}
