//! Steps from a frame to its caller.

use core::mem::{MaybeUninit, align_of};

use cfipack_decoder::sframe::{Caller, Registers, StepError, step};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Register};

use crate::arguments::{CFIPACK_ARCH_AARCH64, CFIPACK_ARCH_AMD64, arch, array, flag, reference, write};
use crate::cfipack_status::{self, InvalidArgument, Malformed, Outermost, Unknown};
use crate::row::{CFIPACK_RULE_CFA, CFIPACK_RULE_REGISTER, CFIPACK_RULE_SAME_VALUE, cfipack_row};

/// The value of a register.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cfipack_register {
    /// A DWARF register number.
    pub reg: u32,
    /// Must be 0.
    pub reserved: u32,
    /// The value.
    pub value: u64,
}

/// The known registers of a frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_registers {
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// The link register. Only the innermost frame and a frame that a signal interrupted have it. x86 has no link
    /// register.
    pub lr: u64,
    /// 1 if the frame pointer is known.
    pub has_fp: u8,
    /// 1 if the link register is known.
    pub has_lr: u8,
    /// Must be 0. `cfipack_step` does not check it.
    pub reserved: [u8; 6],
    /// Other registers that rows of flex FDEs may name, at most 32. Null if there are none.
    pub others: *const cfipack_register,
    /// The number of elements in `others`.
    pub num_others: usize,
}

/// A piece of memory: the stack of a thread, or a copy of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_memory {
    /// The bytes, in the byte order of the unwound process.
    pub bytes: *const u8,
    /// The length in bytes.
    pub len: usize,
    /// The address of the first byte in the unwound process.
    pub address: u64,
}

/// The caller of a frame.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_caller {
    /// The return address. Look up the byte before it, unless the frame that you stepped from is a signal frame.
    pub pc: u64,
    /// The canonical frame address of the frame that you stepped from.
    pub cfa: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// 1 if the frame pointer is known.
    pub has_fp: u8,
    /// AArch64: 1 if `pc` has a signature that must be stripped.
    pub is_signed: u8,
    /// Always 0.
    pub reserved: [u8; 6],
}

/// The greatest number of registers that a flex row may name.
const MAX_OTHER_REGISTERS: usize = 32;

/// Steps from a frame to its caller. `row` is the row of the frame's PC.
///
/// The stack is read from the pieces in `memory`. For the stack of the thread itself, give a single piece from the
/// stack pointer up. On x86-64 start 128 bytes below the stack pointer, at the red zone, because rows of an epilogue
/// name the places of registers that it has popped.
///
/// Returns `CFIPACK_STATUS_OUTERMOST` at the end of the stack, and `CFIPACK_STATUS_UNKNOWN` if a register or a word
/// of memory is unknown.
///
/// Async-signal-safe.
///
/// # Safety
/// `row`, `registers`, `memory` and the bytes that it points to are readable; `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_step(
    architecture: u32,
    row: *const cfipack_row,
    registers: *const cfipack_registers,
    memory: *const cfipack_memory,
    num_memory: usize,
    out: *mut cfipack_caller,
) -> cfipack_status {
    // A step neither indexes nor allocates, so it cannot panic. To catch panics would take as long as the step itself.
    // SAFETY: promised by the caller.
    let common = |arch| unsafe { common_step(arch, row, registers, memory, num_memory, out) };
    let stepped = match architecture {
        CFIPACK_ARCH_AMD64 => common(Arch::Amd64),
        CFIPACK_ARCH_AARCH64 => common(Arch::Aarch64),
        _ => None,
    };
    if stepped.is_some() {
        return cfipack_status::Ok;
    }
    // SAFETY: promised by the caller.
    let result = unsafe { any_step(architecture, row, registers, memory, num_memory, out) };
    result.err().unwrap_or(cfipack_status::Ok)
}

