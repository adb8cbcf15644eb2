//! CFI directives of a function, as an array.

use core::ffi::c_char;

use cfipack_assembler::Directives;
use cfipack_cfi::PointerEncoding;
use cfipack_format::{Arch, Key, Register};

use crate::arguments::array;
use crate::cfipack_status;
use crate::handle::Failure;

// C has no `.cfi_negate_ra_state_with_pc`, `.cfi_mte_tagged_frame` and `.cfi_label`, and no operands of `.cfi_escape`
// but bytes.

/// `.cfi_def_cfa reg, value`
pub const CFIPACK_CFI_DEF_CFA: u32 = 1;
/// `.cfi_def_cfa_offset value`
pub const CFIPACK_CFI_DEF_CFA_OFFSET: u32 = 2;
/// `.cfi_adjust_cfa_offset value`
pub const CFIPACK_CFI_ADJUST_CFA_OFFSET: u32 = 3;
/// `.cfi_def_cfa_register reg`
pub const CFIPACK_CFI_DEF_CFA_REGISTER: u32 = 4;
/// `.cfi_offset reg, value`: the register is saved at the CFA plus `value` bytes.
pub const CFIPACK_CFI_OFFSET: u32 = 5;
/// `.cfi_rel_offset reg, value`: the register is saved at the CFA's register plus `value` bytes.
pub const CFIPACK_CFI_REL_OFFSET: u32 = 6;
/// `.cfi_val_offset reg, value`: the value of the register is the CFA plus `value` bytes.
pub const CFIPACK_CFI_VAL_OFFSET: u32 = 7;
/// `.cfi_register reg, value`: the register is saved in register number `value`.
pub const CFIPACK_CFI_REGISTER: u32 = 8;
/// `.cfi_restore reg`
pub const CFIPACK_CFI_RESTORE: u32 = 9;
/// `.cfi_undefined reg`
pub const CFIPACK_CFI_UNDEFINED: u32 = 10;
/// `.cfi_same_value reg`
pub const CFIPACK_CFI_SAME_VALUE: u32 = 11;
/// `.cfi_remember_state`
pub const CFIPACK_CFI_REMEMBER_STATE: u32 = 12;
/// `.cfi_restore_state`
pub const CFIPACK_CFI_RESTORE_STATE: u32 = 13;
/// `.cfi_negate_ra_state`
pub const CFIPACK_CFI_NEGATE_RA_STATE: u32 = 14;
/// `.cfi_window_save`
pub const CFIPACK_CFI_WINDOW_SAVE: u32 = 15;
/// `.cfi_escape` with `bytes`.
pub const CFIPACK_CFI_ESCAPE: u32 = 16;
/// `.cfi_signal_frame`. It applies to the whole function.
pub const CFIPACK_CFI_SIGNAL_FRAME: u32 = 17;
/// `.cfi_b_key_frame`. It applies to the whole function.
pub const CFIPACK_CFI_B_KEY_FRAME: u32 = 18;
/// `.cfi_return_column reg`. It applies to the whole function.
pub const CFIPACK_CFI_RETURN_COLUMN: u32 = 19;
/// `.cfi_personality`: `reg` is the pointer encoding (`DW_EH_PE_...`), and `value` is the address of the routine.
pub const CFIPACK_CFI_PERSONALITY: u32 = 20;
/// `.cfi_lsda`: `reg` is the pointer encoding, and `value` is the address of the LSDA.
pub const CFIPACK_CFI_LSDA: u32 = 21;

/// `.cfi_set_ra_state`: `reg` is the state, and `value` is the distance in bytes to the instruction that signs.
pub const CFIPACK_CFI_SET_RA_STATE: u32 = 22;

/// A CFI directive, as in assembler source. A function starts with the default rules of its architecture.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_directive {
    /// The offset in bytes from the function's start, just after the instruction that the directive describes.
    /// Offsets ascend.
    pub offset: u64,
    /// `CFIPACK_CFI_...`
    pub kind: u32,
    /// A DWARF register number, if the kind uses a register.
    pub reg: u32,
    /// A number of bytes, a register or an address, if the kind uses a value.
    pub value: i64,
    /// The bytes of `CFIPACK_CFI_ESCAPE`.
    pub bytes: *const u8,
    /// The number of elements in `bytes`.
    pub num_bytes: usize,
}

