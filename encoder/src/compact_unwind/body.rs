//! Finds the body among a function's rows, and holds every other row against it.
//!
//! Compact unwind says one thing of a whole function, true in its body. Asynchronous CFI says more:
//! every step of the way in (a push, a store, the set-up of the frame) and of the way out. A row is a
//! *step* to another if everything that it says is what the other says or what held on entry: no
//! register is saved elsewhere, no more stack is taken. The body is the row that all others are
//! steps to. Calls tell what a step is not: where a function calls, the encoding must hold.

use cfipack_format::{Arch, Cfa, Row, Rule};

use super::calls::{self, Found};
use super::saved::SavedRegisters;
use crate::Reason;
use crate::cfi::{Change, RowSink, State};

/// The row that an encoding is to express.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) row: Row,
    pub(super) saved: SavedRegisters,
    /// Where the CFA's rule began to be the body's: behind the instruction that made it so.
    pub(super) cfa_since: u32,
}

/// Takes the rows of one function.
#[derive(Debug)]
pub(super) struct Rows<'c> {
    arch: Arch,
    code: Option<&'c [u8]>,
    body: Option<Body>,
    /// The row in effect: where it starts, and whether it is the body's.
    start: u32,
    in_body: bool,
    /// Whether the body was left and the state on entry has not been reached yet.
    on_way_out: bool,
    /// Bytes of the body's rows.
    inside: u32,
    /// Bytes of those too long for a step.
    inside_long: u32,
    /// Bytes of other rows too long for a step.
    outside_long: u32,
    /// Where a reason lies, if not at the row it ended the function with.
    pub(super) stopped_at: Option<u32>,
}

/// Bytes of code that a step may take: x86's longest instruction, or on arm64 as many stores as
/// registers can be saved and the frame pointer's set-up. In longer ones there may be calls.
const fn longest_step(arch: Arch) -> u32 {
    match arch {
        Arch::Amd64 | Arch::I386 => 15,
        _ => 64,
    }
}

impl<'a> RowSink<'a, SavedRegisters> for Rows<'_> {
    #[inline]
    fn row(&mut self, state: &State<'a, SavedRegisters>, _change: Change) -> Result<(), Reason> {
        let (row, saved) = (&state.row, &state.registers);
        self.end_row(row.start.0)?;
        let was_in_body = self.in_body;
        (self.start, self.in_body) = (row.start.0, true);
        self.check(row, saved)?;
        let mut found = Body { row: *row, saved: *saved, cfa_since: row.start.0 };
        if let Some(body) = &self.body {
            if found.unwinds_as(body) {
                return if self.on_way_out { Err(Reason::NotAStep) } else { Ok(()) };
            }
            if found.is_step_to(body, self.arch) {
                self.in_body = false;
                self.on_way_out |= was_in_body;
                self.on_way_out &= row.cfa != cfa_on_entry(self.arch);
                return Ok(());
            }
            if self.on_way_out || !body.is_step_to(&found, self.arch) {
                return Err(Reason::NotAStep);
            }
            if body.row.cfa == row.cfa {
                found.cfa_since = body.cfa_since;
            }
            self.outside_long += self.inside_long;
            (self.inside, self.inside_long) = (0, 0);
        }
        self.body = Some(found);
        Ok(())
    }
}

impl<'c> Rows<'c> {
    /// For a function with these bytes, if they are at hand.
    pub(super) fn new(arch: Arch, code: Option<&'c [u8]>) -> Self {
        let code = code.filter(|_| calls::can_be_found(arch));
        Self {
            arch,
            code,
            body: None,
            start: 0,
            in_body: true,
            on_way_out: false,
            inside: 0,
            inside_long: 0,
            outside_long: 0,
            stopped_at: None,
        }
    }

    /// The body, after all rows of a function of `size` bytes.
    pub(super) fn finish(mut self, size: u32) -> Result<Body, (Reason, u32)> {
        match self.end(size) {
            Ok(body) => Ok(body),
            Err(reason) => Err((reason, self.stopped_at.unwrap_or(self.start))),
        }
    }

    fn end(&mut self, size: u32) -> Result<Body, Reason> {
        self.end_row(size)?;
        let body = self.body.ok_or(Reason::CfaMissing)?;
        let start = body.row.start.0;
        // Rows that were taken for the body on the way in have not been looked at.
        self.has_no_call(0, start)?;
        if self.outside_long != 0 {
            // Which of two long rows is the body? Without calls none of them can be told by.
            let called = self.code.and_then(|code| calls::find(self.arch, code, start, size));
            let clear = self.outside_long <= self.inside || matches!(called, Some(Found::Call(_)));
            if self.code.is_none() || !clear {
                return Err(Reason::LongStep);
            }
        }
        Ok(body)
    }