/// Steps as [`any_step`] does, in less than half of the instructions, by the rows of almost all PCs: the CFA counts from the stack pointer
/// or the frame pointer, and a single piece of memory has the other values. Returns `None` for other steps and for steps
/// that fail, because [`any_step`] finds the reason. `arch` has a stack pointer that is equal to the CFA.
///
/// # Safety
/// The requirements of [`cfipack_step`].
#[inline(always)]
unsafe fn common_step(
    arch: Arch,
    row: *const cfipack_row,
    registers: *const cfipack_registers,
    memory: *const cfipack_memory,
    num_memory: usize,
    out: *mut cfipack_caller,
) -> Option<()> {
    // One test for all pointers: they are aligned, not null, and in the lower half of memory. Others are right, but take
    // longer.
    let pointers = [row.addr(), registers.addr(), memory.addr(), out.addr()];
    let bits = pointers.iter().fold(0, |bits, pointer| bits | pointer.wrapping_sub(align_of::<u64>()));
    if bits & (isize::MIN as usize | (align_of::<u64>() - 1)) != 0 || num_memory != 1 {
        return None;
    }
    // SAFETY: aligned and not null; readable by the caller's promise.
    let (row, registers, memory) = unsafe { (&*row, &*registers, &*memory) };
    if row.cfa.kind != CFIPACK_RULE_REGISTER || row.return_address.kind != CFIPACK_RULE_CFA {
        return None;
    }
    if registers.num_others != 0 || registers.has_fp != 1 || registers.has_lr > 1 {
        return None;
    }
    let base = match row.cfa.reg {
        reg if reg == u32::from(arch.stack_pointer().0) => registers.sp,
        reg if reg == u32::from(arch.frame_pointer().0) => registers.fp,
        _ => return None,
    };
    let cfa = base.wrapping_add_signed(row.cfa.offset);
    // SAFETY: promised by the caller.
    let at = |offset| unsafe { word_of(memory, Address(cfa.wrapping_add_signed(offset)), arch) };
    let pc = at(row.return_address.offset)?;
    let fp = match row.frame_pointer.kind {
        CFIPACK_RULE_CFA => at(row.frame_pointer.offset)?,
        CFIPACK_RULE_SAME_VALUE => registers.fp,
        _ => return None,
    };
    flag(row.is_signed).ok()?;
    let caller =
        cfipack_caller { pc, cfa, sp: cfa, fp, has_fp: 1, is_signed: row.is_signed, reserved: [0; 6] };
    // SAFETY: aligned and not null; writable by the caller's promise.
    unsafe { out.write(caller) };
    Some(())
}

/// Checks each argument by itself, and steps with any row, any architecture and any registers.
///
/// # Safety
/// The requirements of [`cfipack_step`].
#[inline(never)]
unsafe fn any_step(
    architecture: u32,
    row: *const cfipack_row,
    registers: *const cfipack_registers,
    memory: *const cfipack_memory,
    num_memory: usize,
    out: *mut cfipack_caller,
) -> Result<(), cfipack_status> {
    // SAFETY: promised by the caller.
    let (row, registers) = unsafe { (reference(row)?, reference(registers)?) };
    // SAFETY: promised by the caller.
    let memory = unsafe { array(memory, num_memory) }?;
    let mut others = OtherRegisters::new();
    // SAFETY: promised by the caller.
    let registers = Registers { others: unsafe { others.read(registers) }?, ..registers.named()? };
    let arch = arch(architecture)?;
    // SAFETY: promised by the caller.
    let caller = step(arch, &row.get()?, &registers, |address| unsafe { word(memory, address, arch) });
    let caller = caller.map_err(|error| match error {
        StepError::Outermost => Outermost,
        StepError::Register { .. } | StepError::Memory { .. } => Unknown,
        _ => Malformed,
    })?;
    let caller = cfipack_caller {
        pc: caller.pc.0,
        cfa: caller.cfa.0,
        sp: caller.sp,
        fp: caller.fp.unwrap_or(0),
        has_fp: caller.fp.is_some().into(),
        is_signed: caller.signed.into(),
        reserved: [0; 6],
    };
    // SAFETY: promised by the caller.
    unsafe { write(out, caller) }
}

