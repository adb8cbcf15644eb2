//! The walk from frame to frame.

use core::ops::Range;

use cfipack_format::{Address, Arch};

use super::cached_row::{Action, CachedRow};
use super::{AddressSpace, Cache, End, FoundBy, StackFrame};
use crate::sframe::{Caller, Frame, Registers, step};

/// A walk up a stack. It is an iterator over the frames, innermost frame first.
///
/// To find a caller, the walk looks up the frame's PC and applies the row. Where no table covers the code, it
/// follows the frame pointer, which is a guess. It accepts a frame pointer only if the pointer is aligned, lies in
/// the stack at or above the stack pointer, and leads to a return address in code, after a call if the code can be
/// read. [`StackFrame::found_by`] says whether a frame depends on a guess. Every return address has to be
/// in code. The stack pointer has to rise from frame to frame, so every walk ends.
///
/// You give the walk a closure that reads memory. It returns the pointer at an address, in the byte order of
/// the machine, or `None` if the address is not in the memory of the stack.
///
/// When the iterator is finished, [`Walk::end`] returns the reason.
///
/// ```
/// use cfipack_decoder::sframe::{Registers, Section};
/// use cfipack_decoder::walk::{End, FoundBy, Module, Modules, Walk};
/// use cfipack_format::{Address, Arch};
///
/// // A function with a frame pointer at 0x1000: push rbp; mov rbp, rsp; nop; pop rbp; ret.
/// let table = [
///     0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // header
///     0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, // index
///     4, 0, 0, 0, 0, 0, 3, 8, 1, 5, 16, 0xf0, 4, 4, 16, 0xf0, 6, 5, 8, 0xf0, // rows
/// ];
/// let section = Section::parse(&table, Address(0x2000))?;
/// // It calls itself from 0x1004, the first time from code at 0x1800 that has frame pointers and no table.
/// let modules = [Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section)];
/// let modules = Modules::new(Arch::Amd64, &modules[..])?;
/// let stack = [0x7010_u64, 0x1004, 0x7020, 0x1800, 0, 0x1804];
/// let memory = |address: Address| stack.get(usize::try_from(address.0.checked_sub(0x7000)?).ok()? / 8).copied();
/// let registers = Registers { sp: 0x7000, fp: Some(0x7000), lr: None, others: &[] };
/// let mut walk = Walk::new(&modules, Address(0x1004), registers, memory);
/// let found: Vec<_> = walk.by_ref().map(|frame| (frame.pc.0, frame.found_by)).collect();
/// assert_eq!(found, [
///     (0x1004, FoundBy::Registers),
///     (0x1004, FoundBy::Table),
///     (0x1800, FoundBy::Table),
///     (0x1804, FoundBy::FramePointer),
/// ]);
/// assert_eq!(walk.end(), Some(End::GuessedNull));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Walk<'w, 'm, S: ?Sized, M> {
    space: &'w S,
    memory: M,
    cache: Option<&'w mut Cache<'m>>,
    /// The bounds of the stack.
    stack: Range<u64>,
    arch: Arch,
    has_frame_pointers: bool,
    address_bits: u32,
    /// The frame that [`next`](Iterator::next) returned last.
    frame: StackFrame,
    registers: Registers<'w>,
    /// The row of that frame, if it was looked up and can be cached.
    row: Option<CachedRow>,
    /// False if `registers.sp` is only a lower bound.
    is_sp_exact: bool,
    is_started: bool,
    end: Option<End>,
}

impl<'w, 'm, S: AddressSpace + ?Sized, M: FnMut(Address) -> Option<u64>> Walk<'w, 'm, S, M> {
    /// Starts a walk at the innermost frame. `pc` is the next instruction of this frame, which has not run.
    #[inline]
    pub fn new(space: &'w S, pc: Address, registers: Registers<'w>, memory: M) -> Self {
        let found_by = FoundBy::Registers;
        let frame = StackFrame { pc, sp: registers.sp, is_exact: true, found_by };
        Self {
            space,
            memory,
            cache: None,
            stack: 0..u64::MAX,
            arch: space.arch(),
            has_frame_pointers: true,
            address_bits: 48,
            frame,
            registers,
            row: None,
            is_sp_exact: true,
            is_started: false,
            end: None,
        }
    }

