//! Operands of directives: numbers, registers, symbols.

use alloc::collections::BTreeMap;
use alloc::string::String;

use cfipack_format::{Arch, Register};

use super::statement::{is_name, is_space, name, skip_blank, string_end};
use super::{Problem, diagnostic::Span};

/// Symbols with known numbers (`.set`, `=`).
pub(super) type Constants<'t> = BTreeMap<&'t [u8], i64>;

/// An error and the place that it is at.
pub(super) type Fault = (Span, Problem);

/// Parentheses in parentheses.
const DEEPEST: u32 = 50;

/// The operands of a statement, read from the front.
#[derive(Clone, Debug)]
pub(super) struct Operands<'t, 'c> {
    text: &'t [u8],
    at: usize,
    /// The statement's place in the file.
    base: usize,
    /// True if the text is that of the file: if not, all places are that of the statement.
    is_in_place: bool,
    constants: &'c Constants<'t>,
    depth: u32,
}

impl<'t, 'c> Operands<'t, 'c> {
    pub(super) fn new(
        text: &'t [u8],
        at: usize,
        base: usize,
        is_in_place: bool,
        constants: &'c Constants<'t>,
    ) -> Self {
        let mut operands = Self { text, at, base, is_in_place, constants, depth: 0 };
        operands.skip();
        operands
    }

