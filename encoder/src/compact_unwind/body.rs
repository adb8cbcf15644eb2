//! Finds the body among a function's rows, and checks every other row against it.
//!
//! Compact unwind has a single encoding for a whole function, and it is true in the function's body. Asynchronous CFI
//! describes more: every step of the prologue (a push, a store, the setup of the frame) and of the epilogue. A row is
//! a *step* to another row if everything that it describes is as in the other row or as at the entry. In a step, no
//! register is saved elsewhere, and no more stack is used. The body is the row that all other rows are steps to.
//!
//! The encoding must be true wherever the function calls another function, so a row with a call is not a
//! step. Without the code, calls cannot be seen. Then an epilogue must also lead to the state at the entry
//! before the body's row comes back.

use cfipack_format::{Arch, Cfa, Family, FunctionOffset, Row};

use super::calls::{self, Found};
use super::saved::SavedRegisters;
use super::step::{check, is_step, limits_stack};
use crate::Reason;
use crate::cfi::{Change, RowSink, State, Stretch};

/// The row that the encoding is made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body {
    pub(super) row: Row,
    pub(super) saved: SavedRegisters,
    /// The offset after the instruction that gave the CFA this rule.
    pub(super) cfa_since: u32,
}

/// Receives the rows of one function.
#[derive(Debug)]
pub(super) struct Rows<'c> {
    arch: Arch,
    code: Option<&'c [u8]>,
    body: Option<Body>,
    /// The CFA's offset at the entry.
    least: i64,
    /// The highest offset from the stack pointer that a step to the body can have.
    most: i64,
    /// The start of the current row.
    start: u32,
    /// The CFA's offset, and whether it is relative to the stack pointer.
    offset: i64,
    from_stack_pointer: bool,
    /// True if the current row is the body's.
    in_body: bool,
    /// True if the current row differs from the body in nothing but the CFA's offset.
    rules_are_bodys: bool,
    /// True if the body was left, and the state at the entry has not been reached yet.
    on_way_out: bool,
    /// The start of the current run of steps.
    steps_since: u32,
    /// The length of the body's rows in bytes.
    inside: u32,
    /// The length of the body's rows that are too long for a step.
    inside_long: u32,
    /// The length of other rows that are too long for a step, and the start of the first of them.
    outside_long: u32,
    outside_long_at: u32,
    /// The reason that stopped the last stretch.
    stopped: Option<Reason>,
    /// The offset of the reason, unless the reason is the row itself.
    pub(super) stopped_at: Option<u32>,
}

/// The most bytes of code in a step. On x86 this is the longest instruction. On arm64 it is as many stores as there
/// are registers to save, and the setup of the frame pointer. Longer rows may contain calls.
const fn longest_step(arch: Arch) -> u32 {
    match arch.family() {
        Family::X86 => 15,
        Family::Aarch64 | Family::S390x | Family::Riscv => 64,
    }
}

impl<'a> RowSink<'a, SavedRegisters> for Rows<'_> {
    #[inline]
    fn row(&mut self, state: &State<'a, SavedRegisters>, change: Change) -> Result<(), Reason> {
        if let Some(reason) = self.stopped {
            return Err(reason);
        }
        match (change, state.row.cfa) {
            (Change::CfaOffset, Cfa::Register { offset, .. }) if self.body.is_some() => {
                self.row_with_offset(state.row.start.0, offset)
            }
            _ => self.any_row(&state.row, &state.registers),
        }
    }

    /// No encoding can represent arguments on the stack.
    fn arguments(&mut self, size: u64) -> Result<(), Reason> {
        Err(Reason::ArgumentsSize(size))
    }

    #[inline(always)]
    fn stretch(&mut self, stretch: &mut Stretch<'a>) {
        if self.body.is_none() {
            return;
        }
        while let Some(step) = stretch.next() {
            let (location, offset) = stretch.row();
            if offset != self.offset && stretch.row_ends(&step) {
                let Ok(start) = u32::try_from(location) else { break };
                if let Err(reason) = self.row_with_offset(start, offset) {
                    self.stopped = Some(reason);
                    break;
                }
            }
            stretch.take(step);
        }
    }
}

impl<'c> Rows<'c> {
    /// Makes a sink for a function with these bytes of code, if they are known.
    pub(super) fn new(arch: Arch, code: Option<&'c [u8]>) -> Self {
        Self {
            arch,
            code: code.filter(|_| calls::can_be_found(arch)),
            body: None,
            least: arch.pushed_by_call(),
            most: 0,
            start: 0,
            offset: 0,
            from_stack_pointer: true,
            in_body: true,
            rules_are_bodys: true,
            on_way_out: false,
            steps_since: 0,
            inside: 0,
            inside_long: 0,
            outside_long: 0,
            outside_long_at: 0,
            stopped: None,
            stopped_at: None,
        }
    }

