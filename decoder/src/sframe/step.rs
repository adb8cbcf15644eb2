//! One step up the stack: from a row and the registers of a frame to those of its caller.

use core::fmt;

use cfipack_format::{Address, Arch, Cfa, Register, RegisterName, Row, Rule};

/// The registers of a frame, as far as they are known.
#[derive(Clone, Copy, Debug)]
pub struct Registers<'r> {
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: Option<u64>,
    /// The link register. Only the innermost frame, and one that a signal interrupted, have it;
    /// x86 has none.
    pub lr: Option<u64>,
    /// Others, by DWARF number. A FLEX row may name any of them; in practice only in the innermost
    /// frame, since a table restores none but the frame pointer.
    pub others: &'r [(Register, u64)],
}

impl Registers<'_> {
    #[inline]
    fn get(&self, register: Register, arch: Arch) -> Result<u64, StepError> {
        let known = if register == arch.stack_pointer() {
            Some(self.sp)
        } else if register == arch.frame_pointer() {
            self.fp
        } else if register == arch.return_address() {
            self.lr
        } else {
            self.others.iter().find(|(other, _)| *other == register).map(|&(_, value)| value)
        };
        known.ok_or(StepError::Register { arch, register })
    }
}

/// The caller's registers as [`step`] finds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The return address: after the call, so that a lookup should be made for the byte before
    /// it, unless the frame stepped from is a signal frame
    /// ([`Frame::is_signal_frame`](super::Frame::is_signal_frame)).
    pub pc: Address,
    /// True if the row encodes that `pc` carries a signature (AArch64 pointer authentication). It is as
    /// read: strip it with [`Caller::without_signature`], or with what the system offers.
    pub signed: bool,
    /// The canonical frame address of the frame stepped from.
    pub cfa: Address,
    /// The caller's stack pointer: the CFA, on s390x 160 bytes below it.
    pub sp: u64,
    /// The caller's frame pointer, if it can be recovered.
    pub fp: Option<u64>,
}

impl Caller {
    /// The return address without its signature, if it has one: the upper bits as bit 55 has them,
    /// which the signature leaves alone. `address_bits` is how many bits an address has, 48 on most
    /// AArch64 systems, at most 55.
    pub fn without_signature(&self, address_bits: u32) -> Address {
        if !self.signed {
            return self.pc;
        }
        let upper = u64::MAX.checked_shl(address_bits).unwrap_or(0);
        match self.pc.0 >> 55 & 1 {
            0 => Address(self.pc.0 & !upper),
            _ => Address(self.pc.0 | upper),
        }
    }

    /// The registers from which the next step starts: a caller has no link register and no other register of which
    /// anything is known.
    pub fn registers(&self) -> Registers<'static> {
        Registers { sp: self.sp, fp: self.fp, lr: None, others: &[] }
    }
}

/// The reason why there is no caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StepError {
    /// The row encodes an outermost frame: how a stack ends.
    Outermost,
    /// A rule needs a register that is not known: in a caller any but the stack pointer and the frame pointer,
    /// see [`Row::innermost_register`].
    Register {
        /// The architecture, which gives the register its name.
        arch: Arch,
        /// The register.
        register: Register,
    },
    /// Memory that could not be read.
    Memory {
        /// The address.
        address: Address,
    },
    /// A rule that no table has: what only CFI can represent, or a CFA without a rule.
    Rule,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outermost => f.write_str("the frame is outermost"),
            Self::Register { arch, register } => {
                write!(f, "the value of {} is not known", RegisterName(*arch, *register))?;
                if *register == arch.stack_pointer() || *register == arch.frame_pointer() {
                    return Ok(());
                }
                f.write_str(": a table does not restore it for a caller")
            }
            Self::Memory { address } => write!(f, "no memory at {address}"),
            Self::Rule => f.write_str("a rule that no table has"),
        }
    }
}

impl core::error::Error for StepError {}

