//! The effects of common instructions, except on locations.

use cfipack_format::widen::ToUsize;

use crate::sframe::fast::common_cie::CommonCie;

/// The rules that common instructions can change, except for the CFA's offset. The number of the CIE stands
/// for all other rules.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | the CFA is counted from the frame pointer, else from the stack pointer |
/// | 1 | AArch64: the return address is signed |
/// | 8-15 | operand of the `DW_CFA_offset` in effect for the frame pointer; 0: the CIE's rule |
/// | 16-23 | the same for the return address |
/// | 24-31 | number of the CIE |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rules(u32);

impl Rules {
    const ON_FRAME_POINTER: u32 = 1;
    const SIGNED: u32 = 1 << 1;
    /// The bit at which the operand for the frame pointer starts.
    pub(crate) const FRAME_POINTER: u32 = 8;
    /// The bit at which the operand for the return address starts.
    pub(crate) const RETURN_ADDRESS: u32 = 16;
    const CIE: u32 = 24;
    /// The rules of no CIE.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn new(cie: u8, on_frame_pointer: bool, signed: bool) -> Self {
        let signed = if signed { Self::SIGNED } else { 0 };
        Self(u32::from(cie) << Self::CIE | signed).on_frame_pointer(on_frame_pointer)
    }

    #[inline]
    fn on_frame_pointer(self, whether: bool) -> Self {
        Self(self.0 & !Self::ON_FRAME_POINTER | u32::from(whether))
    }

    /// Returns these rules with another operand at the bits from `shift` on.
    #[inline]
    pub(crate) fn with(self, shift: u32, operand: u8) -> Self {
        Self(self.0 & !(0xff << shift) | u32::from(operand) << shift)
    }

    /// Returns these rules with the number of the CIE in `other`.
    pub(crate) fn of_cie(self, other: Self) -> Self {
        const CIES: u32 = 0xff << Rules::CIE;
        Self(self.0 & !CIES | other.0 & CIES)
    }

    pub(crate) fn is_on_frame_pointer(self) -> bool {
        self.0 & Self::ON_FRAME_POINTER != 0
    }

    pub(crate) fn is_signed(self) -> bool {
        self.0 & Self::SIGNED != 0
    }

    pub(crate) fn operand(self, shift: u32) -> u8 {
        (self.0 >> shift) as u8
    }

    /// Returns a hash that spreads the rules of real functions over small numbers.
    #[inline(always)]
    pub(crate) fn hash(self) -> usize {
        (self.0 ^ self.0 >> 7 ^ self.0 >> 14 ^ self.0 >> 20).to_usize()
    }
}

/// How deep `DW_CFA_remember_state` may nest in common functions.
const MAX_REMEMBERED: usize = 4;

/// The state that common instructions change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameState {
    pub(crate) rules: Rules,
    /// The offset of the CFA.
    pub(crate) offset: u32,
}

/// The current state, and the states that `DW_CFA_remember_state` has saved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct States {
    pub(crate) current: FrameState,
    remembered: [FrameState; MAX_REMEMBERED],
    depth: usize,
}

impl States {
    #[inline(always)]
    pub(crate) fn new(current: FrameState) -> Self {
        Self { current, remembered: [current; MAX_REMEMBERED], depth: 0 }
    }

    /// Applies the first instruction in `bytes`. Returns its length, or `None` if the function is not common.
    #[inline(always)]
    pub(crate) fn apply(&mut self, cie: &CommonCie, bytes: [u8; 4]) -> Option<usize> {
        let Self { current, remembered, depth } = self;
        Some(match bytes {
            // DW_CFA_remember_state
            [0x0a, ..] => {
                *remembered.get_mut(*depth)? = *current;
                *depth += 1;
                1
            }
            // DW_CFA_restore_state
            [0x0b, ..] => {
                *depth = depth.checked_sub(1)?;
                *current = *remembered.get(*depth)?;
                1
            }
            // DW_CFA_offset
            [opcode @ 0x80..=0xbf, operand @ 1..0x80, ..] => {
                current.rules = cie.with(current.rules, opcode & 0x3f, operand)?;
                2
            }
            // DW_CFA_restore
            [opcode @ 0xc0..=0xff, ..] => {
                current.rules = cie.with(current.rules, opcode & 0x3f, 0)?;
                1
            }
            // DW_CFA_def_cfa, DW_CFA_def_cfa_register
            [0x0c, register @ 0..0x80, value @ 0..0x80, _] => {
                current.rules = current.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                current.offset = value.into();
                3
            }
            [0x0c, register @ 0..0x80, low, high @ 0..0x80] => {
                current.rules = current.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                current.offset = u32::from(low & 0x7f) | u32::from(high) << 7;
                4
            }
            [0x0d, register @ 0..0x80, ..] => {
                current.rules = current.rules.on_frame_pointer(cie.is_frame_pointer(register)?);
                2
            }
            // DW_CFA_AARCH64_negate_ra_state
            [0x2d, ..] if cie.is_aarch64() => {
                current.rules = Rules(current.rules.0 ^ Rules::SIGNED);
                1
            }
            // DW_CFA_GNU_args_size, with a larger operand than most
            [0x2e, 0x80..=0xff, 0..0x80, _] => 3,
            _ => return None,
        })
    }
}