    /// Ends the row in effect.
    #[inline]
    fn end_row(&mut self, end: u32) -> Result<(), Reason> {
        let length = end - self.start;
        let long = if length > longest_step(self.arch) { length } else { 0 };
        if self.in_body {
            self.inside += length;
            self.inside_long += long;
            return Ok(());
        }
        self.outside_long += long;
        self.has_no_call(self.start, end)
    }

    #[inline]
    fn has_no_call(&mut self, from: u32, to: u32) -> Result<(), Reason> {
        let (Some(code), true) = (self.code, from < to) else { return Ok(()) };
        let (at, reason) = match calls::find(self.arch, code, from, to) {
            None => return Ok(()),
            Some(Found::Call(at)) => (at, Reason::CallOutsideBody),
            Some(Found::Unreadable(at)) => (at, Reason::CodeUnreadable),
        };
        self.stopped_at = Some(at);
        Err(reason)
    }

    /// What no row may have.
    #[inline]
    fn check(&self, row: &Row, saved: &SavedRegisters) -> Result<(), Reason> {
        let (sp, fp) = (self.arch.stack_pointer(), self.arch.frame_pointer());
        match row.cfa {
            Cfa::Register { register, .. } if register == sp => {}
            // Every function with a frame pointer has the same two or four words at its top.
            Cfa::Register { register, offset } if register == fp => {
                if offset != frame_record_size(self.arch) {
                    return Err(Reason::FrameRecord);
                }
            }
            Cfa::Register { register, .. } => return Err(Reason::CfaRegister(register)),
            Cfa::Memory { .. } => return Err(Reason::CfaMemory),
            Cfa::Expression => return Err(Reason::CfaExpression),
            Cfa::Undefined => return Err(Reason::CfaMissing),
        }
        if row.signed {
            return Err(Reason::SignedReturnAddress);
        }
        if saved.stack_pointer_is_not_cfa {
            return Err(Reason::StackPointerRule);
        }
        let saved_in_frame = matches!(row.return_address, Rule::Cfa(_));
        if !saved_in_frame && row.return_address != Row::at_entry(self.arch).return_address {
            return Err(Reason::ReturnAddressRule);
        }
        Ok(())
    }
}

/// Bytes from the frame pointer to the CFA: the caller's frame pointer and the return address.
/// arm64_32 keeps 8 bytes of each, as arm64 does.
pub(super) const fn frame_record_size(arch: Arch) -> i64 {
    match arch {
        Arch::I386 => 8,
        _ => 16,
    }
}

/// The CFA before anything is pushed; only x86's call takes stack.
fn cfa_on_entry(arch: Arch) -> Cfa {
    let offset = match arch {
        Arch::Amd64 | Arch::I386 => arch.pointer_size().into(),
        _ => 0,
    };
    Cfa::Register { register: arch.stack_pointer(), offset }
}

impl Body {
    #[inline]
    fn unwinds_as(&self, other: &Self) -> bool {
        self.row.unwinds_as(&other.row) && self.saved == other.saved
    }

    /// Whether a row is a step to `body`.
    #[inline]
    fn is_step_to(&self, body: &Self, arch: Arch) -> bool {
        let (row, entry) = (&self.row, Row::at_entry(arch));
        let same = |one: Rule, other: Rule, on_entry: Rule| one == other || one == on_entry;
        cfa_is_step_to(arch, row.cfa, body.row.cfa)
            && same(row.frame_pointer, body.row.frame_pointer, entry.frame_pointer)
            && same(row.return_address, body.row.return_address, entry.return_address)
            && self.saved.is_part_of(&body.saved)
    }
}

/// Whether, on the way to the CFA of a body, this is the CFA.
#[inline]
fn cfa_is_step_to(arch: Arch, cfa: Cfa, body: Cfa) -> bool {
    let (
        Cfa::Register { register, offset },
        Cfa::Register { register: base, offset: deepest },
        Cfa::Register { offset: least, .. },
    ) = (cfa, body, cfa_on_entry(arch))
    else {
        return false;
    };
    let from_stack_pointer = register == arch.stack_pointer() && offset >= least;
    // x86 pushes the frame pointer first of all; arm64 takes the whole frame at once.
    let limited = base == arch.stack_pointer() || matches!(arch, Arch::Amd64 | Arch::I386);
    cfa == body || from_stack_pointer && (!limited || offset <= deepest)
}