    /// Goes to the next byte that is neither space nor comment.
    fn skip(&mut self) {
        self.at = skip_blank(self.text, self.at);
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The span from a place to the next comma.
    fn span(&self, from: usize) -> Span {
        let rest = self.text.get(from..).unwrap_or_default();
        let length = rest.iter().take_while(|&&byte| byte != b',').count();
        self.at_place(from, length)
    }

    fn at_place(&self, from: usize, length: usize) -> Span {
        let (from, length) = if self.is_in_place { (from, length) } else { (0, self.text.len()) };
        Span { start: (self.base + from) as u32, length: length as u32 }
    }

    fn fault<T>(&self, from: usize, problem: Problem) -> Result<T, Fault> {
        let problem = if from >= self.text.len() { Problem::MissingOperand } else { problem };
        Err((self.span(from), problem))
    }

    /// A comma, if an operand follows.
    pub(super) fn comma(&mut self) -> bool {
        let is_comma = self.peek() == Some(b',');
        if is_comma {
            self.at += 1;
            self.skip();
        }
        is_comma
    }

    /// A comma that must be there.
    pub(super) fn separator(&mut self) -> Result<(), Fault> {
        if self.comma() { Ok(()) } else { self.fault(self.at, Problem::MissingOperand) }
    }

    /// The end.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.is_at_end() {
            return Ok(());
        }
        Err((self.at_place(self.at, self.text.len() - self.at), Problem::Trailing))
    }

    /// A name, as it stands.
    pub(super) fn word(&mut self) -> Option<&'t [u8]> {
        let (word, length) = name(self.rest())?;
        self.at += length;
        self.skip();
        Some(word)
    }

    /// Text up to the next comma, without the space around it.
    pub(super) fn raw(&mut self) -> &'t [u8] {
        let rest = self.rest();
        let mut length = 0;
        while let Some(&byte) = rest.get(length) {
            match byte {
                b',' => break,
                b'/' if rest.get(length + 1) == Some(&b'*') => break,
                b'"' => length = string_end(rest, length).unwrap_or(rest.len()),
                _ => length += 1,
            }
        }
        self.at += length;
        self.skip();
        let raw = &rest[..length];
        let end = raw.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
        &raw[..end]
    }

    pub(super) fn register(&mut self, arch: Arch) -> Result<Register, Fault> {
        let from = self.at;
        let percent = usize::from(self.peek() == Some(b'%'));
        let rest = &self.rest()[percent..];
        let length = rest.iter().take_while(|&&byte| is_name(byte)).count();
        let is_numeric = rest.first().is_some_and(|&byte| matches!(byte, b'0'..=b'9' | b'(' | b'-' | b'+'));
        let is_constant = percent == 0 && (is_numeric || self.constants.contains_key(&rest[..length]));
        let register = if is_constant {
            // Numbers that the architecture does not have are the directives' to refuse.
            u16::try_from(self.number()?).ok().map(Register)
        } else {
            self.at += percent + length;
            self.parenthesized();
            self.skip();
            let name = core::str::from_utf8(&self.text[from..self.at]).unwrap_or_default().trim();
            Register::named(arch, name)
        };
        register.map_or_else(|| self.fault(from, Problem::Register), Ok)
    }

    /// The number of `%st(1)`.
    fn parenthesized(&mut self) {
        if let [b'(', digit, b')', ..] = self.rest()
            && digit.is_ascii_digit()
        {
            self.at += 3;
        }
    }

    /// A symbol: its name. Numbers may be added to it, which is then part of the name.
    pub(super) fn symbol(&mut self) -> Result<String, Fault> {
        let from = self.at;
        let is_symbol =
            self.peek().is_some_and(|byte| (is_name(byte) && !byte.is_ascii_digit()) || byte == b'"');
        let raw = self.raw();
        if !is_symbol {
            return self.fault(from, Problem::Symbol);
        }
        let name = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw);
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// A number: an expression of numbers and symbols with known numbers.
    pub(super) fn number(&mut self) -> Result<i64, Fault> {
        let from = self.at;
        match self.sum() {
            Ok(value) => Ok(value),
            Err(problem) => self.fault(from, problem),
        }
    }

    fn sum(&mut self) -> Result<i64, Problem> {
        let mut value = self.bits()?;
        loop {
            match self.peek() {
                Some(b'+') => value = self.operator(1, value, Self::bits, i64::wrapping_add)?,
                Some(b'-') => value = self.operator(1, value, Self::bits, i64::wrapping_sub)?,
                _ => match self.rest() {
                    [b'=', b'=', ..] => value = self.operator(2, value, Self::bits, |a, b| truth(a == b))?,
                    [b'!', b'=', ..] | [b'<', b'>', ..] => {
                        value = self.operator(2, value, Self::bits, |a, b| truth(a != b))?;
                    }
                    [b'<', b'=', ..] => value = self.operator(2, value, Self::bits, |a, b| truth(a <= b))?,
                    [b'>', b'=', ..] => value = self.operator(2, value, Self::bits, |a, b| truth(a >= b))?,
                    [b'<', ..] => value = self.operator(1, value, Self::bits, |a, b| truth(a < b))?,
                    [b'>', ..] => value = self.operator(1, value, Self::bits, |a, b| truth(a > b))?,
                    _ => return Ok(value),
                },
            }
        }
    }

    fn bits(&mut self) -> Result<i64, Problem> {
        let mut value = self.product()?;
        loop {
            value = match self.rest() {
                [b'|', b'|', ..] | [b'&', b'&', ..] | [b'!', b'=', ..] => return Ok(value),
                [b'|', ..] => self.operator(1, value, Self::product, |a, b| a | b)?,
                [b'&', ..] => self.operator(1, value, Self::product, |a, b| a & b)?,
                [b'^', ..] => self.operator(1, value, Self::product, |a, b| a ^ b)?,
                [b'!', ..] => self.operator(1, value, Self::product, |a, b| a | !b)?,
                _ => return Ok(value),
            };
        }
    }

    fn product(&mut self) -> Result<i64, Problem> {
        let mut value = self.unary()?;
        loop {
            value = match self.rest() {
                [b'*', ..] => self.operator(1, value, Self::unary, i64::wrapping_mul)?,
                [b'/', ..] => self.checked(value, |a, b| a.checked_div(b))?,
                [b'%', ..] => self.checked(value, |a, b| a.checked_rem(b))?,
                [b'<', b'<', ..] => self.operator(2, value, Self::unary, shifted_left)?,
                [b'>', b'>', ..] => self.operator(2, value, Self::unary, |a, b| {
                    u32::try_from(b).ok().and_then(|b| (a as u64).checked_shr(b)).unwrap_or(0) as i64
                })?,
                _ => return Ok(value),
            };
        }
    }

    fn checked(&mut self, value: i64, of: fn(i64, i64) -> Option<i64>) -> Result<i64, Problem> {
        self.at += 1;
        self.skip();
        let other = self.unary()?;
        of(value, other).ok_or(Problem::Number)
    }

    fn operator(
        &mut self,
        length: usize,
        value: i64,
        next: fn(&mut Self) -> Result<i64, Problem>,
        of: fn(i64, i64) -> i64,
    ) -> Result<i64, Problem> {
        self.at += length;
        self.skip();
        Ok(of(value, next(self)?))
    }

    fn unary(&mut self) -> Result<i64, Problem> {
        // Signs are counted, not nested.
        let (mut negate, mut invert_first) = (false, None);
        let value = loop {
            match self.peek() {
                Some(b'-') => negate = !negate,
                Some(b'+') => {}
                Some(b'~') if invert_first.is_none() => {
                    invert_first = Some(negate);
                    negate = false;
                }
                Some(b'~') => return Err(Problem::Number),
                _ => break self.primary()?,
            }
            self.at += 1;
            self.skip();
        };
        let signed = |value: i64, negate| if negate { value.wrapping_neg() } else { value };
        let value = signed(value, negate);
        Ok(invert_first.map_or(value, |outer| signed(!value, outer)))
    }

    fn primary(&mut self) -> Result<i64, Problem> {
        let value = match self.peek().ok_or(Problem::Number)? {
            b'(' => {
                if self.depth == DEEPEST {
                    return Err(Problem::TooDeep);
                }
                self.depth += 1;
                self.at += 1;
                self.skip();
                let value = self.sum()?;
                self.depth -= 1;
                if self.peek() != Some(b')') {
                    return Err(Problem::Number);
                }
                self.at += 1;
                value
            }
            b'\'' => self.character()?,
            b'0'..=b'9' => self.digits()?,
            _ => {
                let (name, length) = name(self.rest()).ok_or(Problem::Number)?;
                self.at += length;
                *self.constants.get(name).ok_or(Problem::Number)?
            }
        };
        self.skip();
        Ok(value)
    }

    fn character(&mut self) -> Result<i64, Problem> {
        let rest = self.rest();
        let (value, mut length) = match rest {
            [_, b'\\', escaped, ..] => (escape(*escaped).ok_or(Problem::Number)?, 3),
            [_, byte, ..] => (*byte, 2),
            _ => return Err(Problem::Number),
        };
        length += usize::from(rest.get(length) == Some(&b'\''));
        self.at += length;
        Ok(value.into())
    }

    fn digits(&mut self) -> Result<i64, Problem> {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let digits = core::str::from_utf8(&rest[..length]).map_err(|_| Problem::Number)?;
        self.at += length;
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', _, ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        u64::from_str_radix(digits, radix).map(|value| value as i64).map_err(|_| Problem::Number)
    }
}

fn truth(value: bool) -> i64 {
    if value { -1 } else { 0 }
}

fn shifted_left(value: i64, by: i64) -> i64 {
    u32::try_from(by).ok().and_then(|by| value.checked_shl(by)).unwrap_or(0)
}

/// The byte of an escape of one character.
fn escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        b'\\' | b'"' | b'\'' => byte,
        _ => return None,
    })
}

/// Bytes of a string's text between its quotes: how many the assembler makes of it.
pub(super) fn string_length(text: &[u8]) -> u64 {
    let (mut length, mut at) = (0, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        length += 1;
        if byte != b'\\' {
            continue;
        }
        match text.get(at) {
            Some(b'0'..=b'7') => {
                let digits = text[at..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
                at += digits.count();
            }
            Some(b'x' | b'X') => {
                at += 1 + text[at + 1..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            }
            _ => at += 1,
        }
    }
    length
}
