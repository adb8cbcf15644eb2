//! Does the work of the program's verbs on an input, as users of the library do it.

use std::fmt;

use cfipack_assembler::Directives;
use cfipack_assembler::region::{Pointers, Region};
use cfipack_assembler::registry::Registry;
use cfipack_cfi::{self as cfi, SectionKind};
use cfipack_container::{File, Placement};
use cfipack_container::{members, thin_members};
use cfipack_decoder::{sframe, unwind_info};
use cfipack_edit::{
    CompactUnwindEditor, EmbedError, Embedding, Rewrite, StartRelocation, embed_in_object,
    resize_thin_members, rewrite_members, without_sframe,
};
use cfipack_encoder::compact_unwind::{Encoder, Mode};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey};
use cfipack_linker::sframe::{Field, Merger, Object, Options as LinkOptions};
use cfipack_linker::unwind_info::{self as link, Addresses, Resolve};
use cfipack_roundtrip::structure::{check_compact_unwind_edit, check_structure};
use cfipack_roundtrip::unwind_info::{self as compact, Code, Image};
use cfipack_roundtrip::{KernelTable, Table, diff, kernel_verdict, stats, verify};

use super::Input;
use crate::convert::build;

const ARCH: Arch = Arch::Amd64;
/// The address of tables.
const TABLE: Address = Address(0x1000_0000);

impl Input {
    /// Reads, converts, verifies, compares and prints the input. Errors do not matter here.
    pub fn work(&self) {
        match self {
            Self::Cfi(bytes) => {
                cfi(&cfi::Section::new(SectionKind::EhFrame, bytes, Address(0x800_0000), ARCH));
                let objects = [Object::new().with_eh_frame(bytes)];
                merge_objects(&objects, LinkOptions::new());
            }
            Self::Tables([a, b]) => {
                tables(&all_tables(a), &all_tables(b));
                merge([a, b]);
            }
            Self::PageTable(bytes) => page_table(bytes),
            Self::MachObjects(objects) => mach_objects(objects),
            Self::Places(places) => regions(places),
            Self::Code(code) => code.work(),
            Self::Functions(functions) => functions.work(),
            Self::Link(objects) => super::links::work(objects),
            Self::File(bytes) => files(bytes),
        }
    }
}

/// Puts all functions into one region, and each into a region of its own in a registry.
fn regions(places: &[u64]) {
    let base = Address(0x7000_0000_0000);
    let mut directives = Directives::new(ARCH, 16);
    directives.at(4).def_cfa_offset(32);
    let length = places.iter().max().map_or(0, |last| last + 16);
    let mut all = Region::new(ARCH, base, length).expect("addresses");
    for &place in places {
        all.push("", place, &directives).expect("a free place");
    }
    let eh_frame = all.eh_frame(Pointers::Absolute).expect("a section");
    assert_eq!(eh_frame.fdes().len(), places.len());
    let (mut registry, mut one) = (Registry::new(ARCH), all);
    for &place in places {
        one.clear(Address(base.0 + place), 16).expect("addresses");
        one.push("", 0, &directives).expect("a free place");
        registry.add(&one, ()).expect("a free place");
    }
    for &place in places {
        registry.remove(Address(base.0 + place)).expect("it was added");
    }
}

fn cfi(section: &cfi::Section<'_>) {
    let sections = [*section];
    for layout in Layout::ALL {
        let options = Options::new().with_layout(layout);
        let (table, ..) = build(sections, ARCH, options);
        let mut bytes = vec![0; table.len()];
        if table.write(&mut bytes, TABLE, Key::address).is_ok() {
            let read = all_tables(&bytes);
            verify(&sections, &Table::new(&read), &cfipack_roundtrip::Options::default());
        }
    }
    let mut encoder = Encoder::new(ARCH).expect("a format has it");
    for function in cfipack_cfi::Functions::new(section).flatten() {
        let _ = encoder.encode(&function, None, Mode::Checked);
    }
    let code = Code::new([]);
    let empty = compact::Table::of_object(ARCH, Vec::new(), code);
    compact::verify(&sections, &empty, &cfipack_roundtrip::Options::default());
}

