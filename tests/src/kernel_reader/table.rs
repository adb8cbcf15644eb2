//! Reads tables of version 3 as the kernel's reader does.

use cfipack_format::Arch;

const HEADER: usize = 28;
const FDE: usize = 16;
const ATTRIBUTE: usize = 5;

/// A table in memory.
#[derive(Clone, Copy, Debug)]
pub struct Table<'b> {
    bytes: &'b [u8],
    address: u64,
    arch: Arch,
    fixed_fp: i8,
    fixed_ra: i8,
    num_fdes: usize,
    fdes: usize,
    fres: usize,
    end: usize,
}

/// The rule of the reader that a table breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A field of the header.
    Header,
    /// A part is outside the table, or bytes end early.
    Bounds,
    /// Functions or rows are not ascending, or outside the part that they belong to.
    Order,
    /// An unknown kind of FDE, row or word, or words that belong to no rule.
    Kind,
}

/// A place or value that one word or two words of a row describe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// The word at this offset from the CFA. Not used for the CFA itself.
    CfaSlot(i64),
    /// The value of a register, by its DWARF number, plus an offset.
    Register(u32, i64),
    /// The word in memory at an offset from a register.
    Memory(u32, i64),
}

/// The row for a PC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// `None` in a row of an outermost frame.
    pub cfa: Option<Word>,
    /// `None` if it is not given: it is in the link register.
    pub ra: Option<Word>,
    /// `None` if it is not given: it still has the caller's value.
    pub fp: Option<Word>,
    /// Whether the function is a signal frame.
    pub is_signal: bool,
}

struct Function {
    start: u64,
    size: u64,
    /// The place of the function's first row. The next field is the number of rows.
    fres: usize,
    num_fres: u16,
    info: u8,
    info2: u8,
    rep_size: u8,
}

impl<'b> Table<'b> {
    /// Reads the header.
    pub fn new(bytes: &'b [u8], address: u64, arch: Arch) -> Result<Self, Refusal> {
        let (fixed_fp, fixed_ra, num_fdes, fdes, fres, end) = (0, 0, 0, 0, 0, 0);
        let mut table = Self { bytes, address, arch, fixed_fp, fixed_ra, num_fdes, fdes, fres, end };
        let [version, flags, _, fixed_fp, fixed_ra, aux] = *table.array(2)?;
        // The kernel takes sorted tables whose starts are relative to their fields.
        let is_taken = table.number(0, 2)? == 0xdee2 && version == 3 && flags & 0b101 == 0b101 && aux == 0;
        let [num_fdes, num_fres, fre_len, fde_off, fre_off] =
            [8, 12, 16, 20, 24].map(|at| table.number(at, 4));
        (table.num_fdes, table.fixed_fp, table.fixed_ra) =
            (num_fdes? as usize, fixed_fp as i8, fixed_ra as i8);
        if !is_taken || table.num_fdes == 0 || num_fres? == 0 {
            return Err(Refusal::Header);
        }
        (table.fdes, table.fres) = (HEADER + fde_off? as usize, HEADER + fre_off? as usize);
        table.end = table.fres + fre_len? as usize;
        let is_inside = table.fdes + table.num_fdes * FDE <= table.fres && table.end <= bytes.len();
        if is_inside { Ok(table) } else { Err(Refusal::Bounds) }
    }

    /// Reads every row of every function, as the reader does if validation is on.
    pub fn validate(&self, text: std::ops::Range<u64>) -> Result<(), Refusal> {
        let mut before = None;
        for index in 0..self.num_fdes {
            let function = self.function(index)?;
            let is_inside = function.start >= text.start && function.start + function.size <= text.end;
            if !is_inside || before.is_some_and(|before| function.start <= before) {
                return Err(Refusal::Order);
            }
            before = Some(function.start);
            self.rows(&function, |_, _| false)?;
        }
        Ok(())
    }

    /// Returns the row for a PC. `None` if no function, or no row of the function, has the PC.
    pub fn find(&self, pc: u64) -> Result<Option<Row>, Refusal> {
        let (mut least, mut most) = (0, self.num_fdes);
        while least < most {
            let middle = least.midpoint(most);
            if self.start(middle)? <= pc {
                least = middle + 1;
            } else {
                most = middle;
            }
        }
        let Some(index) = least.checked_sub(1) else { return Ok(None) };
        let function = self.function(index)?;
        let offset = pc - function.start;
        if offset >= function.size {
            return Ok(None);
        }
        let offset = if function.is_mask() { offset % u64::from(function.rep_size) } else { offset };
        let mut found = None;
        self.rows(&function, |start, row| {
            let is_after = start > offset;
            found = if is_after { found } else { Some(row) };
            is_after
        })?;
        Ok(found)
    }

    fn start(&self, index: usize) -> Result<u64, Refusal> {
        let field = self.fdes + index * FDE;
        Ok((self.address + field as u64).wrapping_add(self.number(field, 8)?))
    }

