//! The functions in which stacks start.

/// Functions without a caller, whatever lies above their frame on the stack: `_start` is the entry of a program in every
/// ELF ABI, `_dl_start_user` the part of glibc's loader that calls the program. The others are those that Go's assembler
/// marks as top frames.
const STARTS: [&str; 5] = ["_start", "_dl_start_user", "runtime.goexit", "runtime.rt0_go", "runtime.mstart"];

/// Entries of Go programs, which its linker sets: `_rt0_amd64_linux`, `_rt0_arm64_linux_lib`.
const GO_ENTRIES: &str = "_rt0_";

/// Functions of Go that call another one on the stack of the thread, from its start.
const SWITCHES: [&str; 4] =
    ["runtime.mcall", "runtime.systemstack", "runtime.morestack", "runtime.asmcgocall"];

/// Returns whether stacks start in the function of this name: a walk that reaches it is complete, whatever the table
/// encodes there. `name` is that of the symbol; Go's suffix `.abi0` is ignored.
///
/// ```
/// use cfipack_format::starts_stacks;
///
/// assert!(starts_stacks("_start") && starts_stacks("runtime.goexit.abi0"));
/// assert!(!starts_stacks("main"));
/// ```
pub fn starts_stacks(name: &str) -> bool {
    let name = without_abi(name);
    STARTS.contains(&name) || name.starts_with(GO_ENTRIES)
}

/// Returns whether the function of this name calls others on another stack, as the scheduler of Go does: a walk whose
/// frames return to it is at the start of that stack. Where the function itself is innermost it has a caller as any other.
/// `name` is that of the symbol; Go's suffix `.abi0` is ignored.
///
/// ```
/// assert!(cfipack_format::switches_stacks("runtime.mcall"));
/// ```
pub fn switches_stacks(name: &str) -> bool {
    SWITCHES.contains(&without_abi(name))
}

fn without_abi(name: &str) -> &str {
    name.strip_suffix(".abi0").unwrap_or(name)
}
