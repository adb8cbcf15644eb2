//! One step up the stack: from a row and the registers of a frame to the registers of its caller.

use cfipack_format::{Address, Arch, Cfa, Register, RegisterName, Row, Rule};

/// The known registers of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Registers<'r> {
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: Option<u64>,
    /// The link register. Only the innermost frame and a frame that a signal interrupted have it. x86 has no
    /// link register.
    pub lr: Option<u64>,
    /// Other registers, by DWARF number. A FLEX row may name any register. In practice this works only in the
    /// innermost frame, because a table restores no register except the frame pointer.
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

/// The registers of the caller, as [`step`] finds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The return address. It points after the call, so look up the byte before it. Only if the frame that you
    /// stepped from is a signal frame ([`Frame::is_signal_frame`](super::Frame::is_signal_frame)), look up `pc`
    /// itself.
    pub pc: Address,
    /// True if the row encodes that `pc` is signed (AArch64 pointer authentication). `pc` still has the
    /// signature: remove it with [`Caller::without_signature`], or with a function of the operating system.
    pub signed: bool,
    /// The canonical frame address of the frame that you stepped from.
    pub cfa: Address,
    /// The caller's stack pointer: the CFA, or on s390x the CFA minus 160 bytes.
    pub sp: u64,
    /// The caller's frame pointer, or `None` if it cannot be recovered.
    pub fp: Option<u64>,
}

impl Caller {
    /// Returns the return address without its signature.
    ///
    /// A signature lies in the upper bits and leaves bit 55 alone. So this function sets the upper bits to
    /// the value of bit 55. `address_bits` is the number of bits in an address: 48 on most AArch64 systems,
    /// at most 55.
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

    /// Returns the registers for the next step. A caller has no link register, and no other register except the
    /// stack pointer and the frame pointer is known.
    pub fn registers(&self) -> Registers<'static> {
        Registers { sp: self.sp, fp: self.fp, lr: None, others: &[] }
    }
}

cfipack_format::errors! {
    /// The reason why [`step`] finds no caller.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum StepError {
        /// The row encodes an outermost frame. This is the normal end of a stack.
        #[error("the frame is outermost")]
        Outermost,
        /// A rule needs a register that is not known. In a caller, only the stack pointer and the frame
        /// pointer are known, see [`Row::innermost_register`].
        #[error("the value of {} is not known{}", RegisterName(arch, register), why_unknown(arch, register))]
        Register {
            /// The architecture, which gives the register its name.
            arch: Arch,
            /// The register.
            register: Register,
        },
        /// A word of memory could not be read.
        #[error("no memory at {address}")]
        Memory {
            /// The address.
            address: Address,
        },
        /// The row has a rule that only CFI can represent, or no rule for the CFA. A table never has such a
        /// row.
        #[error("a rule that no table has")]
        Rule,
    }
}

/// Returns the reason why a register is not known, or nothing for a register that a table can restore.
fn why_unknown(arch: Arch, register: Register) -> &'static str {
    if register == arch.stack_pointer() || register == arch.frame_pointer() {
        return "";
    }
    ": a table does not restore it for a caller"
}

/// Steps from a frame to its caller. `memory` returns the pointer at an address of the stack, in the byte order
/// of the machine, or `None` if it cannot read the address.
///
/// If the frame pointer cannot be recovered, this is not an error: [`Caller::fp`] is `None`.
///
/// # Errors
/// The frame is outermost, the row needs a register or a word of memory that is not known, or the row has a
/// rule that no table has.
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
    // The most common rules are tested first: CPUs predict the jump of a larger `match` badly.
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

/// Returns the caller's value of a register, by a rule of any kind.
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
