//! The names of functions that are the first frame of a stack.

/// Functions without a caller. The words above their frames are not return addresses. `_start` is the entry
/// of a program in every ELF ABI. `_dl_start_user` is the part of glibc's loader that calls the program. Go's
/// assembler marks the others as top frames.
const STARTS: [&str; 5] = ["_start", "_dl_start_user", "runtime.goexit", "runtime.rt0_go", "runtime.mstart"];

/// The prefix of the entry functions that Go's linker sets, for example `_rt0_amd64_linux` and
/// `_rt0_arm64_linux_lib`.
const GO_ENTRIES: &str = "_rt0_";

/// Functions of Go that call another function at the start of the thread's stack.
const SWITCHES: [&str; 4] =
    ["runtime.mcall", "runtime.systemstack", "runtime.morestack", "runtime.asmcgocall"];

/// Returns whether the function with this symbol name is the first frame of a stack. A stack walk that reaches
/// it is complete, whatever the table encodes for it. Go's suffix `.abi0` is ignored.
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

/// Returns whether the function with this symbol name calls other functions on another stack, as Go's scheduler
/// does. If a frame of the walk returns into this function, the walk is at the start of that stack. If the
/// function itself is the innermost frame, it has an ordinary caller. Go's suffix `.abi0` is ignored.
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
