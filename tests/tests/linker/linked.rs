//! Reads what GNU `ld` made of some objects: the places of sections from its map, and its `.sframe`.

use std::collections::{HashMap, HashSet};

use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Field, Live, gnu_merge_order};
use cfipack_tests::elf_object::{ElfObject, Place};
use object::{Object, ObjectSection};

/// An input section that the linker kept.
struct Kept {
    object: usize,
    /// The number of the section in its object.
    section: usize,
    output: String,
    address: u64,
}

/// A link.
pub struct Linked<'o> {
    pub objects: &'o [ElfObject],
    /// The output section and address of each input section that is kept.
    places: HashMap<(usize, usize), (String, u64)>,
    /// The order in which tables are merged.
    pub order: Vec<usize>,
}

impl<'o> Linked<'o> {
    /// Reads the map and the output of a link. Its objects are called `0.o`, `1.o` and so on.
    pub fn new(objects: &'o [ElfObject], map: &str, output: &[u8]) -> Self {
        let losers = losers(objects);
        let (_, map) = map.split_once("Linker script and memory map").expect("a map");
        let mut used = HashSet::new();
        let mut kept: Vec<Kept> = Vec::new();
        let mut output_section = String::new();
        let mut alone = None;
        for line in map.lines() {
            let mut words: Vec<_> = line.split_whitespace().collect();
            if !line.starts_with(' ') {
                output_section = words.first().copied().unwrap_or_default().to_owned();
                continue;
            }
            // A long name is alone on its line. The rest of its line follows, with the layout of a symbol's line.
            match alone.take() {
                Some(name) => words.insert(0, name),
                None if line.starts_with("  ") => continue,
                None => {}
            }
            if let [name] = words[..] {
                // Lines with `*` are patterns of the script.
                alone = Some(name).filter(|name| !name.contains('*'));
                continue;
            }
            let [name, address, size, file] = words[..] else { continue };
            let (Some(address), Some(size)) = (number(address), number(size)) else { continue };
            let Some(object) = file.strip_suffix(".o").and_then(|file| file.parse::<usize>().ok()) else {
                continue;
            };
            let is_it = |&section: &usize| {
                let elf = &objects[object];
                let merged = name.starts_with(".note") || name == ".eh_frame" || name == ".sframe";
                elf.names[section] == name
                    && (merged || elf.sizes[section] == size)
                    && !losers.contains(&(object, section))
                    && !used.contains(&(object, section))
            };
            let Some(section) = (1..objects[object].names.len()).find(is_it) else { continue };
            used.insert((object, section));
            kept.push(Kept { object, section, output: output_section.clone(), address });
        }
        // The order of section headers.
        let file = object::File::parse(output).unwrap();
        let headers: HashMap<String, usize> = file
            .sections()
            .filter(|section| {
                section.kind() != object::SectionKind::Metadata || section.name() == Ok(".sframe")
            })
            .map(|section| (section.name().unwrap().to_owned(), section.index().0))
            .collect();
        let mut by_header: Vec<_> = kept.iter().filter(|kept| headers.contains_key(&kept.output)).collect();
        by_header.sort_by_key(|kept| headers[&kept.output]);
        let order = gnu_merge_order(objects.len(), by_header.iter().map(|kept| kept.object));
        let places =
            kept.into_iter().map(|kept| ((kept.object, kept.section), (kept.output, kept.address))).collect();
        Self { objects, places, order }
    }

    /// Returns the function of a field in an object, if it is live.
    pub fn live(&self, object: usize, field: Field) -> Option<Live> {
        let place = self.objects[object].target(field)?;
        self.places.contains_key(&(object, place.section)).then(|| place.key(object).into())
    }

    /// Returns the address of a function.
    pub fn address(&self, key: Key) -> Address {
        let (object, place) = Place::from_key(key);
        Address(self.places[&(object, place.section)].1 + place.offset)
    }

    /// Returns the output section of a function. For relocatable output it also returns the offset there.
    pub fn place(&self, key: Key) -> (&str, u64) {
        let (object, place) = Place::from_key(key);
        let (section, address) = &self.places[&(object, place.section)];
        (section, address + place.offset)
    }
}

/// Returns the sections of COMDAT groups that an earlier object has.
fn losers(objects: &[ElfObject]) -> HashSet<(usize, usize)> {
    let (mut seen, mut losers) = (HashSet::new(), HashSet::new());
    for (number, object) in objects.iter().enumerate() {
        for (signature, sections) in &object.comdats {
            if !seen.insert(signature) {
                losers.extend(sections.iter().map(|&section| (number, section)));
            }
        }
    }
    losers
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns bytes and address of a section.
pub fn section(file: &[u8], name: &str) -> (Vec<u8>, u64) {
    let file = object::File::parse(file).unwrap();
    let section = file.section_by_name(name);
    section.map_or((Vec::new(), 0), |section| (section.data().unwrap().to_vec(), section.address()))
}
