//! Walks by `.sframe` tables.

use cfipack_decoder::sframe::Registers;
use cfipack_decoder::walk::{Cache, StackFrame, Walk};
use cfipack_format::{Address, Register};

use super::recording::{FP, SP, Sample};
use super::walk::{DEPTH, End, Space};

/// A way to walk a sample's stack by tables.
pub struct ByTable<'w, 'm> {
    /// Rows of earlier walks, of all spaces.
    pub cache: Option<&'w mut Cache<'m>>,
    /// Whether frames of code without a table are left by the frame pointer.
    pub has_frame_pointers: bool,
}

/// Walks a sample's stack by the tables alone.
pub fn walk_by_table(sample: &Sample, space: &Space<'_, '_>, frames: &mut Vec<StackFrame>) -> End {
    ByTable { cache: None, has_frame_pointers: false }.walk(sample, space, frames)
}

impl ByTable<'_, '_> {
    /// Walks a sample's stack. Puts the frames into `frames`, innermost first.
    #[inline]
    pub fn walk(self, sample: &Sample, space: &Space<'_, '_>, frames: &mut Vec<StackFrame>) -> End {
        // In the innermost frame a row may need any register.
        let others =
            std::array::from_fn::<_, 16, _>(|number| (Register(number as u16), sample.registers[number]));
        let (sp, fp) = (sample.registers[SP], Some(sample.registers[FP]));
        let registers = Registers { sp, fp, lr: None, others: &others };
        let memory = |address: Address| sample.word(address.0);
        let mut walk = Walk::new(&space.modules, Address(sample.pc), registers, memory)
            .with_frame_pointers(self.has_frame_pointers);
        if let Some(cache) = self.cache {
            walk = walk.with_cache(cache);
        }
        frames.clear();
        frames.extend(walk.by_ref().take(DEPTH));
        match (walk.end().map_or(End::Broken, End::from), frames.last()) {
            (End::NoRow, Some(last)) if space.find(last.lookup_address()).is_none() => End::NoFile,
            (end, _) => end,
        }
    }
}