    /// Sets a cache. It makes the steps from PCs that were walked before several times as fast.
    #[inline]
    #[must_use]
    pub fn with_cache(mut self, cache: &'w mut Cache<'m>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the bounds of the stack. The walk then does not follow frames and frame pointers outside them, even
    /// if their memory can be read. The default is no bounds.
    #[inline]
    #[must_use]
    pub fn with_stack(mut self, stack: Range<Address>) -> Self {
        self.stack = stack.start.0..stack.end.0;
        self
    }

    /// Sets whether the walk follows the frame pointer in code that no table covers. The default is true.
    #[inline]
    #[must_use]
    pub fn with_frame_pointers(mut self, has_frame_pointers: bool) -> Self {
        self.has_frame_pointers = has_frame_pointers;
        self
    }

    /// Sets the number of bits in an address, without the signature that AArch64 puts into a return address.
    /// The default is 48, and the maximum is 55.
    #[inline]
    #[must_use]
    pub fn with_address_bits(mut self, address_bits: u32) -> Self {
        self.address_bits = address_bits;
        self
    }

    /// Returns the reason why the walk has ended, or `None` until [`next`](Iterator::next) has returned `None`.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Goes to the caller of the last frame.
    #[inline(always)]
    fn advance(&mut self) -> Result<(), End> {
        let row = match self.row {
            Some(row) => row,
            None => match self.find()? {
                Ok(row) => row,
                Err(frame) => return self.step_by(&frame),
            },
        };
        match row.action() {
            Action::Step if !self.is_sp_exact && row.needs_sp() => self.step_by_frame_pointer(),
            Action::Step => {
                let Registers { sp, fp, lr, .. } = self.registers;
                let caller = row.step(self.arch, (sp, fp, lr), &mut self.memory)?;
                self.enter(caller, row.is_signal_frame(), self.by_table())
            }
            Action::Outermost => Err(End::Outermost),
            Action::Start => Err(End::Start),
            Action::NoRow => self.step_by_frame_pointer(),
        }
    }

    /// Checks the return address that [`advance`](Self::advance) has found, before anyone sees it. It finds the row
    /// for the next step, because a row is the quickest proof of code.
    #[inline(always)]
    fn look_ahead(&mut self) -> Result<(), End> {
        self.row = None;
        // A damaged table, or a row that cannot be cached, is found again if the walk goes on.
        if let Ok(Ok(row)) = self.find() {
            self.row = Some(row);
            let is_covered = !matches!(row.action(), Action::NoRow);
            if !is_covered && !self.space.is_code(self.frame.lookup_address()) {
                return Err(End::NotCode { pc: self.frame.pc });
            }
        }
        // Without a guess, code that is entered without a call may be there: a trampoline of signals, or the start of a
        // context.
        if self.frame.found_by == FoundBy::TableAfterGuess && !self.may_be_return_address(self.frame) {
            return Err(End::NotCode { pc: self.frame.pc });
        }
        Ok(())
    }

    /// Returns false if the code before a return address can be read and is no call.
    fn may_be_return_address(&self, frame: StackFrame) -> bool {
        frame.is_exact || self.space.follows_call(frame.pc) != Some(false)
    }

    /// Returns how a caller is found by the row of the last frame.
    #[inline(always)]
    fn by_table(&self) -> FoundBy {
        if self.frame.found_by.is_guess() { FoundBy::TableAfterGuess } else { FoundBy::Table }
    }

    /// Finds the row of the last frame: a row that can be cached, or the frame if its row cannot be cached.
    #[inline(always)]
    fn find(&mut self) -> Result<Result<CachedRow, Frame>, End> {
        let address = self.frame.lookup_address();
        let generation = self.space.generation();
        if let Some(row) = self.cache.as_ref().and_then(|cache| cache.get(address, generation)) {
            return Ok(Ok(row));
        }
        let found = self.look_up(address)?;
        if let (Ok(row), Some(cache)) = (&found, &mut self.cache) {
            cache.put(address, generation, *row);
        }
        Ok(found)
    }

    /// Looks up an address. Returns a row that can be cached, or the frame if its row cannot be cached.
    #[inline]
    fn look_up(&self, address: Address) -> Result<Result<CachedRow, Frame>, End> {
        if self.space.is_start(&self.frame) {
            return Ok(Ok(CachedRow::START));
        }
        match self.space.lookup(address).map_err(End::Table)? {
            None => Ok(Ok(CachedRow::NO_ROW)),
            Some(frame) => Ok(CachedRow::new(&frame, self.arch).ok_or(frame)),
        }
    }

    /// Steps by a row of any kind.
    #[cold]
    #[inline(never)]
    fn step_by(&mut self, frame: &Frame) -> Result<(), End> {
        if !self.is_sp_exact {
            return Err(End::Register { arch: self.arch, register: self.arch.stack_pointer() });
        }
        let caller = step(self.arch, &frame.row, &self.registers, &mut self.memory)?;
        self.enter(caller, frame.is_signal_frame, self.by_table())
    }

    /// Steps by the frame pointer, in code that no table covers.
    #[inline(never)]
    fn step_by_frame_pointer(&mut self) -> Result<(), End> {
        let (Some(record), Some(fp)) = (self.arch.frame_record(), self.registers.fp) else {
            return Err(End::NoRow);
        };
        let is_innermost = self.frame.found_by == FoundBy::Registers;
        if !self.has_frame_pointers {
            return Err(End::NoRow);
        }
        // In the innermost frame, a function may use the register for any value.
        if fp == 0 && !is_innermost {
            return Err(End::GuessedNull);
        }
        let Some(sp) = fp.checked_add(record.size) else { return Err(End::NoRow) };
        let is_aligned = fp.is_multiple_of(self.arch.pointer_size().into());
        if !is_aligned || fp < self.registers.sp || sp > self.stack.end {
            return Err(End::NoRow);
        }
        let mut read = |offset| (self.memory)(Address(fp.wrapping_add(offset)));
        let (Some(pc), Some(callers_fp)) = (read(record.return_address), read(record.frame_pointer)) else {
            return Err(End::NoRow);
        };
        let has_signatures = self.arch.is_aarch64();
        let caller =
            Caller { pc: Address(pc), signed: has_signatures, cfa: Address(sp), sp, fp: Some(callers_fp) };
        let pc = caller.without_signature(self.address_bits);
        let found_by = FoundBy::FramePointer;
        let frame = StackFrame { pc, sp, is_exact: false, found_by };
        let is_code = || self.space.is_code(frame.lookup_address()) && self.may_be_return_address(frame);
        if pc.0 != 0 && !is_code() {
            return Err(End::NoRow);
        }
        self.enter(caller, false, found_by)?;
        self.is_sp_exact = record.ends_frame;
        Ok(())
    }

    /// Makes the caller the last frame.
    #[inline(always)]
    fn enter(&mut self, caller: Caller, is_exact: bool, found_by: FoundBy) -> Result<(), End> {
        // A leaf function on a machine with a link register may have an empty frame. Its caller does not.
        let is_rising =
            caller.sp > self.registers.sp || caller.sp == self.registers.sp && self.registers.lr.is_some();
        if !is_rising || caller.sp > self.stack.end {
            return Err(End::NotRising);
        }
        let pc = caller.without_signature(self.address_bits);
        if pc.0 == 0 {
            // A wrong row leads to a word of 0 more often than to any other word that may be a return address. So where
            // functions have frame pointers, the caller's must be 0, too.
            let is_marked = caller.fp == Some(0) || self.arch.frame_record().is_none();
            return Err(if is_marked && !found_by.is_guess() { End::Null } else { End::GuessedNull });
        }
        self.frame = StackFrame { pc, sp: caller.sp, is_exact, found_by };
        self.registers = caller.registers();
        self.is_sp_exact = true;
        Ok(())
    }
}

impl<S: AddressSpace + ?Sized, M: FnMut(Address) -> Option<u64>> Iterator for Walk<'_, '_, S, M> {
    type Item = StackFrame;

    #[inline(always)]
    fn next(&mut self) -> Option<StackFrame> {
        if self.end.is_some() {
            return None;
        }
        if self.is_started
            && let Err(end) = self.advance().and_then(|()| self.look_ahead())
        {
            self.end = Some(end);
            return None;
        }
        self.is_started = true;
        Some(self.frame)
    }
}

impl<S: AddressSpace + ?Sized, M: FnMut(Address) -> Option<u64>> core::iter::FusedIterator
    for Walk<'_, '_, S, M>
{
}
