//! Recognises the call in front of a return address.

use cfipack_format::Arch;

/// The number of bytes before a return address that decide whether they are a call. The longest call of x86-64 without
/// prefixes is `call *disp32(base, index, scale)`.
pub const LONGEST_CALL: usize = 7;

/// Returns whether code ends with a call. Pass the code up to a return address, or its last
/// [`LONGEST_CALL`] bytes. Returns `None` on an architecture whose calls are not known here, such as s390x.
///
/// In x86-64 code, other bytes than a call's may look like one. So `true` means that there may be a call.
///
/// ```
/// use cfipack_decoder::walk::ends_with_call;
/// use cfipack_format::Arch;
///
/// let call_rax = [0x90, 0xff, 0xd0];
/// assert_eq!(ends_with_call(Arch::Amd64, &call_rax), Some(true));
/// assert_eq!(ends_with_call(Arch::Amd64, &call_rax[..2]), Some(false));
/// ```
pub fn ends_with_call(arch: Arch, code: &[u8]) -> Option<bool> {
    match arch {
        Arch::Amd64 => Some(ends_with_x86_call(code)),
        // Instructions are little-endian whatever the data is.
        Arch::Aarch64 | Arch::Aarch64Be => Some(code.last_chunk().is_some_and(|word| {
            let word = u32::from_le_bytes(*word);
            let is_bl = word & 0xfc00_0000 == 0x9400_0000;
            let is_blr = word & 0xffff_fc1f == 0xd63f_0000;
            // With pointer authentication: BLRAA, BLRAB, BLRAAZ, BLRABZ.
            is_bl || is_blr || word & 0xfeff_f800 == 0xd63f_0800
        })),
        _ => None,
    }
}

/// `e8` with a distance of four bytes, or `ff /2` with any operand.
fn ends_with_x86_call(code: &[u8]) -> bool {
    let before = |distance: usize| code.len().checked_sub(distance).map(|at| code[at]);
    if before(5) == Some(0xe8) {
        return true;
    }
    (2..=LONGEST_CALL)
        .any(|len| before(len) == Some(0xff) && call_len(&code[code.len() - len + 1..]) == Some(len))
}

/// Returns the length of `ff /2`, given the bytes after `ff`. `None` if it is another instruction.
fn call_len(operand: &[u8]) -> Option<usize> {
    let modrm = *operand.first()?;
    let (mode, register, base) = (modrm >> 6, modrm >> 3 & 7, modrm & 7);
    if register != 2 {
        return None;
    }
    let has_sib = mode != 3 && base == 4;
    let base = if has_sib { *operand.get(1)? & 7 } else { base };
    let displacement = match mode {
        0 if base == 5 => 4,
        1 => 1,
        2 => 4,
        _ => 0,
    };
    Some(2 + usize::from(has_sib) + displacement)
}
