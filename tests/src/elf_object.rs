//! Reads a relocatable ELF object as a linker does: unrelocated sections, and the targets of relocations.

use std::ops::Range;

use cfipack_format::{Key, SectionOffset};
use cfipack_linker::sframe::{Field, Object};
use object::{Object as _, ObjectComdat};
use object::{ObjectSection, ObjectSymbol, RelocationTarget};

/// A place in a section of the object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The section's number in the object.
    pub section: usize,
    /// Bytes from its start.
    pub offset: u64,
}

/// An object, as a linker reads it.
#[derive(Clone, Debug, Default)]
pub struct ElfObject {
    /// Names of its sections, by number.
    pub names: Vec<String>,
    /// Sizes of its sections, by number.
    pub sizes: Vec<u64>,
    /// Signatures of its COMDAT groups, with the sections of each.
    pub comdats: Vec<(String, Vec<usize>)>,
    sframe: Option<Relocated>,
    eh_frame: Option<Relocated>,
}

/// A section with its relocations.
#[derive(Clone, Debug, Default)]
struct Relocated {
    bytes: Vec<u8>,
    /// Offset and target of each relocation, in order.
    relocations: Vec<(usize, Place)>,
}

impl ElfObject {
    /// Reads an object.
    pub fn parse(bytes: &[u8]) -> Self {
        let file = object::File::parse(bytes).expect("an object");
        let mut this = Self::default();
        for section in file.sections() {
            let number = section.index().0;
            this.names.resize(number + 1, String::new());
            this.sizes.resize(number + 1, 0);
            this.names[number] = section.name().unwrap().to_owned();
            this.sizes[number] = section.size();
        }
        let relocated = |name| {
            let section = file.section_by_name(name)?;
            let place = |(at, relocation): (u64, object::Relocation)| {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
                let symbol = file.symbol_by_index(symbol).unwrap();
                let offset = symbol.address().wrapping_add(relocation.addend() as u64);
                Some((at as usize, Place { section: symbol.section_index()?.0, offset }))
            };
            let mut relocations: Vec<_> = section.relocations().filter_map(place).collect();
            relocations.sort_by_key(|relocation| relocation.0);
            Some(Relocated { bytes: section.data().unwrap().to_vec(), relocations })
        };
        (this.sframe, this.eh_frame) = (relocated(".sframe"), relocated(".eh_frame"));
        for comdat in file.comdats() {
            let sections = comdat.sections().map(|section| section.0).collect();
            this.comdats.push((comdat.name().unwrap().to_owned(), sections));
        }
        this
    }

    /// Returns the bytes of `.sframe` and `.eh_frame`, for tests to damage.
    pub fn bytes_mut(&mut self) -> [Option<&mut Vec<u8>>; 2] {
        [&mut self.sframe, &mut self.eh_frame].map(|section| section.as_mut().map(|it| &mut it.bytes))
    }

    /// Returns the object as input for a merger.
    pub fn input(&self) -> Object<'_> {
        let object = self.sframe.iter().fold(Object::new(), |object, it| object.with_sframe(&it.bytes));
        self.eh_frame.iter().fold(object, |object, it| object.with_eh_frame(&it.bytes))
    }

    /// Returns the object without its CFI.
    pub fn table(&self) -> Object<'_> {
        self.sframe.iter().fold(Object::new(), |object, it| object.with_sframe(&it.bytes))
    }

    /// Returns the object without its table.
    pub fn cfi(&self) -> Object<'_> {
        self.eh_frame.iter().fold(Object::new(), |object, it| object.with_eh_frame(&it.bytes))
    }

    /// Finds targets for callers that ask for fields in ascending order.
    pub fn walk(&self) -> Walk<'_> {
        let relocations = |it: &'_ Option<Relocated>| it.as_ref().map_or(0..0, |it| 0..it.relocations.len());
        Walk { object: self, sframe: relocations(&self.sframe), eh_frame: relocations(&self.eh_frame) }
    }

    /// Returns the target of a field's relocation.
    pub fn target(&self, field: Field) -> Option<Place> {
        let (section, SectionOffset(at)) = match field {
            Field::Sframe(at) => (self.sframe.as_ref()?, at),
            Field::EhFrame(at) => (self.eh_frame.as_ref()?, at),
        };
        let found = section.relocations.binary_search_by_key(&at, |relocation| relocation.0).ok()?;
        Some(section.relocations[found].1)
    }
}

/// A walk along the relocations of an object, for fields in ascending order.
#[derive(Clone, Debug)]
pub struct Walk<'o> {
    object: &'o ElfObject,
    sframe: Range<usize>,
    eh_frame: Range<usize>,
}

impl Walk<'_> {
    /// Returns the target of a field's relocation.
    pub fn target(&mut self, field: Field) -> Option<Place> {
        let (section, SectionOffset(at), left) = match field {
            Field::Sframe(at) => (self.object.sframe.as_ref()?, at, &mut self.sframe),
            Field::EhFrame(at) => (self.object.eh_frame.as_ref()?, at, &mut self.eh_frame),
        };
        if section.relocations.get(left.start).is_none_or(|next| next.0 > at) {
            // The caller has started again at an earlier field.
            left.start = 0;
        }
        let relocations = &section.relocations[left.clone()];
        left.start += relocations.iter().position(|relocation| relocation.0 >= at)?;
        let found = section.relocations[left.start];
        (found.0 == at).then_some(found.1)
    }
}

impl Place {
    /// Returns a key made of the object's number, the section's number and the offset.
    pub fn key(self, object: usize) -> Key {
        assert!(self.offset < 1 << 28 && self.section < 1 << 20);
        Key((object as u64) << 48 | (self.section as u64) << 28 | self.offset)
    }

    /// Returns the object and the place of a key.
    pub fn from_key(key: Key) -> (usize, Self) {
        let section = (key.0 >> 28 & 0xf_ffff) as usize;
        ((key.0 >> 48) as usize, Self { section, offset: key.0 & 0xfff_ffff })
    }
}
