//! Common rows, in the form that a step needs.

use cfipack_format::{Address, Arch, Cfa, Rule};

use crate::sframe::{Caller, Frame, StepError};

/// A common row in 16 bytes: the CFA counts from the stack pointer or the frame pointer, and the return
/// address and the frame pointer are in the frame or in their registers. For a PC without such a row, it
/// stores the walk's action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CachedRow {
    cfa: i32,
    return_address: i32,
    frame_pointer: i32,
    kind: u32,
}

/// The CFA counts from the frame pointer.
const FROM_FP: u32 = 1;
/// The return address is in the link register.
const RA_IN_REGISTER: u32 = 1 << 1;
/// The frame pointer is in the frame.
const FP_IN_FRAME: u32 = 1 << 2;
/// The return address is signed.
const SIGNED: u32 = 1 << 3;
/// The next PC is exact.
const SIGNAL_FRAME: u32 = 1 << 4;
/// There is no caller.
const OUTERMOST: u32 = 1 << 5;
/// Stacks start here.
const START: u32 = 1 << 6;
/// No table covers the code.
const NO_ROW: u32 = 1 << 7;

/// The action of a walk at a PC.
pub(super) enum Action {
    Step,
    Outermost,
    Start,
    NoRow,
}

impl CachedRow {
    pub(super) const EMPTY: Self = Self::special(NO_ROW);
    pub(super) const START: Self = Self::special(START);
    pub(super) const NO_ROW: Self = Self::special(NO_ROW);

    const fn special(kind: u32) -> Self {
        Self { cfa: 0, return_address: 0, frame_pointer: 0, kind }
    }

    /// Converts a row, or returns `None` if the row does not have the common form.
    #[inline]
    pub(super) fn new(frame: &Frame, arch: Arch) -> Option<Self> {
        let row = &frame.row;
        if row.return_address == Rule::Undefined {
            return Some(Self::special(OUTERMOST));
        }
        let Cfa::Register { register, offset } = row.cfa else { return None };
        let from_fp = match register {
            register if register == arch.stack_pointer() => 0,
            register if register == arch.frame_pointer() => FROM_FP,
            _ => return None,
        };
        let (return_address, ra_kind) = match row.return_address {
            Rule::Cfa(offset) => (i32::try_from(offset).ok()?, 0),
            Rule::SameValue => (0, RA_IN_REGISTER),
            _ => return None,
        };
        let (frame_pointer, fp_kind) = match row.frame_pointer {
            Rule::Cfa(offset) => (i32::try_from(offset).ok()?, FP_IN_FRAME),
            Rule::SameValue => (0, 0),
            _ => return None,
        };
        let signed = if row.signed { SIGNED } else { 0 };
        let signal_frame = if frame.is_signal_frame { SIGNAL_FRAME } else { 0 };
        let kind = from_fp | ra_kind | fp_kind | signed | signal_frame;
        Some(Self { cfa: i32::try_from(offset).ok()?, return_address, frame_pointer, kind })
    }

    #[inline(always)]
    pub(super) fn action(&self) -> Action {
        match self.kind & (OUTERMOST | START | NO_ROW) {
            0 => Action::Step,
            OUTERMOST => Action::Outermost,
            START => Action::Start,
            _ => Action::NoRow,
        }
    }

    #[inline(always)]
    pub(super) fn is_signal_frame(&self) -> bool {
        self.kind & SIGNAL_FRAME != 0
    }

    /// Returns whether the CFA counts from the stack pointer.
    #[inline(always)]
    pub(super) fn needs_sp(&self) -> bool {
        self.kind & FROM_FP == 0
    }

    /// Steps as [`crate::sframe::step`] does with the original row.
    #[inline(always)]
    pub(super) fn step(
        &self,
        arch: Arch,
        (sp, fp, lr): (u64, Option<u64>, Option<u64>),
        mut memory: impl FnMut(Address) -> Option<u64>,
    ) -> Result<Caller, StepError> {
        let unknown = |register| StepError::Register { arch, register };
        let base = match self.kind & FROM_FP {
            0 => sp,
            _ => fp.ok_or(unknown(arch.frame_pointer()))?,
        };
        let cfa = base.wrapping_add_signed(i64::from(self.cfa));
        let pc = match self.kind & RA_IN_REGISTER {
            0 => {
                let address = Address(cfa.wrapping_add_signed(i64::from(self.return_address)));
                memory(address).ok_or(StepError::Memory { address })?
            }
            _ => lr.ok_or(unknown(arch.return_address()))?,
        };
        let fp = match self.kind & FP_IN_FRAME {
            0 => fp,
            _ => memory(Address(cfa.wrapping_add_signed(i64::from(self.frame_pointer)))),
        };
        let sp = cfa.wrapping_add_signed(arch.stack_pointer_from_cfa());
        Ok(Caller { pc: Address(pc), signed: self.kind & SIGNED != 0, cfa: Address(cfa), sp, fp })
    }
}