/// Converts an array of directives.
///
/// # Safety
/// The bytes that a directive points to are readable.
pub(crate) unsafe fn directives(
    arch: Arch,
    code_len: u64,
    given: &[cfipack_directive],
) -> Result<Directives, Failure> {
    let mut directives = Directives::new(arch, code_len);
    for directive in given {
        // SAFETY: promised by the caller.
        unsafe { add(&mut directives, directive) }?;
    }
    Ok(directives)
}

unsafe fn add(directives: &mut Directives, given: &cfipack_directive) -> Result<(), Failure> {
    let number = |number: u32| match u16::try_from(number) {
        Ok(number) => Ok(Register(number)),
        Err(_) => {
            Err(Failure::argument(&format_args!("directive at {:#x}: register {number}", given.offset)))
        }
    };
    let encoding = || match u8::try_from(given.reg) {
        Ok(encoding) => Ok(PointerEncoding(encoding)),
        Err(_) => Err(Failure::argument(&format_args!("pointer encoding {:#x}", given.reg))),
    };
    let (value, address) = (given.value, Key(given.value.cast_unsigned()));
    let at = directives.at(given.offset);
    match given.kind {
        CFIPACK_CFI_DEF_CFA => at.def_cfa(number(given.reg)?, value),
        CFIPACK_CFI_DEF_CFA_OFFSET => at.def_cfa_offset(value),
        CFIPACK_CFI_ADJUST_CFA_OFFSET => at.adjust_cfa_offset(value),
        CFIPACK_CFI_DEF_CFA_REGISTER => at.def_cfa_register(number(given.reg)?),
        CFIPACK_CFI_OFFSET => at.offset(number(given.reg)?, value),
        CFIPACK_CFI_REL_OFFSET => at.rel_offset(number(given.reg)?, value),
        CFIPACK_CFI_VAL_OFFSET => at.val_offset(number(given.reg)?, value),
        CFIPACK_CFI_REGISTER => {
            let source = number(u32::try_from(value).unwrap_or(u32::MAX))?;
            at.register_in(number(given.reg)?, source)
        }
        CFIPACK_CFI_RESTORE => at.restore(number(given.reg)?),
        CFIPACK_CFI_UNDEFINED => at.undefined(number(given.reg)?),
        CFIPACK_CFI_SAME_VALUE => at.same_value(number(given.reg)?),
        CFIPACK_CFI_REMEMBER_STATE => at.remember_state(),
        CFIPACK_CFI_RESTORE_STATE => at.restore_state(),
        CFIPACK_CFI_NEGATE_RA_STATE => at.negate_ra_state(),
        CFIPACK_CFI_SET_RA_STATE => at.set_ra_state(given.reg.into(), value),
        CFIPACK_CFI_WINDOW_SAVE => at.window_save(),
        // SAFETY: promised by the caller.
        CFIPACK_CFI_ESCAPE => at.escape(unsafe { array(given.bytes, given.num_bytes) }?),
        CFIPACK_CFI_SIGNAL_FRAME => at.signal_frame(),
        CFIPACK_CFI_B_KEY_FRAME => at.b_key_frame(),
        CFIPACK_CFI_RETURN_COLUMN => at.return_column(number(given.reg)?),
        CFIPACK_CFI_PERSONALITY => at.personality(encoding()?, address),
        CFIPACK_CFI_LSDA => at.lsda(encoding()?, address),
        kind => return Err(Failure::argument(&format_args!("directive of kind {kind}"))),
    };
    Ok(())
}

/// Reads a name; null is the empty name.
///
/// # Safety
/// The name is null or ends with a zero.
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Result<&'a str, cfipack_status> {
    if name.is_null() {
        return Ok("");
    }
    // SAFETY: promised by the caller.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    name.to_str().map_err(|_| cfipack_status::InvalidArgument)
}
