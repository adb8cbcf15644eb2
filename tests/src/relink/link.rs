//! A model of the link: which section of which object is where, and in which order `ld` merges their tables.

use std::collections::{HashMap, HashSet};

use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Live, gnu_merge_order};

use super::map::{Map, Output};
use super::object::{Object, Section};
use super::output::{Header, Linked};

/// Input sections that are in the output.
#[derive(Debug)]
pub struct Link<'o> {
    objects: &'o [Object],
    placed: Vec<Placed<'o>>,
    /// The number in `placed` of a section of an object.
    numbers: HashMap<(usize, usize), usize>,
    /// Objects in the order in which `ld` merges their tables.
    pub order: Vec<usize>,
}

#[derive(Debug)]
struct Placed<'o> {
    object: &'o Object,
    section: usize,
    address: u64,
    /// The number of the output section's header.
    header: Option<usize>,
    /// The address of the output section.
    base: u64,
}

impl<'o> Link<'o> {
    /// `objects` are in the order of the link.
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
            // Of several the first that has the size and the symbols, and is in a group as its output is.
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
        // The order of headers, which in relocatable output is not that of the map.
        kept.sort_by_key(|&(header, _)| header);
        let order = gnu_merge_order(objects.len(), kept.into_iter().map(|(_, object)| object));
        Self { objects, placed, numbers, order }
    }

    /// The function that a field of an object's table leads to, if it is in the output. Its key has the number of the
    /// input section, and the offset in that.
    pub fn live(&self, object: usize, field: usize) -> Option<Live> {
        let (section, offset) = self.objects[object].target(field)?;
        let number = *self.numbers.get(&(object, section))?;
        Some(Key((number as u64) << 32 | offset & 0xffff_ffff).into())
    }

    /// The key of something that is not part of an object.
    pub fn key_of_stubs(&self, number: usize) -> Key {
        Key(((self.placed.len() + number) as u64) << 32)
    }

    /// The address of a function; `None` of what is not part of an object.
    pub fn address(&self, key: Key) -> Option<Address> {
        Some(Address(self.placed.get((key.0 >> 32) as usize)?.address.wrapping_add(key.0 & 0xffff_ffff)))
    }

    /// The number of the output section's header that a function is in, and the offset there in relocatable output.
    pub fn place(&self, key: Key) -> Option<(usize, u64)> {
        let placed = self.placed.get((key.0 >> 32) as usize)?;
        Some((placed.header?, self.address(key)?.0.wrapping_sub(placed.base)))
    }

    /// A function as `FILE(SECTION)+OFFSET`.
    pub fn name(&self, key: Key) -> String {
        let Some(placed) = self.placed.get((key.0 >> 32) as usize) else { return "stubs".to_owned() };
        let section = &placed.object.sections[placed.section].name;
        format!("{}({section})+{:#x}", placed.object.file, key.0 & 0xffff_ffff)
    }

    /// The function at an address, as `FILE(SECTION)+OFFSET`.
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

/// The number of the header of each output section of the map. Of several with one name, the next with its size.
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

/// Sections of COMDAT groups that an earlier object has; the map does not tell them from others of the same object with
/// equal names and sizes.
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
