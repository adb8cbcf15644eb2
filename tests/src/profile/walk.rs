//! Knows what is mapped where, and walks a stack with any way to find callers, by CFI or by table.

use std::fmt;

use cfipack_decoder::walk::{self, AddressSpace as _, FoundBy, Module, Modules, StackFrame};
use cfipack_format::{Address, Arch};

use super::file::Image;
use super::recording::{SP, Sample};

/// The most frames of a walk.
pub const DEPTH: usize = 1000;

/// A process's mappings with their images.
pub struct Space<'i, 'f> {
    mappings: Vec<Placed<'i, 'f>>,
    /// The same mappings for walks by table: everything that was mapped, with the images' tables.
    pub modules: Modules<Vec<Module<'f, 'i>>>,
}

/// A mapping of an image.
struct Placed<'i, 'f> {
    start: u64,
    end: u64,
    /// The distance from an address in the file to its place in memory.
    bias: u64,
    image: &'i Image<'f>,
}

/// A frame's caller, and the registers that the next step needs.
pub struct Step<R> {
    /// The caller.
    pub frame: StackFrame,
    /// Its registers.
    pub registers: R,
}

/// Why a walk ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// The frame is outermost: by its row, because stacks start in its function, or because its PC is 0.
    Outermost,
    /// The next step needs bytes of the stack that were not recorded.
    Stack,
    /// The code is in no file (it was generated) or mapping, or the file has no CFI.
    NoFile,
    /// The table, or the CFI, has no row for the code.
    NoRow,
    /// The row needs a register that is not known in a caller's frame.
    Register(u16),
    /// The caller's frame would not be above this frame, or a rule cannot be evaluated.
    Broken,
}

impl<'i, 'f> Space<'i, 'f> {
    /// Places the images of a space. `image` returns the image of a path.
    pub fn new(space: &super::recording::Space, image: impl Fn(&str) -> Option<&'i Image<'f>>) -> Self {
        let (mut mappings, mut modules) = (Vec::new(), Vec::new());
        let mut end = 0;
        for mapping in &space.mappings {
            // A damaged recording may have any mappings.
            if mapping.start < end || mapping.end < mapping.start {
                continue;
            }
            end = mapping.end;
            let placed = image(&mapping.path).and_then(|image| {
                let bias = mapping.start.checked_sub(image.address_of(mapping.offset)?)?;
                bias.checked_add(image.end()?)?;
                Some(Placed { start: mapping.start, end: mapping.end, bias, image })
            });
            let code = Address(mapping.start)..Address(mapping.end);
            // Generated code has no table, but may have frame pointers.
            modules.push(match &placed {
                None => Module::new(code, 0),
                Some(Placed { bias, image, .. }) => Module::new(code, *bias)
                    .with_index(image.table)
                    .with_starts(&image.starts)
                    .with_switches(&image.switches),
            });
            mappings.extend(placed);
        }
        let modules = Modules::new(Arch::Amd64, modules).expect("they ascend, and lie apart");
        Self { mappings, modules }
    }

    /// Returns the image of the code at an address, and the address in the file.
    #[inline]
    pub fn find(&self, Address(address): Address) -> Option<(&'i Image<'f>, u64)> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = self.mappings.get(after.checked_sub(1)?)?;
        (address < mapping.end).then(|| (mapping.image, address.wrapping_sub(mapping.bias)))
    }

    /// Returns where images are mapped, and how far from their addresses in the file.
    pub fn images(&self) -> impl Iterator<Item = (std::ops::Range<u64>, u64, &'i Image<'f>)> {
        self.mappings.iter().map(|mapping| (mapping.start..mapping.end, mapping.bias, mapping.image))
    }
}

/// Walks a sample's stack. The first step gets `registers`. `step` finds the caller of a frame at an address of a file.
/// The frames go to `frames`, innermost first.
#[inline]
pub fn walk<'i, 'f, R>(
    sample: &Sample,
    space: &Space<'i, 'f>,
    mut registers: R,
    frames: &mut Vec<StackFrame>,
    mut step: impl FnMut(&'i Image<'f>, u64, &R) -> Result<Step<R>, End>,
) -> End {
    let (pc, sp, found_by) = (Address(sample.pc), sample.registers[SP], FoundBy::Registers);
    let mut frame = StackFrame { pc, sp, is_exact: true, found_by };
    frames.clear();
    while frames.len() < DEPTH {
        frames.push(frame);
        if space.modules.is_start(&frame) {
            return End::Outermost;
        }
        let Some((image, address)) = space.find(frame.lookup_address()) else { return End::NoFile };
        let caller = match step(image, address, &registers) {
            Ok(caller) => caller,
            Err(end) => return end,
        };
        if caller.frame.pc == Address(0) {
            return End::Outermost;
        }
        // Stacks grow downwards. A table that leads back would never end.
        if caller.frame.sp <= frame.sp {
            return End::Broken;
        }
        if !space.modules.is_code(caller.frame.lookup_address()) {
            return End::NoFile;
        }
        (frame, registers) = (caller.frame, caller.registers);
    }
    End::Broken
}

impl From<walk::End> for End {
    fn from(end: walk::End) -> Self {
        match end {
            end if end.is_complete() => Self::Outermost,
            walk::End::NoRow => Self::NoRow,
            walk::End::NotCode { .. } => Self::NoFile,
            walk::End::Memory { .. } => Self::Stack,
            walk::End::Register { register, .. } => Self::Register(register.0),
            _ => Self::Broken,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outermost => f.write_str("outermost frame"),
            Self::Stack => f.write_str("end of the recorded stack"),
            Self::NoFile => f.write_str("code of no file"),
            Self::NoRow => f.write_str("no row"),
            Self::Register(number) => write!(f, "register {number} unknown"),
            Self::Broken => f.write_str("broken"),
        }
    }
}
