//! Reads what GNU `ld` made of some objects: the places of sections from its map.

use std::collections::{HashMap, HashSet};

use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Field, Live};
use cfipack_tests::elf_object::{ElfObject, Place};
use object::{Object, ObjectSection};

/// A link.
pub struct Linked<'o> {
    pub objects: &'o [ElfObject],
    /// The address of each input section that is kept, by object and number in the object.
    places: HashMap<(usize, usize), u64>,
}

impl<'o> Linked<'o> {
    /// Reads the map of a link. Its objects are called `0.o`, `1.o` and so on.
    pub fn new(objects: &'o [ElfObject], map: &str) -> Self {
        let losers = losers(objects);
        let (_, map) = map.split_once("Linker script and memory map").expect("a map");
        let mut places: HashMap<(usize, usize), u64> = HashMap::new();
        let mut alone = None;
        for line in map.lines() {
            let mut words: Vec<_> = line.split_whitespace().collect();
            if !line.starts_with(' ') {
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
                    && !places.contains_key(&(object, section))
            };
            let Some(section) = (1..objects[object].names.len()).find(is_it) else { continue };
            places.insert((object, section), address);
        }
        Self { objects, places }
    }

    /// Returns the function of a field in an object, if it is live.
    pub fn live(&self, object: usize, field: Field) -> Option<Live> {
        let place = self.objects[object].target(field)?;
        self.places.contains_key(&(object, place.section)).then(|| place.key(object).into())
    }

    /// Returns the address of a function.
    pub fn address(&self, key: Key) -> Address {
        let (object, place) = Place::from_key(key);
        Address(self.places[&(object, place.section)] + place.offset)
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