/// Returns the tables in a section, one after the other.
fn all_tables(bytes: &[u8]) -> Vec<sframe::Section<'_>> {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while let Some(zeros) = rest.iter().position(|&byte| byte != 0) {
        let Ok((table, behind)) = sframe::Section::parse_first(&rest[zeros..], TABLE) else { break };
        found.push(table);
        rest = behind;
    }
    found
}

fn tables(a: &[sframe::Section<'_>], b: &[sframe::Section<'_>]) {
    let options = cfipack_roundtrip::Options::default();
    let (table_a, table_b) = (Table::new(a), Table::new(b));
    diff(&table_a, &table_b, &options);
    verify(&[], &table_a, &options);
    for table in a {
        let _ = table.validate();
        stats(table);
        kernel_verdict(table, &KernelTable::Linked(None), options.limit);
        let _ = table.dump(&mut Nowhere, ".sframe");
        let mut memory = vec![0; sframe::Index::len_for(table)];
        let Ok(index) = sframe::Index::build(table, &mut memory) else { continue };
        // If functions have no code, a lookup may read all of them, so we look up only a few.
        for function in table.functions().flatten().take(64) {
            let _ = index.lookup(function.start());
        }
    }
}

/// Merges sections of objects as a linker does, then the tables in them as if each came from an object.
fn merge(sections: [&[u8]; 2]) {
    let mut objects = sections.map(|bytes| Object::new().with_sframe(bytes)).to_vec();
    for mut rest in sections {
        while let Some(zeros) = rest.iter().position(|&byte| byte != 0) {
            let Ok((_, behind)) = sframe::Section::parse_first(&rest[zeros..], TABLE) else { break };
            objects.push(Object::new().with_sframe(&rest[zeros..rest.len() - behind.len()]));
            rest = behind;
        }
    }
    for version in [Version::V3, Version::V2] {
        for layout in Layout::ALL {
            let mut options = LinkOptions::new();
            (options.table.version, options.table.layout) = (version, layout);
            merge_objects(&objects, options);
        }
    }
}

