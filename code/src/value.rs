//! The knowledge about a value, and places on the stack.

use cfipack_format::Register;

use crate::instruction::{Index, register_of};

/// The value of a register or a stack slot, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Value {
    /// Nothing is known about the value.
    Unknown,
    /// The value that a register had at the function's entry.
    Caller(Register),
    /// The return address with a pointer-authentication signature (AArch64).
    Signed,
    /// Either the value that a register had at the function's entry, or any other value. There are two cases:
    ///
    /// - A called function has kept the return address in a register that the ABI lets it change. Functions in
    ///   assembler make this kind of agreement with each other.
    /// - Calls before a landing pad disagree about the place of a callee-saved register, because some of them cannot
    ///   throw.
    Perhaps(Register),
    /// The CFA plus this number of bytes: an address in the frame.
    Cfa(i32),
    /// An address without a known distance to the CFA, plus this number of bytes. For example, it comes from aligning
    /// the stack pointer. The first number identifies the instruction that made the address.
    Site(u16, i32),
    /// A constant.
    Number(i32),
    /// The address of the function's start plus this number of bytes.
    Near(i32),
    /// An entry that was loaded from a jump table. The number identifies the table in the analysis.
    Entry(u32),
    /// The code address that a table entry gives. The number identifies the table in the analysis.
    Target(u32),
}

/// The first number of a [`Value::Site`] or a [`Place`] that is relative to a caller's register: the register's number
/// is added. Instructions have smaller numbers.
pub(crate) const OUTSIDE: u16 = 0xff00;
/// The numbers of places with a known address, and of places relative to the function's start.
const ABSOLUTE: u16 = u16::MAX;
const NEAR: u16 = u16::MAX - 1;

/// Returns the number of addresses that are relative to the value of a register at the entry.
fn outside_of(register: Register) -> u16 {
    OUTSIDE + register.0.min(NEAR - 1 - OUTSIDE)
}

impl Value {
    /// Returns the value that a register has at the entry.
    pub(crate) fn caller(index: Index) -> Self {
        Self::Caller(register_of(index))
    }

    /// Returns the value plus a constant.
    pub(crate) fn plus(self, add: i32) -> Self {
        match self {
            value if add == 0 => value,
            Self::Cfa(offset) => offset.checked_add(add).map_or(Self::Unknown, Self::Cfa),
            Self::Site(site, offset) => match (offset.checked_add(add), site.checked_sub(OUTSIDE)) {
                (Some(0), Some(register)) => Self::Caller(Register(register)),
                (Some(offset), _) => Self::Site(site, offset),
                (None, _) => Self::Unknown,
            },
            Self::Number(value) => value.checked_add(add).map_or(Self::Unknown, Self::Number),
            Self::Near(offset) => offset.checked_add(add).map_or(Self::Unknown, Self::Near),
            Self::Caller(register) => Self::Site(outside_of(register), add),
            Self::Unknown | Self::Signed | Self::Perhaps(_) | Self::Entry(_) | Self::Target(_) => {
                Self::Unknown
            }
        }
    }

    /// Joins the values that two paths bring.
    pub(crate) fn joined(self, other: Self) -> Self {
        match (self, other) {
            _ if self == other => self,
            (Self::Caller(own), Self::Perhaps(other)) | (Self::Perhaps(own), Self::Caller(other))
                if own == other =>
            {
                Self::Perhaps(own)
            }
            _ => Self::Unknown,
        }
    }

    /// Returns the register whose value at the entry this value is, or differs from by a constant.
    pub(crate) fn origin(self) -> Option<Register> {
        match self {
            Self::Caller(register) => Some(register),
            Self::Site(site, _) => site.checked_sub(OUTSIDE).map(Register),
            _ => None,
        }
    }

    /// Returns the place in memory that the value points at, if the value is an address on the stack.
    pub(crate) fn place(self) -> Option<Place> {
        match self {
            Self::Cfa(offset) => Some(Place::new(None, offset)),
            Self::Site(site, offset) => Some(Place::new(Some(site), offset)),
            Self::Unknown
            | Self::Caller(_)
            | Self::Signed
            | Self::Perhaps(_)
            | Self::Number(_)
            | Self::Near(_)
            | Self::Entry(_)
            | Self::Target(_) => None,
        }
    }

    /// Returns the place in memory outside of the frame that the value points at. The place is relative to the value
    /// that a register had at the entry, or it has a known address.
    pub(crate) fn outside(self) -> Option<Place> {
        match self {
            Self::Caller(register) => Some(Place::new(Some(outside_of(register)), 0)),
            Self::Number(address) => Some(Place::new(Some(ABSOLUTE), address)),
            Self::Near(offset) => Some(Place::new(Some(NEAR), offset)),
            Self::Unknown
            | Self::Signed
            | Self::Perhaps(_)
            | Self::Cfa(_)
            | Self::Site(..)
            | Self::Entry(_)
            | Self::Target(_) => None,
        }
    }

    /// Returns whether a stack pointer with this value can point into another stack: the value does not come from the
    /// stack pointer at the entry.
    pub(crate) fn can_be_other_stack(self) -> bool {
        match self {
            Self::Cfa(_) => false,
            Self::Site(site, _) => site >= OUTSIDE,
            _ => true,
        }
    }

    /// Returns the place in memory that the value points at, in the frame or outside.
    pub(crate) fn anywhere(self) -> Option<Place> {
        self.place().or_else(|| self.outside())
    }

    /// Returns whether a slot with this value is worth remembering.
    pub(crate) fn is_followed(self) -> bool {
        match self {
            Self::Caller(_) | Self::Signed | Self::Perhaps(_) | Self::Cfa(_) | Self::Site(..) => true,
            Self::Unknown | Self::Number(_) | Self::Near(_) | Self::Entry(_) | Self::Target(_) => false,
        }
    }
}

/// A place on the stack, as an offset from the CFA or from an address that an instruction made. Both parts are packed
/// into one number, because places are compared more often than they are changed. Places relative to the CFA come
/// first, and offsets from the same origin ascend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// Makes the place `offset` bytes from the CFA, or from the address that instruction `site` made.
    #[inline]
    pub fn new(site: Option<u16>, offset: i32) -> Self {
        let origin = site.map_or(0, |site| u64::from(site) + 1);
        Self(origin << 32 | u64::from(offset as u32 ^ 1 << 31))
    }

    /// Returns the instruction that made the place's origin, or `None` for the CFA.
    #[inline]
    pub fn site(self) -> Option<u16> {
        // The number is at most 2^16.
        (self.0 >> 32).checked_sub(1).map(|site| site as u16)
    }

    /// Returns whether the place can be in the function's frame.
    #[inline]
    pub fn is_in_frame(self) -> bool {
        self.site().is_none_or(|site| site < OUTSIDE)
    }

    /// Returns the offset from the origin in bytes.
    #[inline]
    pub fn offset(self) -> i32 {
        (self.0 as u32 ^ 1 << 31) as i32
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("site", &self.site()).field("offset", &self.offset()).finish()
    }
}
