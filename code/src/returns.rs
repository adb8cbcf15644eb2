//! Finds functions that never return, by their flow of execution alone.

use std::collections::VecDeque;

use cfipack_format::Address;

use crate::instruction::Flow;
use crate::instructions::{Code, Instructions};

/// Returns whether a function may return. It may if a path from its first instruction reaches a return or leaves the
/// code.
///
/// This function calls `called` to ask whether another function returns: a function that is called or jumped to. It
/// asks as late as possible, and not at all if a path without calls decides. A jump with an unknown target counts as
/// a path that leaves the code. A call at the end of the code, with only padding after it, counts as a call that does
/// not return, because compilers end functions in this way.
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
    let mut seen = vec![false; instructions.len()];
    let mut waiting = vec![0];
    // The functions to ask about. If the function returns, execution continues at the index, or outside of the code
    // (`None`).
    let mut calls = VecDeque::new();
    loop {
        let Some(index) = waiting.pop() else {
            let Some((target, next)) = calls.pop_front() else { return false };
            match (called(target), next) {
                (true, Some(next)) => waiting.push(next),
                (true, None) => return true,
                (false, _) => {}
            }
            continue;
        };
        // Execution runs over the end of the code.
        let Some(instruction) = instructions.get(index) else { return true };
        if std::mem::replace(&mut seen[index], true) {
            continue;
        }
        let (falls, target) = match instruction.flow {
            Flow::Next => (true, None),
            Flow::Branch(target, _) => (true, Some(target)),
            Flow::Jump(target) => (false, Some(target)),
            Flow::Call(_) if instructions.after_padding(index).is_none() => continue,
            // Code that is called within the function may drop the return address, and return for the function.
            Flow::Call(Some(target)) if code.offset_of(target).is_some_and(|offset| offset != 0) => {
                (true, Some(Some(target)))
            }
            Flow::Call(Some(target)) => {
                calls.push_back((target, Some(index + 1)));
                continue;
            }
            Flow::Call(None) => (true, None),
            Flow::Stop => (false, None),
            Flow::Return | Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_) => return true,
        };
        if falls {
            waiting.push(index + 1);
        }
        let Some(target) = target else { continue };
        match target.map(|target| (code.offset_of(target), target)) {
            Some((Some(offset), _)) => match instructions.index_of(offset) {
                Some(index) => waiting.push(index),
                None => return true,
            },
            Some((None, target)) => calls.push_back((target, None)),
            None => return true,
        }
    }
}
