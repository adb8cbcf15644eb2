//! Names of unsupported CPU types and file types, for error messages.

use object::macho::{self, CpuType, FileType};

/// Returns a CPU type's name.
pub(super) fn cpu_name(cpu: CpuType) -> Option<&'static str> {
    Some(match cpu {
        macho::CPU_TYPE_ARM => "32-bit ARM",
        macho::CPU_TYPE_POWERPC => "PowerPC",
        macho::CPU_TYPE_POWERPC64 => "64-bit PowerPC",
        macho::CPU_TYPE_MC680X0 => "m68k",
        macho::CPU_TYPE_SPARC => "SPARC",
        _ => return None,
    })
}

/// Returns the name of a file type that is neither an object nor a linked image.
pub(super) fn file_type_name(file_type: FileType) -> Option<&'static str> {
    Some(match file_type {
        macho::MH_FVMLIB => "fixed library",
        macho::MH_CORE => "core dump",
        macho::MH_PRELOAD => "preloaded program",
        macho::MH_DYLIB_STUB => "library stub",
        macho::MH_DSYM => "dSYM, debug information of another file",
        macho::MH_FILESET => "fileset, a collection of kernel extensions",
        _ => return None,
    })
}
