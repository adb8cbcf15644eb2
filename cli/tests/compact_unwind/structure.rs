//! Checks with the `object` crate that two objects differ only in rows of `__compact_unwind`.

use object::macho::{self, MachHeader64};
use object::read::macho::{LoadCommandVariant, MachHeader as _, Section as _, Segment as _};
use object::{Endianness, LittleEndian};

const LE: LittleEndian = LittleEndian;

/// A part of an object and its bytes.
type Part = (String, Vec<u8>);

/// An object, taken apart for comparison.
#[derive(Default)]
struct Parts {
    /// Parts that must be the same in both objects.
    same: Vec<Part>,
    /// Sections: their names, and everything but their places in the file.
    sections: Vec<Part>,
    /// Rows of `__compact_unwind` with the relocations of each field, if any.
    rows: Vec<(Vec<u8>, [Option<u64>; 3])>,
}

/// Asserts that nothing differs but rows that were in DWARF mode, and new ones.
pub fn assert_same_but_rows(old: &[u8], new: &[u8], name: &str) {
    let (old, new) = (Parts::parse(old), Parts::parse(new));
    for (old, new) in old.same.iter().zip(&new.same) {
        assert_eq!(old.0, new.0, "{name}");
        assert!(old.1 == new.1, "{name}: {}: {:02x?}\n{:02x?}", old.0, old.1, new.1);
    }
    assert_eq!(old.same.len(), new.same.len(), "{name}");
    for (old, new) in old.sections.iter().zip(&new.sections) {
        assert_eq!(old.0, new.0, "{name}");
        assert!(old.1 == new.1, "{name}: section {}", old.0);
    }
    let added: Vec<_> = new.sections[old.sections.len()..].iter().map(|section| &section.0[..]).collect();
    assert!(matches!(added[..], [] | ["__compact_unwind"]), "{name}: {added:?}");
    assert!(new.rows.len() >= old.rows.len(), "{name}");
    for (at, ((old, old_leads), (new, new_leads))) in old.rows.iter().zip(&new.rows).enumerate() {
        let in_dwarf_mode = matches!(old[15] & 15, 3 | 4);
        if in_dwarf_mode && old != new {
            // Function and length must stay.
            assert_eq!((&old[..12], old_leads[0]), (&new[..12], new_leads[0]), "{name}: row {at}");
        } else {
            assert_eq!((old, old_leads), (new, new_leads), "{name}: row {at}");
        }
    }
    for (row, leads) in &new.rows {
        assert!(leads[0].is_some(), "{name}: a row leads to no function: {row:02x?}");
        assert_eq!(row[15] & 0x40 != 0, leads[2].is_some(), "{name}: flag and LSDA: {row:02x?}");
        assert_eq!(row[15] & 0x30, 0, "{name}: bits of the personality: {row:02x?}");
    }
}

fn range(bytes: &[u8], offset: u32, len: usize) -> Vec<u8> {
    bytes[offset as usize..offset as usize + len].to_vec()
}

