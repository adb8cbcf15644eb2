//! Offsets to what was gathered.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use cfipack_format::widen::ToUsize;

use super::collect::{Collector, OpenFunction};
use super::diagnostic::Diagnostics;
use super::{Format, Function, Label, Problem, Unit};
use crate::Directives;

impl<'t> Collector<'t> {
    /// The unit, if nothing is wrong. `bases` has the offset of each place in its section.
    pub(super) fn finish(mut self, text: &'t [u8], bases: &[u64]) -> Result<Unit, Diagnostics<'t>> {
        let open: Vec<_> = self.places.iter().filter_map(|place| place.open).collect();
        for function in open {
            let span = self.functions[function].span;
            self.fault(span, Problem::OpenAtEnd);
        }
        let mut points = core::mem::take(&mut self.points);
        for (place, offset) in &mut points {
            *offset += bases.get(*place).copied().unwrap_or(0);
        }
        let names = self.names();
        let mut functions = Vec::with_capacity(self.functions.len());
        let (mut line, mut at) = (1, 0);
        for function in core::mem::take(&mut self.functions) {
            let start = function.span.start.to_usize().min(text.len());
            line += text[at..start].iter().filter(|&&byte| byte == b'\n').count() as u32;
            at = start;
            let name = names.get(&function.start).map(|name| String::from_utf8_lossy(name).into_owned());
            let section = self.sections.places[function.place].0;
            let offset = points[function.start.to_usize()].1;
            let directives = self.directives(&function, &points);
            functions.push(Function { name, section, offset, line, directives });
        }
        if !self.faults.is_empty() {
            return Err(Diagnostics::new(text, self.faults));
        }
        let named: BTreeSet<&[u8]> = self.symbols.iter().map(String::as_bytes).collect();
        let is_kept = |name: &[u8]| !is_local(name, self.format) || named.contains(name);
        let labels = self.labels.iter().filter(|label| is_kept(label.name)).map(|label| {
            let (place, offset) = points[label.point.to_usize()];
            Label {
                name: String::from_utf8_lossy(label.name).into_owned(),
                section: self.sections.places[place].0,
                offset,
                is_global: self.globals.contains(label.name),
                is_own: self.globals.contains(label.name) && self.hidden.contains(label.name),
            }
        });
        Ok(Unit {
            arch: self.arch,
            format: self.format,
            functions,
            labels: labels.collect(),
            symbols: self.symbols,
            cfi_sections: self.cfi_sections,
            has_odd_sizes: self.has_odd_sizes,
            warnings: Diagnostics::new(text, self.warnings).into_list(),
            sections: self.sections.list,
        })
    }

    /// The best label at each point: one that other objects see, else one of the object's symbols.
    fn names(&self) -> BTreeMap<u32, &'t [u8]> {
        let rank = |name: &[u8]| {
            if self.globals.contains(name) { 2 } else { u8::from(!is_local(name, self.format)) }
        };
        let starts: BTreeSet<_> = self.functions.iter().map(|function| function.start).collect();
        let mut names = BTreeMap::new();
        for label in self.labels.iter().filter(|label| starts.contains(&label.point)) {
            let name = names.entry(label.point).or_insert(label.name);
            if rank(label.name) > rank(name) {
                *name = label.name;
            }
        }
        names
    }

    fn directives(&mut self, function: &OpenFunction, points: &[(usize, u64)]) -> Directives {
        let offset_of = |point: u32| points[point.to_usize()].1;
        let start = offset_of(function.start);
        let size = function.end.map_or(u64::MAX >> 1, |end| offset_of(end).saturating_sub(start));
        let mut directives = Directives::new(self.arch, size).with_simple(function.is_simple);
        for placed in &function.operations {
            let offset = offset_of(placed.point).saturating_sub(start);
            if placed.is_aligned {
                directives.at_aligned(offset);
            } else {
                directives.at(offset);
            }
            placed.operation.put(&mut directives);
        }
        for error in directives.errors() {
            let span = function.operations.get(error.directive).map_or(function.span, |placed| placed.span);
            self.faults.push((span, Problem::Misuse(error.misuse)));
        }
        directives
    }
}

/// Returns whether an assembler keeps a label out of the object's symbols.
fn is_local(name: &[u8], format: Format) -> bool {
    match format {
        Format::Elf => name.starts_with(b".L"),
        Format::MachO => name.starts_with(b"L"),
    }
}
