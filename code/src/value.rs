//! Knowledge about values, followed from a function's entry without its CFI.

use cfipack_format::Register;

use crate::instruction::{Index, register_of};

/// The knowledge about the value of a register or a slot of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// Nothing.
    Unknown,
    /// The value that a register had at the function's entry.
    Caller(Register),
    /// The return address, signed.
    Signed,
    /// The value that a register had at the function's entry, or any other. Of the return address, if a function that was
    /// called has kept a register that the ABI lets it change: functions in assembler agree on that among themselves. Of a
    /// register that the function keeps, behind a landing pad, if some of the calls before it leave it here and others not.
    Perhaps(Register),
    /// The CFA plus this: a place in the frame.
    Cfa(i32),
    /// A value that one instruction made and that has no known distance from the CFA, plus this: what aligning a stack
    /// pointer leaves. The number is that of the instruction among such.
    Site(u16, i32),
    /// A constant.
    Number(i32),
    /// An address: the function's start plus this.
    Near(i32),
    /// An entry of a table, by its number in the analysis.
    Entry(u32),
    /// The target that an entry of a table gives, by its number in the analysis.
    Target(u32),
}

impl Value {
    /// The value of a register at the entry.
    pub(crate) fn caller(index: Index) -> Self {
        Self::Caller(register_of(index))
    }

    /// The value plus `add`.
    pub(crate) fn plus(self, add: i32) -> Self {
        match self {
            value if add == 0 => value,
            Self::Cfa(offset) => offset.checked_add(add).map_or(Self::Unknown, Self::Cfa),
            Self::Site(site, offset) => {
                offset.checked_add(add).map_or(Self::Unknown, |offset| Self::Site(site, offset))
            }
            Self::Number(value) => value.checked_add(add).map_or(Self::Unknown, Self::Number),
            Self::Near(offset) => offset.checked_add(add).map_or(Self::Unknown, Self::Near),
            Self::Unknown
            | Self::Caller(_)
            | Self::Signed
            | Self::Perhaps(_)
            | Self::Entry(_)
            | Self::Target(_) => Self::Unknown,
        }
    }

    /// Joins the values that two ways bring.
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

    /// The place in memory that the value points at.
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

    /// Returns whether a slot with the value is worth following.
    pub(crate) fn is_followed(self) -> bool {
        match self {
            Self::Caller(_) | Self::Signed | Self::Perhaps(_) | Self::Cfa(_) | Self::Site(..) => true,
            Self::Unknown | Self::Number(_) | Self::Near(_) | Self::Entry(_) | Self::Target(_) => false,
        }
    }
}

/// A place on the stack: bytes from the CFA, or from what an instruction made. One number, because states are compared more
/// often than changed: places from the CFA are the lowest, and those of one origin are ascending.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

impl Place {
    /// So many bytes from what an instruction made, by its number, or from the CFA.
    #[inline]
    pub fn new(site: Option<u16>, offset: i32) -> Self {
        let origin = site.map_or(0, |site| u64::from(site) + 1);
        Self(origin << 32 | u64::from(offset as u32 ^ 1 << 31))
    }

    /// The instruction that made what the place is counted from; none for the CFA.
    #[inline]
    pub fn site(self) -> Option<u16> {
        // At most 2^16.
        (self.0 >> 32).checked_sub(1).map(|site| site as u16)
    }

    /// Bytes.
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
