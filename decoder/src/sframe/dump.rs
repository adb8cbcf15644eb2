//! Prints a section byte for byte as `readelf --sframe` of binutils 2.47 does. Version 1 is printed as by
//! binutils 2.40.

use core::fmt::{self, Write};

use cfipack_format::sframe::{CONTROL_CFA_SLOT, FdeType, Flags, Version};
use cfipack_format::widen::ToUsize;

use super::row::{cfa_offset, has_registers};
use super::{Fre, Function, Section};

impl Section<'_> {
    /// Prints the table as `readelf --sframe` of binutils 2.47 does. For version 1, which binutils 2.47
    /// refuses, prints it as binutils 2.40 does. `name` is the section's name.
    ///
    /// Where readelf prints nothing useful, for a malformed function or row, this function prints the error
    /// and goes on.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn dump(&self, out: &mut impl Write, name: &str) -> fmt::Result {
        write_header(self, name, out)?;
        for (index, function) in self.functions().enumerate() {
            match function {
                Ok(function) => write_function(&function, out)?,
                Err(error) => write!(out, "\n    func idx [{index}]: {error}\n")?,
            }
        }
        Ok(())
    }
}

fn write_header(section: &Section<'_>, name: &str, out: &mut impl Write) -> fmt::Result {
    let header = section.header();
    write!(out, "Contents of the SFrame section {name}:\n  Header :\n\n")?;
    writeln!(out, "    Version: SFRAME_VERSION_{}", header.version)?;
    out.write_str("    Flags: ")?;
    let names = [
        (Flags::FDE_SORTED, "SFRAME_F_FDE_SORTED"),
        (Flags::FRAME_POINTER, "SFRAME_F_FRAME_POINTER"),
        (Flags::START_PCREL, "SFRAME_F_FDE_FUNC_START_PCREL"),
    ];
    let mut names = names.into_iter().filter(|&(flag, _)| header.flags.contains(flag));
    out.write_str(names.next().map_or("NONE", |(_, name)| name))?;
    for (_, name) in names {
        write!(out, ",\n           {name}")?;
    }
    out.write_char('\n')?;
    let prints_fixed_offsets = prints_fixed_offsets(section.version);
    if prints_fixed_offsets && header.fixed_fp_offset != 0 {
        writeln!(out, "    CFA fixed FP offset: {}", header.fixed_fp_offset)?;
    }
    if prints_fixed_offsets && header.fixed_ra_offset != 0 {
        writeln!(out, "    CFA fixed RA offset: {}", header.fixed_ra_offset)?;
    }
    writeln!(out, "    Num FDEs: {}\n    Num FREs: {}", header.num_fdes, header.num_fres)?;
    out.write_str("\n  Function Index :\n")
}

fn write_function(function: &Function<'_>, out: &mut impl Write) -> fmt::Result {
    let mut line = Line::new();
    line.text("\n    func idx [").decimal(function.index() as i64);
    line.text("]: pc = 0x").hexadecimal(function.start().0, 1);
    line.text(", size = ").decimal(i64::from(function.size())).text(" bytes");
    // readelf 2.47 tests the bit in every version.
    match (function.has_signal_bit(), function.fde_type() == FdeType::Flex) {
        (true, true) => line.text(", attr = \"SF\""),
        (true, false) => line.text(", attr = \"S\""),
        (false, true) => line.text(", attr = \"F\""),
        (false, false) => &mut line,
    };
    if function.section.arch().is_aarch64() && function.has_pauth_key_b() {
        line.text(", pauth = B key");
    }
    line.text("\n    STARTPC").text(if function.is_pc_mask() { "[m]" } else { "   " });
    line.text("      CFA       FP        RA           \n").write_to(out)?;

    let first_pc = if function.is_pc_mask() { 0 } else { function.start().0 };
    for fre in function.fres() {
        match fre.and_then(|fre| fre.row(function).map(|_| fre)) {
            Ok(fre) => write_fre(&fre, first_pc, function, line.clear()).write_to(out)?,
            Err(error) => writeln!(out, "    {error}")?,
        }
    }
    Ok(())
}

/// Prints the cells of a row from the stored words, because readelf prints details that a row does not have.
fn write_fre<'l>(fre: &Fre, first_pc: u64, function: &Function<'_>, line: &'l mut Line) -> &'l mut Line {
    line.text("    ").hexadecimal(first_pc.wrapping_add(u64::from(fre.start.0)), 16).text("  ");
    if fre.words().is_empty() {
        return line.text("RA undefined\n");
    }
    match function.fde_type() {
        FdeType::Default => default_cells(fre, function, line),
        FdeType::Flex => flex_cells(fre, function, line),
    }
    .text("\n")
}