    fn function(&self, index: usize) -> Result<Function, Refusal> {
        let field = self.fdes + index * FDE;
        let at = self.fres + self.number(field + 12, 4)? as usize;
        let [info, info2, rep_size] = *self.array(at + 2)?;
        let function = Function {
            start: self.start(index)?,
            size: self.number(field + 8, 4)?,
            fres: at + ATTRIBUTE,
            num_fres: self.number(at, 2)? as u16,
            info,
            info2,
            rep_size,
        };
        let is_known = info & 0xf <= 2 && info2 & 0x1f <= 1 && !(function.is_mask() && rep_size == 0);
        if is_known { Ok(function) } else { Err(Refusal::Kind) }
    }

    /// Reads the rows of a function until `enough` returns true.
    fn rows(&self, function: &Function, mut enough: impl FnMut(u64, Row) -> bool) -> Result<(), Refusal> {
        let start_width = 1 << (function.info & 0xf);
        let (mut at, mut before) = (function.fres, None);
        for _ in 0..function.num_fres {
            let start = self.number(at, start_width)?;
            let [info] = *self.array(at + start_width)?;
            let (count, width) = (usize::from(info >> 1 & 0xf), 1 << (info >> 5 & 3));
            if width > 4 {
                return Err(Refusal::Kind);
            }
            let is_inside = function.is_mask() || start < function.size;
            if !is_inside || before.is_some_and(|before| start <= before) {
                return Err(Refusal::Order);
            }
            let first = at + start_width + 1;
            let row = self.row(function, info, Words { table: self, at: first, width, left: count })?;
            if enough(start, row) {
                return Ok(());
            }
            (at, before) = (first + count * width, Some(start));
        }
        if at <= self.end { Ok(()) } else { Err(Refusal::Bounds) }
    }

    fn row(&self, function: &Function, info: u8, mut words: Words<'_>) -> Result<Row, Refusal> {
        let is_signal = function.info & 0x80 != 0;
        if info == 0 {
            return Ok(Row { cfa: None, ra: None, fp: None, is_signal });
        }
        let slot = |offset: i8| (offset != 0).then_some(Word::CfaSlot(offset.into()));
        let (fixed_ra, fixed_fp) = (slot(self.fixed_ra), slot(self.fixed_fp));
        let (cfa, ra, fp) = if function.info2 & 0x1f == 1 {
            let Some(cfa @ (Word::Register(..) | Word::Memory(..))) = words.pair()? else {
                return Err(Refusal::Kind);
            };
            let scaled = match cfa {
                Word::Register(register, offset) => Word::Register(register, self.cfa_offset(offset)),
                Word::Memory(register, offset) => Word::Memory(register, self.cfa_offset(offset)),
                Word::CfaSlot(_) => cfa,
            };
            (scaled, words.pair()?.or(fixed_ra), words.pair()?.or(fixed_fp))
        } else {
            let offset = words.next()?.ok_or(Refusal::Kind)?;
            let base = if info & 1 == 1 { self.arch.stack_pointer() } else { self.arch.frame_pointer() };
            let cfa = Word::Register(base.0.into(), self.cfa_offset(offset));
            let mut saved = |fixed: Option<Word>| match fixed {
                Some(fixed) => Ok(Some(fixed)),
                // Offset 0 stands for a place that is not given.
                None => Ok(words.next()?.filter(|offset| *offset != 0).map(Word::CfaSlot)),
            };
            (cfa, saved(fixed_ra)?, saved(fixed_fp)?)
        };
        match words.left {
            0 => Ok(Row { cfa: Some(cfa), ra, fp, is_signal }),
            _ => Err(Refusal::Kind),
        }
    }

    /// Returns the CFA's offset. s390x stores it without the register save area, in units of 8 bytes.
    fn cfa_offset(&self, word: i64) -> i64 {
        if self.arch == Arch::S390x { word * 8 + 160 } else { word }
    }

    fn array<const N: usize>(&self, at: usize) -> Result<&'b [u8; N], Refusal> {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Bounds)
    }

    fn number(&self, at: usize, width: usize) -> Result<u64, Refusal> {
        let bytes = self.bytes.get(at..at + width).ok_or(Refusal::Bounds)?;
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        let is_big = self.arch == Arch::S390x;
        Ok(if is_big { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
    }
}

impl Function {
    fn is_mask(&self) -> bool {
        self.info & 0x10 != 0
    }
}

/// The data words of a row that have not been read.
struct Words<'t> {
    table: &'t Table<'t>,
    at: usize,
    width: usize,
    left: usize,
}

impl Words<'_> {
    fn next(&mut self) -> Result<Option<i64>, Refusal> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let word = self.table.number(self.at, self.width)?;
        (self.at, self.left) = (self.at + self.width, left);
        let unused = 64 - 8 * self.width as u32;
        Ok(Some((word << unused) as i64 >> unused))
    }

    /// Reads a control word and an offset. A control word of 0 has no offset, and gives nothing.
    fn pair(&mut self) -> Result<Option<Word>, Refusal> {
        let Some(control) = self.next()? else { return Ok(None) };
        if control == 0 {
            return Ok(None);
        }
        let control = control as u64 & (u64::MAX >> (64 - 8 * self.width));
        let offset = self.next()?.ok_or(Refusal::Kind)?;
        let register = (control >> 3) as u32;
        Ok(Some(match control & 0b11 {
            0b10 if register == 0 => Word::CfaSlot(offset),
            0b01 => Word::Register(register, offset),
            0b11 => Word::Memory(register, offset),
            _ => return Err(Refusal::Kind),
        }))
    }
}
