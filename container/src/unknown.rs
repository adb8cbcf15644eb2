//! Names of file formats that this crate does not read.

/// Returns whether the first bytes are LLVM bitcode, also in its wrapper.
pub(crate) fn is_bitcode(start: &[u8]) -> bool {
    matches!(start, b"BC\xc0\xde" | [0xde, 0xc0, 0x17, 0x0b])
}

/// Returns the name of a file format that this crate does not read, from at most the first 4 bytes.
pub(crate) fn name(start: &[u8]) -> Option<&'static str> {
    Some(match start {
        start if is_bitcode(start) => "as LLVM bitcode: the code is made at the link",
        b"dyld" => "as a dyld shared cache: extract its libraries",
        [b'M', b'Z', ..] => "as a PE file",
        [0x64, 0x86, ..] | [0x4c, 0x01, ..] | [0x64, 0xaa, ..] => "as a COFF object",
        b"\0asm" => "as a WebAssembly module",
        [0x1f, 0x8b, ..] => "as what gzip compressed",
        [0x28, 0xb5, 0x2f, 0xfd] => "as what zstd compressed",
        [0xfd, b'7', b'z', b'X'] => "as what xz compressed",
        [b'B', b'Z', b'h', ..] => "as what bzip2 compressed",
        b"PK\x03\x04" => "as a zip archive",
        [0xed, 0xab, 0xee, 0xdb] => "as an RPM package",
        [b'#', b'!', ..] => "as a script",
        b"--- " => "as a text stub of a library (.tbd)",
        start if start.len() == 4 && start.iter().all(|byte| matches!(byte, b'\t'..=b'\r' | b' '..=b'~')) => {
            "as text: a source, or a linker script that names the library"
        }
        _ => return None,
    })
}
