//! Prints stacks for flame-graph tools: `command;outermost;...;innermost count`, one line for equal stacks.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use cfipack_decoder::walk::{FoundBy, StackFrame};
use cfipack_format::Address;

use super::recording::Sample;
use super::walk::{End, Space};

/// Equal stacks, counted.
#[derive(Default)]
pub struct Folded {
    stacks: BTreeMap<String, usize>,
    /// Names, by file and address.
    names: HashMap<(*const u8, u64), String>,
}

impl Folded {
    /// Adds the stack of a sample. If it does not reach the outermost frame, the line starts with the reason in
    /// brackets. A frame that was found by a frame pointer ends with `_[fp]`.
    pub fn add(&mut self, sample: &Sample, space: &Space<'_, '_>, frames: &[StackFrame], end: &End) {
        let mut line = escaped(&sample.command);
        if *end != End::Outermost {
            line += &format!(";[{end}]");
        }
        for frame in frames.iter().rev() {
            line.push(';');
            line += self.name_at(space, frame.lookup_address());
            if frame.found_by == FoundBy::FramePointer {
                line += "_[fp]";
            }
        }
        if sample.in_kernel {
            line += ";[kernel]";
        }
        *self.stacks.entry(line).or_default() += 1;
    }

    /// Writes the lines.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.stacks.iter().try_for_each(|(stack, count)| writeln!(out, "{stack} {count}"))
    }

    fn name_at(&mut self, space: &Space<'_, '_>, address: Address) -> &str {
        let Some((image, address)) = space.find(address) else { return "[no file]" };
        let name = self.names.entry((image.path.as_ptr(), address));
        name.or_insert_with(|| escaped(&image.name_at(address)))
    }
}

/// Replaces the characters that would end a frame or a line.
fn escaped(name: &str) -> String {
    name.replace(';', ":").replace('\n', " ")
}
