//! Rows and rules, as C sees them.

use cfipack_format::{Cfa, FunctionOffset, Register, Row, Rule};

use crate::cfipack_status::{self, InvalidArgument};

/// There is no rule. If the return address has no rule, the frame is outermost. If another register has no
/// rule, its value cannot be recovered.
pub const CFIPACK_RULE_UNDEFINED: u32 = 0;
/// The register has the same value as in the frame that is unwound. A return address with this rule is in the link
/// register.
pub const CFIPACK_RULE_SAME_VALUE: u32 = 1;
/// The value of a register plus the offset.
pub const CFIPACK_RULE_REGISTER: u32 = 2;
/// The value in memory at a register plus the offset.
pub const CFIPACK_RULE_MEMORY: u32 = 3;
/// The value in memory at the CFA plus the offset.
pub const CFIPACK_RULE_CFA: u32 = 4;
/// The value of the CFA plus the offset. No table has this rule.
pub const CFIPACK_RULE_VALUE_CFA: u32 = 5;
/// A rule that only a DWARF expression can describe. No table has this rule.
pub const CFIPACK_RULE_EXPRESSION: u32 = 6;

/// A rule for the CFA or a register of the caller.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_rule {
    /// `CFIPACK_RULE_...`
    pub kind: u32,
    /// A DWARF register number, if the kind uses a register.
    pub reg: u32,
    /// The offset in bytes.
    pub offset: i64,
}

/// The rules for unwinding a frame. They hold from `start` to the start of the next row or the end of the function.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_row {
    /// The first PC of the row, in bytes from the start of the function.
    pub start: u32,
    /// AArch64: 1 if the return address is signed (`paciasp`) at this point.
    pub is_signed: u8,
    /// 1 if the frame is a signal frame. Then the caller's PC is not the address after a call.
    pub is_signal_frame: u8,
    /// Reserved: 0.
    pub reserved: u16,
    /// The canonical frame address.
    pub cfa: cfipack_rule,
    /// The return address.
    pub return_address: cfipack_rule,
    /// The caller's frame pointer.
    pub frame_pointer: cfipack_rule,
}

impl From<Cfa> for cfipack_rule {
    #[inline]
    fn from(cfa: Cfa) -> Self {
        match cfa {
            Cfa::Undefined => Self::new(CFIPACK_RULE_UNDEFINED, Register(0), 0),
            Cfa::Register { register, offset } => Self::new(CFIPACK_RULE_REGISTER, register, offset),
            Cfa::Memory { register, offset } => Self::new(CFIPACK_RULE_MEMORY, register, offset),
            Cfa::Expression => Self::new(CFIPACK_RULE_EXPRESSION, Register(0), 0),
        }
    }
}

impl From<Rule> for cfipack_rule {
    #[inline]
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Undefined => Self::new(CFIPACK_RULE_UNDEFINED, Register(0), 0),
            Rule::SameValue => Self::new(CFIPACK_RULE_SAME_VALUE, Register(0), 0),
            Rule::Cfa(offset) => Self::new(CFIPACK_RULE_CFA, Register(0), offset),
            Rule::ValCfa(offset) => Self::new(CFIPACK_RULE_VALUE_CFA, Register(0), offset),
            Rule::Register { register, offset } => Self::new(CFIPACK_RULE_REGISTER, register, offset),
            Rule::Memory { register, offset } => Self::new(CFIPACK_RULE_MEMORY, register, offset),
            Rule::Expression => Self::new(CFIPACK_RULE_EXPRESSION, Register(0), 0),
        }
    }
}

impl cfipack_rule {
    #[inline]
    fn new(kind: u32, register: Register, offset: i64) -> Self {
        Self { kind, reg: register.0.into(), offset }
    }

    fn register(self) -> Result<Register, cfipack_status> {
        u16::try_from(self.reg).map(Register).map_err(|_| InvalidArgument)
    }

    fn cfa(self) -> Result<Cfa, cfipack_status> {
        let offset = self.offset;
        Ok(match self.kind {
            CFIPACK_RULE_UNDEFINED => Cfa::Undefined,
            CFIPACK_RULE_REGISTER => Cfa::Register { register: self.register()?, offset },
            CFIPACK_RULE_MEMORY => Cfa::Memory { register: self.register()?, offset },
            CFIPACK_RULE_EXPRESSION => Cfa::Expression,
            _ => return Err(InvalidArgument),
        })
    }

    fn rule(self) -> Result<Rule, cfipack_status> {
        let offset = self.offset;
        Ok(match self.kind {
            CFIPACK_RULE_UNDEFINED => Rule::Undefined,
            CFIPACK_RULE_SAME_VALUE => Rule::SameValue,
            CFIPACK_RULE_REGISTER => Rule::Register { register: self.register()?, offset },
            CFIPACK_RULE_MEMORY => Rule::Memory { register: self.register()?, offset },
            CFIPACK_RULE_CFA => Rule::Cfa(offset),
            CFIPACK_RULE_VALUE_CFA => Rule::ValCfa(offset),
            CFIPACK_RULE_EXPRESSION => Rule::Expression,
            _ => return Err(InvalidArgument),
        })
    }
}

impl cfipack_row {
    /// Converts a row.
    #[inline]
    pub(crate) fn new(row: &Row, is_signal_frame: bool) -> Self {
        let new = |cfa, return_address, frame_pointer| Self {
            start: row.start.0,
            is_signed: row.signed.into(),
            is_signal_frame: is_signal_frame.into(),
            reserved: 0,
            cfa,
            return_address,
            frame_pointer,
        };
        // Tests the rules of almost all PCs first. A separate match for each rule is a jump that processors
        // predict badly.
        match (row.cfa, row.return_address, row.frame_pointer) {
            (Cfa::Register { .. }, Rule::Cfa(_), Rule::Cfa(_) | Rule::SameValue) => {
                let offset = if let Rule::Cfa(offset) = row.frame_pointer { offset } else { 0 };
                let is_stored = matches!(row.frame_pointer, Rule::Cfa(_));
                let kind = if is_stored { CFIPACK_RULE_CFA } else { CFIPACK_RULE_SAME_VALUE };
                new(row.cfa.into(), row.return_address.into(), cfipack_rule::new(kind, Register(0), offset))
            }
            _ => {
                let [cfa, return_address, frame_pointer] = rules(row);
                new(cfa, return_address, frame_pointer)
            }
        }
    }

    /// Converts a row from the caller.
    pub(crate) fn get(&self) -> Result<Row, cfipack_status> {
        Ok(Row {
            start: FunctionOffset(self.start),
            cfa: self.cfa.cfa()?,
            return_address: self.return_address.rule()?,
            frame_pointer: self.frame_pointer.rule()?,
            signed: crate::arguments::flag(self.is_signed)?,
        })
    }
}

/// Converts the rules of any row: the CFA, the return address and the frame pointer.
#[inline(never)]
fn rules(row: &Row) -> [cfipack_rule; 3] {
    [row.cfa.into(), row.return_address.into(), row.frame_pointer.into()]
}
