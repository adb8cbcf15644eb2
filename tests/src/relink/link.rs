//! Models a link: which section of which object is where, and in which order `ld` merges tables.

use std::collections::{HashMap, HashSet};

use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Live, gnu_merge_order};

use super::map::{Map, Output};
use super::object::{Object, Section};
use super::output::{Header, Linked};

/// The input sections that are in the output.
#[derive(Debug)]
pub struct Link<'o> {
    objects: &'o [Object],
    placed: Vec<Placed<'o>>,
    /// Indexes in `placed`, by object and section.
    numbers: HashMap<(usize, usize), usize>,
    /// The objects, in the order in which `ld` merges tables.
    pub order: Vec<usize>,
}

#[derive(Debug)]
struct Placed<'o> {
    object: &'o Object,
    section: usize,
    address: u64,
    /// The number of the output section header.
    header: Option<usize>,
    /// The address of the output section.
    base: u64,
}

impl<'o> Link<'o> {
    /// Finds the sections. `objects` are in the order of the link.
    pub fn new(map: &Map, objects: &'o [Object], linked: &Linked<'_>) -> Self {
        let mut of_name: HashMap<(&str, &str), Vec<(usize, usize)>> = HashMap::new();
        for (number, object) in objects.iter().enumerate() {
            for (section, Section { name, .. }) in object.sections.iter().enumerate() {
                of_name.entry((&object.file, name)).or_default().push((number, section));
            }
        }
        let losers = losers(objects);
        let headers = headers(map, linked);
        let (mut placed, mut numbers, mut kept) = (Vec::new(), HashMap::new(), Vec::new());
        for input in &map.placed {
            let candidates = of_name.get(&(input.file.as_str(), input.name.as_str())).into_iter().flatten();
            let header = headers.get(input.output).copied().flatten();
            let free = candidates
                .copied()
                .filter(|place| !losers.contains(place) && !numbers.contains_key(place))
                .map(|(object, section)| (object, section, &objects[object].sections[section]))
                .filter(|(.., section)| section.size == input.size || section.can_shrink);
            // Takes the first section with the size and the symbols, which is in a group if its output section is.
            let misfit = |(.., section): &(usize, usize, &Section)| {
                let has_symbols = input.symbols.iter().all(|symbol| section.symbols.contains(symbol));
                let is_grouped = header.is_some_and(|header| header.is_grouped);
                let is_outside = linked.is_relocatable && section.is_grouped != is_grouped;
                (section.size != input.size, is_outside, !has_symbols)
            };
            let Some((object, section, _)) = free.min_by_key(misfit) else { continue };
            let base = header.map_or(0, |header| header.address.0);
            let header = header.map(|header| header.number);
            numbers.insert((object, section), placed.len());
            placed.push(Placed { object: &objects[object], section, address: input.address, header, base });
            kept.extend(header.map(|header| (header, object)));
        }
        // Sorts by section headers. In relocatable output their order differs from the map's.
        kept.sort_by_key(|&(header, _)| header);
        let order = gnu_merge_order(objects.len(), kept.into_iter().map(|(_, object)| object));
        Self { objects, placed, numbers, order }
    }

    /// Returns the function of a field in an object's table, if it is in the output. Its key is made of the input
    /// section's number and the offset in the section.
    pub fn live(&self, object: usize, field: usize) -> Option<Live> {
        let (section, offset) = self.objects[object].target(field)?;
        let number = *self.numbers.get(&(object, section))?;
        Some(Key((number as u64) << 32 | offset & 0xffff_ffff).into())
    }

    /// Returns a key for stubs, which no object has.
    pub fn key_of_stubs(&self, number: usize) -> Key {
        Key(((self.placed.len() + number) as u64) << 32)
    }

    /// Returns the address of a function, or `None` for stubs.
    pub fn address(&self, key: Key) -> Option<Address> {
        Some(Address(self.placed.get((key.0 >> 32) as usize)?.address.wrapping_add(key.0 & 0xffff_ffff)))
    }

    /// Returns the number of the function's output section header. For relocatable output it also returns the offset there.
    pub fn place(&self, key: Key) -> Option<(usize, u64)> {
        let placed = self.placed.get((key.0 >> 32) as usize)?;
        Some((placed.header?, self.address(key)?.0.wrapping_sub(placed.base)))
    }

    /// Returns a function's name as `FILE(SECTION)+OFFSET`.
    pub fn name(&self, key: Key) -> String {
        let Some(placed) = self.placed.get((key.0 >> 32) as usize) else { return "stubs".to_owned() };
        let section = &placed.object.sections[placed.section].name;
        format!("{}({section})+{:#x}", placed.object.file, key.0 & 0xffff_ffff)
    }

    /// Returns the name of the function at an address, as `FILE(SECTION)+OFFSET`.
    pub fn name_at(&self, address: Address) -> Option<String> {
        let holds = |placed: &&Placed<'_>| {
            let size = placed.object.sections[placed.section].size;
            placed.header.is_some() && (placed.address..placed.address + size).contains(&address.0)
        };
        let placed = self.placed.iter().find(holds)?;
        let section = &placed.object.sections[placed.section].name;
        Some(format!("{}({section})+{:#x}", placed.object.file, address.0 - placed.address))
    }
}

/// Returns the header of each output section in the map. If several have the same name, it takes the next with the same
/// size.
fn headers<'l>(map: &Map, linked: &'l Linked<'_>) -> Vec<Option<&'l Header<'l>>> {
    let mut used = HashSet::new();
    let header = |output: &Output| {
        let is_free = |header: &&Header<'_>| {
            header.name == output.name && !header.is_group && !used.contains(&header.number)
        };
        let mut free = linked.sections.iter().filter(is_free);
        let of_size = free.clone().find(|header| header.size == output.size);
        let header = of_size.or_else(|| free.next())?;
        used.insert(header.number);
        Some(header)
    };
    map.outputs.iter().map(header).collect()
}

/// Returns sections of COMDAT groups that an earlier object has. The map does not distinguish them from sections of the
/// same object with equal names and sizes.
fn losers(objects: &[Object]) -> HashSet<(usize, usize)> {
    let (mut seen, mut losers) = (HashSet::new(), HashSet::new());
    for (number, object) in objects.iter().enumerate() {
        for (signature, sections) in &object.comdats {
            if !seen.insert(signature) {
                losers.extend(sections.iter().map(|&section| (number, section)));
            }
        }
        let once = object.sections.iter().enumerate();
        for (section, Section { name, .. }) in once.filter(|(_, it)| it.name.starts_with(".gnu.linkonce.")) {
            if !seen.insert(name) {
                losers.insert((number, section));
            }
        }
    }
    losers
}