fn merge_objects(objects: &[Object<'_>], options: LinkOptions) {
    let mut merger = Merger::new(ARCH, options).expect("an architecture of the format");
    for (number, object) in objects.iter().enumerate() {
        let live = |field| match field {
            Field::Sframe(at) | Field::EhFrame(at) => Some(Key((number as u64) << 32 | at.0 as u64).into()),
        };
        merger.push_object(object, live, |_| ());
    }
    let section = merger.finish();
    let mut bytes = vec![0; section.len()];
    let _ = section.write(&mut bytes, TABLE, Key::address);
    let _ = section.write_relocatable(&mut bytes);
    section.relocations().for_each(drop);
}

/// Every pointer leads to the place that its field states. There are at least four personalities.
struct Fields(u32);

impl Resolve for Fields {
    fn function(&mut self, field: link::Field) -> Option<Key> {
        Some(Key(u64::from(self.0) << 32 | field.target?.0))
    }

    fn personality(&mut self, field: link::Field) -> Option<PersonalityKey> {
        field.target.map(|target| PersonalityKey(target.0))
    }

    fn lsda(&mut self, field: link::Field) -> Option<LsdaKey> {
        LsdaKey::new(field.target?.0)
    }
}

/// Functions are in the order of their keys. LSDAs have no place, and FDEs only in every second object.
struct Ranks;

impl Addresses for Ranks {
    fn function(&self, key: Key) -> Option<ImageOffset> {
        Some(ImageOffset((key.0 >> 32) as u32 * 0x400 + key.0 as u32))
    }

    fn lsda(&self, _: LsdaKey) -> Option<ImageOffset> {
        None
    }

    fn fde(&self, fde: link::Fde) -> Option<u32> {
        (fde.object.is_multiple_of(2)).then_some(fde.object * 64)
    }
}

/// Links the sections `__compact_unwind` and `__eh_frame` of objects as a linker does.
fn mach_objects(objects: &[[Vec<u8>; 2]]) {
    for layout in [cfipack_encoder::unwind_info::Layout::Small, cfipack_encoder::unwind_info::Layout::Lld] {
        let options = cfipack_encoder::unwind_info::Options::new().with_layout(layout);
        let mut builder = link::Builder::new(ARCH, options).expect("an architecture of the format");
        for ([rows, eh_frame], number) in objects.iter().zip(0..) {
            let input =
                link::Input::new(number).with_compact_unwind(rows).with_eh_frame(eh_frame, Address(0));
            builder.push(&input, &mut Fields(number));
        }
        let section = builder.finish();
        let Ok(plan) = section.plan(|key| Ranks.function(key), 0) else { continue };
        let Ok(table) = section.place(Some(&plan), None, &Ranks) else { continue };
        let mut out = vec![0; table.len()];
        let _ = table.write(&mut out, |_| ImageOffset(8));
    }
}

fn page_table(bytes: &[u8]) {
    let Ok(section) = unwind_info::Section::parse(bytes) else { return };
    let code = Code::new([]);
    let image = Image::new(ARCH, Address(0), &code, &[]);
    compact::violations(&section, &image);
    let options = cfipack_roundtrip::Options::default();
    let table = compact::Table::of_image(ARCH, Address(0), &section, code.clone());
    compact::verify(&[], &table, &options);
    compact::diff(&table, &table, &options);
    compact::stats(ARCH, &section);
    let _ = section.dump(&mut Nowhere);
    for entry in section.entries().flatten() {
        let _ = section.lookup(entry.start);
    }
}

fn files(bytes: &[u8]) {
    let _ = rewrite_members(bytes, |member| {
        let mut rewrite = Rewrite::unchanged(member.bytes.len());
        rewrite.bytes("more", &b"abc"[..]);
        Ok::<_, EmbedError>(Some(rewrite))
    });
    let _ = check_structure(bytes, bytes);
    let _ = check_compact_unwind_edit(bytes, bytes);
    let _ = thin_members(bytes).map(|members| members.map(|members| members.len()));
    let _ = resize_thin_members(bytes, |member| Ok::<_, EmbedError>(member.size + 1));
    let Ok(members) = members(bytes) else { return };
    for member in members.flatten() {
        for placement in [Placement::Zero, Placement::Apart] {
            let Ok(file) = File::parse_with(member.bytes, placement) else { continue };
            file_of(&file);
        }
    }
}

fn file_of(file: &File<'_>) {
    let symbols = file.symbols();
    for section in file.call_frame_sections().into_iter().flatten() {
        for function in cfipack_cfi::Functions::new(&section.cfi()).flatten() {
            file.locate(function.key.address());
            symbols.as_ref().ok().and_then(|symbols| symbols.lookup(function.key.address()));
        }
    }
    let _ = file.as_macho().map(|macho| macho.compact_unwind());
    if let Ok(Some(editor)) = CompactUnwindEditor::of(file) {
        (0..1 << 20).map_while(|index| editor.symbol_name(index)).for_each(drop);
    }
    for section in file.code_sections().into_iter().flatten() {
        file.locate(section.address);
        section.index.map(|index| file.relocations(index));
    }
    let _ = file.sframe_sections();
    let _ = file.as_elf().map(|elf| elf.eh_frame_hdr_size());
    let start = StartRelocation { offset: 28, section: 1, addend: 0 };
    let _ = embed_in_object(file, &[3; 40], &[start]);
    for len in [8, 1000] {
        if let Ok(embedding) = Embedding::of(file, len) {
            let _ = embedding.rewrite(vec![1; len]);
        }
    }
    let _ = without_sframe(file);
}

/// Accepts text and discards it.
struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}