    /// Takes a row that may differ from the row before in anything.
    fn any_row(&mut self, row: &Row, saved: &SavedRegisters) -> Result<(), Reason> {
        self.end_row(row.start.0);
        let (offset, from_stack_pointer) = check(self.arch, row, saved)?;
        (self.offset, self.from_stack_pointer) = (offset, from_stack_pointer);
        if let Some(body) = &mut self.body {
            self.rules_are_bodys = row.differs_in_offset_only(&body.row) && *saved == body.saved;
            if self.rules_are_bodys && row.cfa == body.row.cfa {
                return self.back_in_body();
            }
            if !is_step(self.arch, (&body.row, &body.saved), (row, saved)) {
                if !is_step(self.arch, (row, saved), (&body.row, &body.saved)) {
                    return Err(Reason::NotAStep);
                }
                self.step();
                return Ok(());
            }
            if body.row.cfa != row.cfa {
                body.cfa_since = row.start.0;
            }
            body.row = *row;
            body.saved = *saved;
        } else {
            self.body = Some(Body { row: *row, saved: *saved, cfa_since: row.start.0 });
        }
        self.rules_are_bodys = true;
        self.most = if limits_stack(self.arch, from_stack_pointer) { offset } else { i64::MAX };
        self.new_body()
    }

    /// Takes a row that differs from the row before only in the CFA's offset.
    #[inline]
    fn row_with_offset(&mut self, start: u32, offset: i64) -> Result<(), Reason> {
        if offset == self.offset {
            return Ok(());
        }
        self.end_row(start);
        self.offset = offset;
        if !self.from_stack_pointer {
            return Err(Reason::FrameRecord);
        }
        if self.rules_are_bodys && offset >= self.most {
            if offset == self.most {
                return self.back_in_body();
            }
            if let Some(body) = &mut self.body {
                (body.row.start, body.cfa_since) = (FunctionOffset(start), start);
                body.row.cfa = Cfa::Register { register: self.arch.stack_pointer(), offset };
            }
            self.most = offset;
            return self.new_body();
        }
        if offset < self.least || offset > self.most {
            return Err(Reason::NotAStep);
        }
        self.step();
        Ok(())
    }

    /// The current row is the body's again.
    #[inline]
    fn back_in_body(&mut self) -> Result<(), Reason> {
        self.way_out_ends()?;
        if !core::mem::replace(&mut self.in_body, true) {
            self.has_no_call(self.steps_since, self.start)?;
        }
        Ok(())
    }

    /// The current row is a new body. The body before it, if there was one, is a step to it.
    #[inline]
    fn new_body(&mut self) -> Result<(), Reason> {
        if self.inside_long != 0 {
            (self.outside_long, self.outside_long_at) = (self.outside_long + self.inside_long, 0);
        }
        (self.inside, self.inside_long, self.in_body) = (0, 0, true);
        // Calls in the prologue are searched for at the end.
        self.way_out_ends()
    }

    /// A row of a body follows. An epilogue leads to the state at the entry first, with one exception: LLVM may merge
    /// the ends of two epilogues. Then the first epilogue ends in a branch, and its rows are a step of one or two
    /// instructions. Only the code can show that they contain no call.
    #[inline]
    fn way_out_ends(&mut self) -> Result<(), Reason> {
        let is_cut_short = core::mem::replace(&mut self.on_way_out, false);
        if is_cut_short && self.code.is_none() { Err(Reason::NotAStep) } else { Ok(()) }
    }

    /// The current row is a step.
    #[inline]
    fn step(&mut self) {
        if self.in_body {
            self.steps_since = self.start;
        }
        let on_entry = self.from_stack_pointer && self.offset == self.least;
        self.on_way_out = !on_entry && (self.on_way_out || self.in_body);
        self.in_body = false;
    }

    /// Returns the body after all rows of a function of `size` bytes. An error has the offset of its cause.
    pub(super) fn finish(&mut self, size: u32) -> Result<&Body, (Reason, u32)> {
        let ended = self.end(size);
        match (ended, &self.body) {
            (Ok(()), Some(body)) => Ok(body),
            (Ok(()), None) => Err((Reason::CfaMissing, 0)),
            (Err(reason), _) => Err((reason, self.stopped_at.unwrap_or(self.start))),
        }
    }

    fn end(&mut self, size: u32) -> Result<(), Reason> {
        if let Some(reason) = self.stopped {
            return Err(reason);
        }
        self.end_row(size);
        let start = self.body.as_ref().map_or(0, |body| body.row.start.0);
        self.has_no_call(0, start)?;
        if !self.in_body {
            self.has_no_call(self.steps_since, size)?;
        }
        if self.outside_long != 0 {
            // There are several long rows, and only a call can decide which of them is the body.
            let called = self.code.and_then(|code| calls::find_call(self.arch, code, start, size));
            let clear = self.outside_long <= self.inside || matches!(called, Some(Found::Call(_)));
            if self.code.is_none() || !clear {
                self.stopped_at = Some(self.outside_long_at);
                return Err(Reason::LongStep);
            }
        }
        Ok(())
    }

    /// Ends the current row. The next row starts at `end`.
    #[inline]
    fn end_row(&mut self, end: u32) {
        let length = end - core::mem::replace(&mut self.start, end);
        let long = if length > longest_step(self.arch) { length } else { 0 };
        if self.in_body {
            self.inside += length;
            self.inside_long += long;
        } else if long != 0 {
            if self.outside_long == 0 {
                self.outside_long_at = end - length;
            }
            self.outside_long += long;
        }
    }

    #[inline]
    fn has_no_call(&mut self, from: u32, to: u32) -> Result<(), Reason> {
        let (Some(code), true) = (self.code, from < to) else { return Ok(()) };
        let (at, reason) = match calls::find_call(self.arch, code, from, to) {
            None => return Ok(()),
            Some(Found::Call(at)) => (at, Reason::CallOutsideBody),
            Some(Found::Unreadable(at)) => (at, Reason::CodeUnreadable),
        };
        self.stopped_at = Some(at);
        Err(reason)
    }
}