/// Steps from a frame to its caller. `memory` reads the pointer at an address of the stack, in the
/// byte order of the machine.
///
/// A frame pointer that cannot be recovered is no error until a row needs it.
///
/// # Errors
/// The frame is outermost, the row needs a register or a word of memory that is not known, or it has a rule
/// that no table has.
///
/// # Example
/// ```
/// use cfipack_decoder::sframe::{Registers, Section, step};
/// use cfipack_format::Address;
///
/// // A function with a frame pointer at 0x1000: push rbp; mov rbp, rsp; nop; pop rbp; ret.
/// let table = [
///     0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // header
///     0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, // index
///     4, 0, 0, 0, 0, 0, 3, 8, 1, 5, 16, 0xf0, 4, 4, 16, 0xf0, 6, 5, 8, 0xf0, // rows
/// ];
/// let section = Section::parse(&table, Address(0x2000))?;
/// // Interrupted in the body.
/// let row = section.lookup(Address(0x1004))?.expect("the table has this PC");
/// let registers = Registers { sp: 0x7ff0, fp: Some(0x7ff0), lr: None, others: &[] };
/// let stack = |address: Address| match address.0 {
///     0x7ff0 => Some(0x8010), // the caller's rbp
///     0x7ff8 => Some(0x1234), // the return address
///     _ => None,
/// };
/// let caller = step(section.arch(), &row, &registers, stack)?;
/// assert_eq!((caller.pc, caller.sp, caller.fp), (Address(0x1234), 0x8000, Some(0x8010)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[inline(always)]
pub fn step(
    arch: Arch,
    row: &Row,
    registers: &Registers<'_>,
    mut memory: impl FnMut(Address) -> Option<u64>,
) -> Result<Caller, StepError> {
    if row.return_address == Rule::Undefined {
        return Err(StepError::Outermost);
    }
    let mut read = |address: u64| {
        let address = Address(address);
        memory(address).ok_or(StepError::Memory { address })
    };
    let cfa = match row.cfa {
        Cfa::Register { register, offset } => registers.get(register, arch)?.wrapping_add_signed(offset),
        Cfa::Memory { register, offset } => read(registers.get(register, arch)?.wrapping_add_signed(offset))?,
        Cfa::Undefined | Cfa::Expression => return Err(StepError::Rule),
    };
    // The rules of almost all rows are not left to a jump, which processors predict badly.
    let pc = match row.return_address {
        Rule::Cfa(offset) => read(cfa.wrapping_add_signed(offset))?,
        rule => other_rule(arch, rule, arch.return_address(), cfa, registers, &mut read)?,
    };
    let fp = match row.frame_pointer {
        Rule::Cfa(offset) => read(cfa.wrapping_add_signed(offset)).ok(),
        Rule::SameValue => registers.fp,
        rule => match other_rule(arch, rule, arch.frame_pointer(), cfa, registers, &mut read) {
            Err(StepError::Register { .. } | StepError::Memory { .. }) => None,
            fp => Some(fp?),
        },
    };
    let sp = cfa.wrapping_add_signed(arch.stack_pointer_from_cfa());
    Ok(Caller { pc: Address(pc), signed: row.signed, cfa: Address(cfa), sp, fp })
}

/// The caller's value of a register by a rule of any kind.
#[inline(never)]
fn other_rule(
    arch: Arch,
    rule: Rule,
    register: Register,
    cfa: u64,
    registers: &Registers<'_>,
    read: &mut impl FnMut(u64) -> Result<u64, StepError>,
) -> Result<u64, StepError> {
    match rule {
        Rule::SameValue => registers.get(register, arch),
        Rule::Cfa(offset) => read(cfa.wrapping_add_signed(offset)),
        Rule::Register { register, offset } => Ok(registers.get(register, arch)?.wrapping_add_signed(offset)),
        Rule::Memory { register, offset } => read(registers.get(register, arch)?.wrapping_add_signed(offset)),
        Rule::Undefined => Err(StepError::Register { arch, register }),
        Rule::ValCfa(_) | Rule::Expression => Err(StepError::Rule),
    }
}
