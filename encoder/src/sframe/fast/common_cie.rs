//! The CIEs of common functions.

use cfipack_format::sframe::FdeInfo;
use cfipack_format::{Arch, Cfa, Endian, Register, Row, Rule};

use crate::cfi::StackPointer;
use crate::cfi::{Cie, Registers, State};
use crate::sframe::fast::pattern::Pattern;
use crate::sframe::fast::rules::Rules;
use crate::sframe::fast::track::Reading;

/// The state in which the common functions of a CIE begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CommonCie {
    pub(crate) rules: Rules,
    /// The offset of the CFA.
    pub(crate) offset: u32,
    /// The pattern of the rows until an instruction changes more than `offset`.
    pub(crate) pattern: Pattern,
    /// The row after the CIE's instructions.
    row: Row,
    arch: Arch,
    frame_pointer: Register,
    pub(crate) reading: Reading,
    data_alignment: i64,
    /// The FDE flags that hold for the whole function.
    pub(crate) info: FdeInfo,
}

impl CommonCie {
    /// Creates the state of the CIE with a number. `state` is the interpreter's state after the CIE's
    /// instructions. Returns `None` if the functions of the CIE are not common.
    pub(crate) fn new(
        number: u8,
        cie: &Cie<'_>,
        state: &State<'_, StackPointer>,
        arch: Arch,
        info: FdeInfo,
    ) -> Option<Self> {
        let row = state.row;
        let Cfa::Register { register, offset } = row.cfa else { return None };
        let offset = u32::try_from(offset).ok().filter(|&offset| offset <= Pattern::MAX_OFFSET)?;
        let is_usual = cie.return_address == arch.return_address()
            && state.registers.is_unset()
            && state.cfa_expression.is_empty();
        if arch.endian() == Endian::Big || !is_usual {
            return None;
        }
        // No compiler has larger code alignment factors. With this limit, locations cannot overflow.
        let code_alignment = u64::from(u8::try_from(cie.code_alignment).ok().filter(|&factor| factor != 0)?);
        let rules = Rules::new(number, is_frame_pointer(arch, register)?, row.signed);
        let reading = Reading { code_alignment, ignored: state.registers.ignored(arch) };
        let (frame_pointer, data_alignment) = (arch.frame_pointer(), cie.data_alignment);
        let pattern = Pattern::NONE;
        let cie = Self { rules, offset, pattern, row, arch, frame_pointer, reading, data_alignment, info };
        Some(Self { pattern: cie.pattern(rules)?, ..cie })
    }

    /// Returns whether the common functions of another CIE give the same rows.
    pub(crate) fn means_the_same(&self, other: &Self) -> bool {
        *self == Self { rules: other.rules.of_cie(self.rules), ..*other }
    }

    /// Returns the pattern of a row with these rules.
    #[cold]
    pub(crate) fn pattern(&self, rules: Rules) -> Option<Pattern> {
        let base =
            if rules.is_on_frame_pointer() { self.arch.frame_pointer() } else { self.arch.stack_pointer() };
        let rule = |shift, initial| match rules.operand(shift) {
            0 => initial,
            operand => Rule::Cfa(i64::from(operand).wrapping_mul(self.data_alignment)),
        };
        let row = Row {
            cfa: Cfa::Register { register: base, offset: 0 },
            frame_pointer: rule(Rules::FRAME_POINTER, self.row.frame_pointer),
            return_address: rule(Rules::RETURN_ADDRESS, self.row.return_address),
            signed: rules.is_signed(),
            ..self.row
        };
        Pattern::new(self.arch, &row)
    }

    pub(crate) fn is_aarch64(&self) -> bool {
        self.arch.is_aarch64()
    }

    /// Returns whether an instruction saves or restores the frame pointer or the return address.
    #[inline(always)]
    pub(crate) fn is_of_frame_record(&self, opcode: u8) -> bool {
        let register = Register((opcode & 0x3f).into());
        opcode >= 0x80 && (register == self.frame_pointer || register == self.arch.return_address())
    }

    /// Calls the function [`is_frame_pointer`] with a register's number.
    #[inline]
    pub(crate) fn is_frame_pointer(&self, register: u8) -> Option<bool> {
        is_frame_pointer(self.arch, Register(register.into()))
    }

    /// Sets the rule of the frame pointer or the return address. Returns `None` for any other register.
    #[inline(always)]
    pub(crate) fn with(&self, rules: Rules, register: u8, operand: u8) -> Option<Rules> {
        let register = Register(register.into());
        if register == self.frame_pointer {
            Some(rules.with(Rules::FRAME_POINTER, operand))
        } else if register == self.arch.return_address() {
            Some(rules.with(Rules::RETURN_ADDRESS, operand))
        } else {
            None
        }
    }
}

/// Returns whether a CFA is counted from the frame pointer, or `None` if it is counted neither from the frame
/// pointer nor from the stack pointer.
fn is_frame_pointer(arch: Arch, register: Register) -> Option<bool> {
    let is_frame_pointer = register == arch.frame_pointer();
    (is_frame_pointer || register == arch.stack_pointer()).then_some(is_frame_pointer)
}