impl cfipack_registers {
    /// Returns the stack pointer, the frame pointer and the link register, without the other registers.
    #[inline]
    pub(crate) fn named(&self) -> Result<Registers<'static>, cfipack_status> {
        let fp = flag(self.has_fp)?.then_some(self.fp);
        Ok(Registers { sp: self.sp, fp, lr: flag(self.has_lr)?.then_some(self.lr), others: &[] })
    }
}

/// Memory for the other registers. It is not initialised, because nearly always there are no other registers.
pub(crate) struct OtherRegisters([MaybeUninit<(Register, u64)>; MAX_OTHER_REGISTERS]);

impl OtherRegisters {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; MAX_OTHER_REGISTERS])
    }

    /// Reads the other registers that the caller gives.
    ///
    /// # Safety
    /// The array of other registers is readable.
    #[inline(always)]
    pub(crate) unsafe fn read(
        &mut self,
        registers: &cfipack_registers,
    ) -> Result<&[(Register, u64)], cfipack_status> {
        // SAFETY: promised by the caller.
        let given = unsafe { array(registers.others, registers.num_others) }?;
        let others = self.0.get_mut(..given.len()).ok_or(InvalidArgument)?;
        for (other, given) in others.iter_mut().zip(given) {
            if given.reserved != 0 {
                return Err(InvalidArgument);
            }
            other.write((Register(u16::try_from(given.reg).map_err(|_| InvalidArgument)?), given.value));
        }
        // SAFETY: all of them have been written.
        Ok(unsafe { core::slice::from_raw_parts(others.as_ptr().cast(), others.len()) })
    }
}

/// Reads the pointer at an address, if a single piece of memory contains all of it.
///
/// # Safety
/// The bytes that the pieces point to are readable.
#[inline(always)]
pub(crate) unsafe fn word(memory: &[cfipack_memory], address: Address, arch: Arch) -> Option<u64> {
    let (first, others) = memory.split_first()?;
    // Nearly always there is a single piece. The loop over more pieces is kept out of this function.
    // SAFETY: promised by the caller.
    unsafe { word_of(first, address, arch) }.or_else(|| unsafe { word_of_any(others, address, arch) })
}

#[inline(never)]
unsafe fn word_of_any(memory: &[cfipack_memory], address: Address, arch: Arch) -> Option<u64> {
    // SAFETY: promised by the caller.
    memory.iter().find_map(|piece| unsafe { word_of(piece, address, arch) })
}

#[inline(always)]
unsafe fn word_of(piece: &cfipack_memory, address: Address, arch: Arch) -> Option<u64> {
    let size = usize::from(arch.pointer_size());
    // An address below the piece has a larger offset than any address in it. (A piece may run over the end of the address
    // space.)
    let offset = address.0.wrapping_sub(piece.address);
    if piece.bytes.is_null() || offset > piece.len.checked_sub(size)?.to_u64() {
        return None;
    }
    let at = piece.bytes.wrapping_add(offset as usize);
    // SAFETY: within the piece, which is readable by the caller's promise. This makes no reference, because other
    // threads and the interrupted code may write to a stack.
    Some(match size {
        4 => arch.endian().u32(unsafe { at.cast::<[u8; 4]>().read() }).into(),
        _ => arch.endian().u64(unsafe { at.cast::<[u8; 8]>().read() }),
    })
}

/// Returns a return address without its signature (AArch64 pointer authentication): the upper bits become copies of
/// bit 55. `address_bits` is the number of bits in an address, 48 on most systems and at most 55. Async-signal-safe.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_strip_signature(pc: u64, address_bits: u32) -> u64 {
    let caller = Caller { pc: Address(pc), signed: true, cfa: Address(0), sp: 0, fp: None };
    caller.without_signature(address_bits).0
}
