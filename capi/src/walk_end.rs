//! Why a walk ends.

use cfipack_decoder::walk::End;

/// The walk has not ended: there are more frames than fit.
pub const CFIPACK_END_NONE: u32 = 0;
/// The row of the last frame marks an outermost frame. The stack is complete.
pub const CFIPACK_END_OUTERMOST: u32 = 1;
/// The last frame is in `starts` or `switches` of its module, so the stack starts there. For
/// `cfipack_process_modules_walk`: the first thread started in the last frame. The stack is complete.
pub const CFIPACK_END_START: u32 = 2;
/// The return address and the caller's frame pointer are 0 (on s390x, the return address), and no frame is a guess. The
/// stack is complete.
pub const CFIPACK_END_NULL: u32 = 3;
/// No table covers the code of the last frame, and its frame pointer does not lead to a frame of this stack.
pub const CFIPACK_END_NO_ROW: u32 = 4;
/// The row of the last frame needs a register that tables do not restore for a caller.
pub const CFIPACK_END_REGISTER: u32 = 5;
/// The row of the last frame needs memory that was not given.
pub const CFIPACK_END_MEMORY: u32 = 6;
/// The caller's frame would not lie above the last frame, or would lie outside the stack.
pub const CFIPACK_END_NOT_RISING: u32 = 7;
/// The row of the last frame has a rule that is impossible in a table.
pub const CFIPACK_END_RULE: u32 = 8;
/// The table of the last frame's code is damaged.
pub const CFIPACK_END_TABLE: u32 = 9;
/// The end is unknown: the return address is 0, but the caller's frame pointer is not or is not known; or either is 0
/// where a frame is a guess. The last frame may be outermost, or callers are missing.
pub const CFIPACK_END_GUESSED_NULL: u32 = 10;
/// The return address is in no module. After a guess it is also this if no call is before the return address.
pub const CFIPACK_END_NOT_CODE: u32 = 11;

/// Returns the number of an end.
pub(crate) fn number_of_end(end: End) -> u32 {
    match end {
        End::Outermost => CFIPACK_END_OUTERMOST,
        End::Start => CFIPACK_END_START,
        End::Null => CFIPACK_END_NULL,
        End::NoRow => CFIPACK_END_NO_ROW,
        End::Register { .. } => CFIPACK_END_REGISTER,
        End::Memory { .. } => CFIPACK_END_MEMORY,
        End::NotRising => CFIPACK_END_NOT_RISING,
        End::Rule => CFIPACK_END_RULE,
        End::GuessedNull => CFIPACK_END_GUESSED_NULL,
        End::NotCode { .. } => CFIPACK_END_NOT_CODE,
        _ => CFIPACK_END_TABLE,
    }
}

/// Returns the meaning of `CFIPACK_END_...` in English. The string is static and never null.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_end_text(end: u32) -> *const core::ffi::c_char {
    let text = match end {
        CFIPACK_END_NONE => c"more frames",
        CFIPACK_END_OUTERMOST => c"outermost",
        CFIPACK_END_START => c"start of the stack",
        CFIPACK_END_NULL => c"address 0",
        CFIPACK_END_NO_ROW => c"no row",
        CFIPACK_END_REGISTER => c"no register",
        CFIPACK_END_MEMORY => c"no memory",
        CFIPACK_END_NOT_RISING => c"not rising",
        CFIPACK_END_RULE => c"no such rule",
        CFIPACK_END_TABLE => c"damaged table",
        CFIPACK_END_GUESSED_NULL => c"address 0, perhaps no end",
        CFIPACK_END_NOT_CODE => c"return address outside code",
        _ => c"unknown end",
    };
    text.as_ptr()
}