impl Parts {
    fn parse(bytes: &[u8]) -> Self {
        let header = MachHeader64::<Endianness>::parse(bytes, 0).unwrap();
        let endian = header.endian().unwrap();
        assert_eq!(endian, Endianness::Little);
        let mut parts = Self::default();
        let fields = [header.cputype(endian).0, header.cpusubtype(endian).0, header.ncmds(endian)];
        let flags = [header.filetype(endian).0, header.flags(endian).0];
        let header_bytes = fields.iter().chain(&flags).flat_map(|field| field.to_le_bytes()).collect();
        parts.same.push(("header".to_owned(), header_bytes));
        let mut own = None;
        let mut commands = header.load_commands(endian, bytes, 0).unwrap();
        while let Some(command) = commands.next().unwrap() {
            let raw = command.raw_data();
            let mut push = |what: &str, offset: u32, len: usize| {
                let bytes = if len == 0 { Vec::new() } else { range(bytes, offset, len) };
                parts.same.push((format!("{:?}: {what}", command.cmd()), bytes));
            };
            match command.variant().unwrap() {
                LoadCommandVariant::Segment64(segment, data) => {
                    for (index, section) in segment.sections(endian, data).unwrap().iter().enumerate() {
                        let relocations =
                            range(bytes, section.reloff(endian), section.nreloc(endian) as usize * 8);
                        let contents = section.data(endian, bytes, section.offset(endian).into()).unwrap();
                        if section.name() == b"__compact_unwind" {
                            own = Some((index as u8 + 1, section.addr(endian)));
                            parts.rows = rows(contents, &relocations);
                            assert_eq!(section.addr(endian) % 8, 0);
                            assert!(section.addr(endian) + section.size(endian) <= segment.vmsize(endian));
                        }
                        let described = describe(endian, section, contents, &relocations);
                        parts
                            .sections
                            .push((String::from_utf8_lossy(section.name()).into_owned(), described));
                    }
                }
                LoadCommandVariant::Symtab(table) => {
                    let count = table.nsyms.get(endian) as usize;
                    push("strings", table.stroff.get(endian), table.strsize.get(endian) as usize);
                    push("symbols", table.symoff.get(endian), count * 16);
                }
                LoadCommandVariant::Dysymtab(table) => {
                    let numbers = raw[8..32].to_vec();
                    parts.same.push(("LC_DYSYMTAB: numbers".to_owned(), numbers));
                    let count = table.nindirectsyms.get(endian) as usize;
                    let indirect = match count {
                        0 => Vec::new(),
                        count => range(bytes, table.indirectsymoff.get(endian), count * 4),
                    };
                    parts.same.push(("LC_DYSYMTAB: indirect symbols".to_owned(), indirect));
                }
                LoadCommandVariant::LinkeditData(data) => {
                    push("data", data.dataoff.get(endian), data.datasize.get(endian) as usize);
                }
                _ => parts.same.push((format!("{:?}", command.cmd()), raw.to_vec())),
            }
        }
        parts.move_symbols(own);
        parts
    }

    /// Makes values of symbols in `__compact_unwind` relative to the section's start.
    fn move_symbols(&mut self, own: Option<(u8, u64)>) {
        let Some((index, address)) = own else { return };
        let symbols = self.same.iter_mut().find(|part| part.0.ends_with(": symbols"));
        for symbol in symbols.into_iter().flat_map(|part| part.1.chunks_exact_mut(16)) {
            if symbol[4] & 0x0e == 0x0e && symbol[5] == index {
                let value = u64::from_le_bytes(symbol[8..].try_into().unwrap());
                symbol[8..].copy_from_slice(&value.checked_sub(address).unwrap().to_le_bytes());
            }
        }
    }
}

/// Returns everything of a section that must stay. For `__compact_unwind` that is attributes and alignment.
fn describe(
    endian: Endianness,
    section: &macho::Section64<Endianness>,
    contents: &[u8],
    relocations: &[u8],
) -> Vec<u8> {
    let names = [&section.sectname[..], &section.segname[..]].concat();
    let attributes = [section.align(endian), section.flags(endian).0, section.reserved1(endian)];
    let attributes = attributes.iter().flat_map(|field| field.to_le_bytes()).collect();
    let mut parts = vec![names, attributes];
    if section.name() != b"__compact_unwind" {
        let place = [section.addr(endian), section.size(endian)];
        parts.push(place.iter().flat_map(|field| field.to_le_bytes()).collect());
        parts.extend([contents.to_vec(), relocations.to_vec()]);
    }
    parts.concat()
}

/// Returns the rows, with the relocations of function, personality and LSDA.
fn rows(contents: &[u8], relocations: &[u8]) -> Vec<(Vec<u8>, [Option<u64>; 3])> {
    assert_eq!(contents.len() % 32, 0);
    let mut rows: Vec<_> = contents.chunks_exact(32).map(|row| (row.to_vec(), [None; 3])).collect();
    let mut offsets = Vec::new();
    for relocation in relocations.chunks_exact(8) {
        let relocation: &macho::Relocation<LittleEndian> = object::pod::from_bytes(relocation).unwrap().0;
        let info = relocation.info(LE);
        let at = info.r_address as usize;
        offsets.push(at);
        assert_eq!((info.r_type.0, info.r_pcrel, info.r_length), (0, false, 3), "relocation of {at:#x}");
        let field = match at % 32 {
            0 => 0,
            16 => 1,
            24 => 2,
            other => panic!("a relocation of {other:#x} in a row"),
        };
        let target = u64::from(info.r_symbolnum) << 1 | u64::from(info.r_extern);
        assert_eq!(rows[at / 32].1[field].replace(target), None, "two relocations of {at:#x}");
    }
    let is_falling = offsets.is_sorted_by(|a, b| a > b);
    assert!(is_falling || offsets.is_sorted(), "order of relocations: {offsets:x?}");
    rows
}