fn default_cells<'l>(fre: &Fre, function: &Function<'_>, line: &'l mut Line) -> &'l mut Line {
    let section = &function.section;
    let words = fre.words();
    let (ra, fp) = match section.header().fixed_ra_offset {
        0 => (words.get(1), words.get(2)),
        _ => (None, words.get(1)),
    };
    let saved = |&word: &i32, line: &mut Line| {
        if has_registers(section) && word & 1 != 0 {
            line.text("r").decimal(i64::from(word >> 1));
        } else {
            line.text("c").signed(word);
        }
    };
    line.cell(10, |line| {
        line.text(if fre.info.sp_based() { "sp+" } else { "fp+" });
        line.decimal(i64::from(cfa_of(words[0], section)));
    });
    line.cell(10, |line| match fp {
        Some(word) => saved(word, line),
        None => fixed_fp(section, line),
    });
    line.cell(13, |line| {
        match ra {
            Some(0) => line.push(b'U'),
            Some(word) => saved(word, line),
            None => fixed_ra(section, line),
        }
        line.text(if fre.info.signed() { "[s]" } else { "   " });
    })
}

fn flex_cells<'l>(fre: &Fre, function: &Function<'_>, line: &'l mut Line) -> &'l mut Line {
    let section = &function.section;
    let (cfa, rest) = fre.words().split_at(2);
    let (ra, fp) = match *rest {
        [0, ref fp @ ..] => (None, fp),
        [ref ra @ .., _, _] if rest.len() == 4 => (Some(ra), &rest[2..]),
        _ => (Some(rest), &rest[rest.len()..]),
    };
    let rule = |control: i32, offset: i32, line: &mut Line| {
        let control = fre.control(control);
        if control == CONTROL_CFA_SLOT {
            line.push(b'c');
            line.signed(offset);
            return;
        }
        let (arch, number) = (section.arch(), control.register_number());
        line.text(if control.deref() { "(" } else { "" });
        match number {
            _ if number == u32::from(arch.stack_pointer().0) => line.text("sp"),
            _ if number == u32::from(arch.frame_pointer().0) => line.text("fp"),
            _ => line.text("r").decimal(i64::from(number)),
        };
        line.signed(offset).text(if control.deref() { ")" } else { "" });
    };
    line.cell(10, |line| rule(cfa[0], cfa_of(cfa[1], section), line));
    line.cell(10, |line| match *fp {
        [control, offset] => rule(control, offset, line),
        _ => fixed_fp(section, line),
    });
    line.cell(13, |line| {
        match ra {
            None => line.push(b'U'),
            Some(&[control, offset]) => rule(control, offset, line),
            Some(_) => fixed_ra(section, line),
        }
        line.text(if fre.info.signed() { "[s]" } else { "   " });
    })
}

/// Returns the CFA's offset in 32 bits, as readelf computes it.
fn cfa_of(word: i32, section: &Section<'_>) -> i32 {
    cfa_offset(section.abi, word) as i32
}

fn fixed_fp(section: &Section<'_>, line: &mut Line) {
    match section.header().fixed_fp_offset {
        0 => line.push(b'u'),
        offset => {
            line.text("c").signed(i32::from(offset));
        }
    }
}

fn fixed_ra(section: &Section<'_>, line: &mut Line) {
    let is_printed = prints_fixed_offsets(section.version) && section.header().fixed_ra_offset != 0;
    line.push(if is_printed { b'f' } else { b'u' });
}

/// Returns whether readelf prints the fixed offsets of the header. Binutils 2.40, the last version to print
/// version 1, does not.
fn prints_fixed_offsets(version: Version) -> bool {
    match version {
        Version::V1 => false,
        Version::V2 | Version::V3 => true,
    }
}

/// A buffer for a line of text. A table has up to a million rows, and formatting each row with `fmt` takes
/// several times as long as decoding it.
struct Line {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Line {
    /// The longest text has 219 bytes: a function's two lines, with every number at its widest.
    const CAPACITY: usize = 256;

    fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    fn clear(&mut self) -> &mut Self {
        self.len = 0;
        self
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text.as_bytes());
        self.len += text.len();
        self
    }

    /// Writes a cell, and adds spaces up to `width` bytes.
    fn cell(&mut self, width: usize, write: impl FnOnce(&mut Self)) -> &mut Self {
        let end = self.len + width;
        write(self);
        if self.len < end {
            self.bytes[self.len..end].fill(b' ');
            self.len = end;
        }
        self
    }

    fn decimal(&mut self, value: i64) -> &mut Self {
        if value < 0 {
            self.push(b'-');
        }
        let mut rest = value.unsigned_abs();
        let digits = rest.checked_ilog10().unwrap_or(0).to_usize() + 1;
        for byte in self.bytes[self.len..self.len + digits].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.len += digits;
        self
    }

    /// Prints a number, with `+` if it is not negative.
    fn signed(&mut self, value: i32) -> &mut Self {
        if value >= 0 {
            self.push(b'+');
        }
        self.decimal(i64::from(value))
    }

    /// Prints a number with leading zeros up to `digits`.
    fn hexadecimal(&mut self, value: u64, digits: usize) -> &mut Self {
        let needed = (u64::BITS - value.leading_zeros()).div_ceil(4).to_usize();
        let digits = digits.max(needed);
        for (i, byte) in self.bytes[self.len..self.len + digits].iter_mut().rev().enumerate() {
            *byte = b"0123456789abcdef"[(value >> (4 * i) & 0xf).to_usize()];
        }
        self.len += digits;
        self
    }

    fn write_to(&self, out: &mut impl Write) -> fmt::Result {
        // The text is ASCII.
        out.write_str(core::str::from_utf8(&self.bytes[..self.len]).map_err(|_| fmt::Error)?)
    }
}
