//! Sections and subsections: which one a statement stands in.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::operands::{Fault, Operands};
use super::statement::name;
use super::{Format, Problem, Section, diagnostic::Span};

/// A section, or a subsection of it: statements of one place follow each other in the object.
pub(super) type PlaceId = usize;

/// Name, group and number of a section.
type Identity<'t> = (&'t [u8], &'t [u8], &'t [u8]);

/// The sections of a text.
#[derive(Debug)]
pub(super) struct Sections<'t> {
    format: Format,
    pub(super) list: Vec<Section>,
    by_identity: BTreeMap<Identity<'t>, usize>,
    /// The group of each section.
    groups: Vec<&'t [u8]>,
    /// The section and the subsection of each place.
    pub(super) places: Vec<(usize, i64)>,
    by_subsection: BTreeMap<(usize, i64), PlaceId>,
    current: PlaceId,
    previous: Option<PlaceId>,
    pushed: Vec<(PlaceId, Option<PlaceId>)>,
}

impl<'t> Sections<'t> {
    pub(super) fn new(format: Format) -> Self {
        let mut sections = Self {
            format,
            list: Vec::new(),
            by_identity: BTreeMap::new(),
            groups: Vec::new(),
            places: Vec::new(),
            by_subsection: BTreeMap::new(),
            current: 0,
            previous: None,
            pushed: Vec::new(),
        };
        let text = if format == Format::Elf { b".text" as &[u8] } else { b"__TEXT,__text" };
        sections.current = sections.place((text, b"", b""), 0);
        sections
    }

    /// The place at which statements stand now.
    pub(super) fn current(&self) -> PlaceId {
        self.current
    }

    fn place(&mut self, identity: Identity<'t>, subsection: i64) -> PlaceId {
        let (list, groups) = (&mut self.list, &mut self.groups);
        let section = *self.by_identity.entry(identity).or_insert_with(|| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| text(bytes));
            let (name, group, unique) = identity;
            groups.push(group);
            list.push(Section { name: text(name), group: some(group), unique: some(unique) });
            list.len() - 1
        });
        self.subsection(section, subsection)
    }

    fn subsection(&mut self, section: usize, subsection: i64) -> PlaceId {
        let places = &mut self.places;
        *self.by_subsection.entry((section, subsection)).or_insert_with(|| {
            places.push((section, subsection));
            places.len() - 1
        })
    }

    fn enter(&mut self, place: PlaceId) {
        self.previous = Some(self.current);
        self.current = place;
    }

    /// Obeys a directive if it is about sections; returns whether it is.
    pub(super) fn obey(
        &mut self,
        directive: &[u8],
        span: Span,
        operands: &mut Operands<'t, '_>,
    ) -> Option<Result<(), Fault>> {
        Some(match directive {
            b".section" | b".pushsection" => {
                let pushed = (self.current, self.previous);
                let is_push = directive == b".pushsection";
                self.section(is_push, span, operands).map(|()| {
                    if is_push {
                        self.pushed.push(pushed)
                    }
                })
            }
            b".text" | b".data" | b".bss" if self.format == Format::Elf => {
                self.optional_number(operands).map(|subsection| {
                    let name: &[u8] = match directive {
                        b".text" => b".text",
                        b".data" => b".data",
                        _ => b".bss",
                    };
                    let place = self.place((name, b"", b""), subsection);
                    self.enter(place);
                })
            }
            b".subsection" => operands.number().map(|subsection| {
                let place = self.subsection(self.places[self.current].0, subsection);
                self.enter(place);
            }),
            b".previous" => match self.previous {
                Some(previous) => {
                    self.enter(previous);
                    Ok(())
                }
                None => Err((span, Problem::NoSection)),
            },
            b".popsection" => match self.pushed.pop() {
                Some((current, previous)) => {
                    (self.current, self.previous) = (current, previous);
                    Ok(())
                }
                None => Err((span, Problem::NoSection)),
            },
            _ if self.format == Format::MachO => {
                let name = mach_o_section(directive)?;
                let place = self.place((name, b"", b""), 0);
                self.enter(place);
                Ok(())
            }
            _ => return None,
        })
    }

    fn optional_number(&self, operands: &mut Operands<'t, '_>) -> Result<i64, Fault> {
        if operands.is_at_end() { Ok(0) } else { operands.number() }
    }

    /// `.section NAME[,"flags"[,@type[,entsize][,GROUP[,comdat]][,unique,N]]]`; `.pushsection` may have a subsection after
    /// the name.
    fn section(&mut self, is_push: bool, span: Span, operands: &mut Operands<'t, '_>) -> Result<(), Fault> {
        if self.format == Format::MachO {
            return self.mach_o(span, operands);
        }
        let first = operands.raw();
        let section = match name(first) {
            Some((quoted, _)) if first.starts_with(b"\"") => quoted,
            _ => first,
        };
        if section.is_empty() {
            return Err((span, Problem::MissingOperand));
        }
        let mut subsection = 0;
        let mut has_next = operands.comma();
        if is_push && has_next && operands.peek() != Some(b'"') {
            subsection = operands.number()?;
            has_next = operands.comma();
        }
        let (mut group, mut unique): (&[u8], &[u8]) = (b"", b"");
        if has_next {
            let flags = operands.raw();
            if operands.comma() {
                // A type, which starts with @ or %.
                let mut next = if matches!(operands.peek(), Some(b'@' | b'%')) {
                    operands.raw();
                    operands.comma()
                } else {
                    true
                };
                for flag in [b'M', b'o'] {
                    if next && flags.contains(&flag) {
                        operands.raw();
                        next = operands.comma();
                    }
                }
                if next && flags.contains(&b'G') {
                    group = operands.raw();
                    next = operands.comma();
                }
                while next {
                    if operands.raw() == b"unique" && operands.comma() {
                        unique = operands.raw();
                    }
                    next = operands.comma();
                }
            }
            if flags.contains(&b'?') {
                group = self.groups[self.places[self.current].0];
            }
        }
        let place = self.place((section, group, unique), subsection);
        self.enter(place);
        Ok(())
    }

    /// `.section SEGMENT,SECTION[,type ...]`
    fn mach_o(&mut self, span: Span, operands: &mut Operands<'t, '_>) -> Result<(), Fault> {
        let rest = operands.rest();
        let segment = operands.raw();
        if !operands.comma() {
            return Err((span, Problem::MissingOperand));
        }
        operands.raw();
        let length = rest.len() - operands.rest().len();
        // Segment and section as one name, the space around their comma included.
        let name = if rest[..segment.len() + 1].ends_with(b",") { &rest[..length] } else { segment };
        let place = self.place((name.trim_ascii_end(), b"", b""), 0);
        self.enter(place);
        Ok(())
    }
}

/// The section that a directive of Mach-O assemblers names.
fn mach_o_section(directive: &[u8]) -> Option<&'static [u8]> {
    Some(match directive {
        b".text" => b"__TEXT,__text",
        b".const" => b"__TEXT,__const",
        b".cstring" => b"__TEXT,__cstring",
        b".literal4" => b"__TEXT,__literal4",
        b".literal8" => b"__TEXT,__literal8",
        b".literal16" => b"__TEXT,__literal16",
        b".data" => b"__DATA,__data",
        b".const_data" => b"__DATA,__const",
        b".static_data" => b"__DATA,__static_data",
        _ => return None,
    })
}
