//! Reads the functions with CFI: their jumps, calls and addresses that lead into code without CFI. They show how the
//! code without CFI is entered, and where its functions may start.

use std::ops::Range;

use cfipack_code::{Code, Flow, Instructions, Jump};
use cfipack_format::{Address, Arch, Cfa};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Function, Functions};

use crate::FileMemory;

/// The ways from functions with CFI into code without CFI.
#[derive(Debug, Default)]
pub struct Into {
    /// Direct jumps, in the order of the functions and of their instructions.
    jumps: Vec<Place>,
    /// The targets of direct calls.
    pub calls: Vec<Address>,
    /// Addresses that instructions compute.
    pub addresses: Vec<Address>,
}

/// A direct jump in a function with CFI.
#[derive(Debug)]
struct Place {
    /// The index of the function.
    function: usize,
    pc: u64,
    target: Address,
}

impl Into {
    /// Finds the ways from functions with CFI into `code`, whose ranges have to be ascending, without overlap.
    pub fn find(
        arch: Arch,
        with_cfi: &Functions<'_>,
        memory: &FileMemory<'_>,
        code: &[Range<Address>],
    ) -> Self {
        let mut found = Self::default();
        if code.is_empty() {
            return found;
        }
        let is_inside = |target: Address| around(code, target).is_some();
        let mut instructions = Instructions::default();
        for (index, function) in with_cfi.as_slice().iter().enumerate() {
            let size = function.end.0 - function.start.0;
            let Some((bytes, relocated)) = memory.code(function.start, size) else { continue };
            instructions.decode(&Code { arch, start: function.start, bytes, relocated: &relocated });
            for instruction in instructions.iter() {
                match instruction.flow {
                    Flow::Call(Some(target)) if is_inside(target) => found.calls.push(target),
                    Flow::Jump(Some(target)) | Flow::Branch(Some(target), _) if is_inside(target) => {
                        let pc = function.start.0 + u64::from(instruction.offset);
                        found.jumps.push(Place { function: index, pc, target });
                    }
                    _ => {}
                }
            }
            let addresses = instructions.constants().map(|(_, value)| Address(value));
            found.addresses.extend(addresses.filter(|address| is_inside(*address)));
        }
        for targets in [&mut found.calls, &mut found.addresses] {
            targets.sort_unstable();
            targets.dedup();
        }
        found
    }

    /// Returns the direct jumps into `functions`, whose ranges have to be ascending, without overlap. At each jump, the
    /// CFI decides whether a frame is in place.
    pub fn jumps(&self, arch: Arch, with_cfi: &Functions<'_>, functions: &[Range<Address>]) -> Vec<Jump> {
        let mut evaluator = Evaluator::new(with_cfi);
        let mut all = Vec::new();
        for places in self.jumps.chunk_by(|one, next| one.function == next.function) {
            let into: Vec<_> =
                places.iter().filter(|place| around(functions, place.target).is_some()).collect();
            let Some(first) = into.first() else { continue };
            frames(arch, &mut evaluator, &with_cfi.as_slice()[first.function], &into, &mut all);
        }
        all
    }
}

/// Adds the jumps of a function to `all`.
fn frames(
    arch: Arch,
    evaluator: &mut Evaluator<'_>,
    function: &Function,
    places: &[&Place],
    all: &mut Vec<Jump>,
) {
    let entry = Cfa::Register { register: arch.stack_pointer(), offset: arch.cfa_offset_at_entry() };
    let first = all.len();
    // Without a row, we assume a frame. After an error, the remaining jumps keep their frame.
    all.extend(places.iter().map(|place| Jump { target: place.target, has_frame: true }));
    let _ = evaluator.evaluate(function, |range, answer, _| {
        let from = places.partition_point(|place| place.pc < range.start);
        let to = places.partition_point(|place| place.pc < range.end);
        let is_entry = matches!(answer, Answer::Row(row) if row.cfa == entry);
        all[first + from..first + to].iter_mut().for_each(|jump| jump.has_frame = !is_entry);
    });
}

/// Returns the range that contains an address.
fn around(ranges: &[Range<Address>], address: Address) -> Option<&Range<Address>> {
    let next = ranges.partition_point(|range| range.end <= address);
    ranges.get(next).filter(|range| range.start <= address)
}
