//! The common call frame instructions, in a loop of their own.

/// A stretch of instructions that do nothing but advance and change the CFA's offset, as pushes and
/// pops do: most of what real programs have.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// The instructions that are left.
    pub(crate) rest: &'a [u8],
    /// The location before them, from the function's start.
    pub(crate) location: u64,
    /// The CFA offset there.
    pub(crate) offset: i64,
    /// The function's end: rows start before it.
    pub(crate) end: u64,
    pub(crate) code_alignment: u64,
    pub(crate) little_endian: bool,
    /// The registers, by their bits, that may be saved without anybody caring.
    pub(crate) ignored: u64,
}

/// One instruction, or an advance and the CFA offset after it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    target: u64,
    offset: i64,
    len: usize,
}

impl Stretch<'_> {
    /// The location, and the CFA offset in effect there.
    #[inline(always)]
    pub fn row(&self) -> (u64, i64) {
        (self.location, self.offset)
    }

    /// Returns whether the row here ends with `step`, inside the function.
    #[inline(always)]
    pub fn row_ends(&self, step: &Step) -> bool {
        self.location < step.target && self.location < self.end
    }

    /// The next step. The stretch ends, if not before, three bytes before the instructions do.
    #[inline(always)]
    pub fn next(&self) -> Option<Step> {
        let word = u32::from_le_bytes(*self.rest.first_chunk()?);
        let operand_is_short = word & 0x8000 == 0;
        let (target, offset) = (self.location, self.offset);
        let advance = |delta: u32| target.saturating_add(u64::from(delta).wrapping_mul(self.code_alignment));
        Some(match word as u8 {
            // DW_CFA_advance_loc, DW_CFA_def_cfa_offset: the pair, as it usually comes.
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
            // DW_CFA_advance_loc2, whose operand has the section's byte order.
            0x03 if self.little_endian => Step { target: advance(word >> 8 & 0xffff), offset, len: 3 },
            // DW_CFA_nop
            0x00 => Step { target, offset, len: 1 },
            _ => return None,
        })
    }

    /// Takes the step.
    #[inline(always)]
    pub fn take(&mut self, step: Step) {
        self.location = step.target;
        self.offset = step.offset;
        // `next` has seen four bytes.
        self.rest = self.rest.get(step.len..).unwrap_or_default();
    }
}
