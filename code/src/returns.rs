//! Functions that never return, told from others by their flow alone.

use cfipack_format::Address;

use crate::instruction::Flow;
use crate::instructions::{Code, Instructions};

/// Returns whether a function may return: whether its first instruction has a way to a return or out of the code. `called`
/// tells it of functions that are called or jumped to. Jumps whose target is not known leave the code.
///
/// ```
/// use cfipack_code::{Code, Instructions, may_return};
/// use cfipack_format::{Address, Arch};
///
/// // call +0x100; ud2
/// let bytes = [0xe8, 0, 1, 0, 0, 0x0f, 0x0b];
/// let code = Code { arch: Arch::Amd64, start: Address(0x1000), bytes: &bytes, relocated: &[] };
/// let instructions = Instructions::new(&code);
/// assert!(!may_return(&code, &instructions, &mut |_| true));
/// ```
pub fn may_return(
    code: &Code<'_>,
    instructions: &Instructions,
    called: &mut dyn FnMut(Address) -> bool,
) -> bool {
    let all = instructions.as_slice();
    let inside = |target: Address| {
        let offset = u32::try_from(target.0.wrapping_sub(code.start.0)).ok()?;
        (u64::from(offset) < code.bytes.len() as u64).then_some(offset)
    };
    let mut seen = vec![false; all.len()];
    let mut waiting = vec![0];
    while let Some(index) = waiting.pop() {
        // Execution runs off the end of the code.
        let Some(instruction) = all.get(index) else { return true };
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        let (falls, target) = match instruction.flow {
            Flow::Next => (true, None),
            Flow::Branch(target, _) => (true, Some(target)),
            Flow::Jump(target) => (false, Some(target)),
            Flow::Call(target) => (target.is_none_or(&mut *called), None),
            Flow::Stop => (false, None),
            Flow::Return | Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_) => return true,
        };
        if falls {
            waiting.push(index + 1);
        }
        let Some(target) = target else { continue };
        match target.map(|target| (inside(target), target)) {
            Some((Some(offset), _)) => match instructions.index_of(offset) {
                Some(index) => waiting.push(index),
                None => return true,
            },
            Some((None, target)) if !called(target) => {}
            Some((None, _)) | None => return true,
        }
    }
    false
}
