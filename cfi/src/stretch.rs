//! A separate, fast loop for the most common call frame instructions.

/// A stretch of instructions that only advance and change the CFA's offset. Pushes and pops need no other
/// instructions, and most of the CFI in real programs consists of them.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// The instructions that have not been executed.
    pub(crate) rest: &'a [u8],
    /// The location before these instructions, from the function's start.
    pub(crate) location: u64,
    /// The CFA offset at this location.
    pub(crate) offset: i64,
    /// The function's end. Rows start before it.
    pub(crate) end: u64,
    pub(crate) code_alignment: u64,
    pub(crate) little_endian: bool,
    /// A bit set of the registers whose rules do not matter.
    pub(crate) ignored: u64,
}

/// An instruction, or an advance and the CFA offset after it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    target: u64,
    offset: i64,
    len: usize,
}

impl Stretch<'_> {
    /// Returns the location, and the CFA offset at this location.
    #[inline(always)]
    pub fn row(&self) -> (u64, i64) {
        (self.location, self.offset)
    }

    /// Returns whether `step` ends the row at the current location, inside the function.
    #[inline(always)]
    pub fn row_ends(&self, step: &Step) -> bool {
        self.location < step.target && self.location < self.end
    }

    /// Returns the next step. The stretch ends at the latest three bytes before the end of the instructions.
    #[inline(always)]
    pub fn next(&self) -> Option<Step> {
        let word = u32::from_le_bytes(*self.rest.first_chunk()?);
        let operand_is_short = word & 0x8000 == 0;
        let (target, offset) = (self.location, self.offset);
        let advance = |delta: u32| target.saturating_add(u64::from(delta).wrapping_mul(self.code_alignment));
        Some(match word as u8 {
            // DW_CFA_advance_loc, often followed by DW_CFA_def_cfa_offset.
            opcode @ 0x40..=0x7f => {
                let target = advance((opcode & 0x3f).into());
                if word & 0x0080_ff00 == 0x0e00 {
                    Step { target, offset: (word >> 16 & 0x7f).into(), len: 3 }
                } else if word & 0x8080_ff00 == 0x0080_0e00 {
                    Step { target, offset: (word >> 16 & 0x7f | word >> 24 << 7).into(), len: 4 }
                } else {
                    Step { target, offset, len: 1 }
                }
            }
            // DW_CFA_offset
            opcode @ 0x80..=0xbf if operand_is_short && self.ignored >> (opcode & 0x3f) & 1 != 0 => {
                Step { target, offset, len: 2 }
            }
            0x0e if operand_is_short => Step { target, offset: (word >> 8 & 0x7f).into(), len: 2 },
            // DW_CFA_GNU_args_size of 0.
            0x2e if word & 0xff00 == 0 => Step { target, offset, len: 2 },
            // DW_CFA_advance_loc1
            0x02 => Step { target: advance(word >> 8 & 0xff), offset, len: 2 },
            // DW_CFA_advance_loc2. Its operand has the section's byte order.
            0x03 if self.little_endian => Step { target: advance(word >> 8 & 0xffff), offset, len: 3 },
            // DW_CFA_nop
            0x00 => Step { target, offset, len: 1 },
            _ => return None,
        })
    }

    /// Executes the step.
    #[inline(always)]
    pub fn take(&mut self, step: Step) {
        self.location = step.target;
        self.offset = step.offset;
        // `next` has read four bytes, so `rest` is long enough.
        self.rest = self.rest.get(step.len..).unwrap_or_default();
    }
}
