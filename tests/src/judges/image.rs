//! Makes the smallest ELF image with a section of CFI, for tools that read files.

use cfipack_format::{Arch, Endian};

use crate::cfi_bytes::CfiBytes;

/// Bytes of an ELF64 header, and of a section header.
const HEADER: usize = 64;
const SECTION: usize = 64;

/// Makes a shared object without code. It has the generated section at its address, and `.text` and `.got` as bases
/// that pointers may count from.
pub fn image(cfi: &CfiBytes) -> Vec<u8> {
    let mut writer = Writer { endian: cfi.arch.endian(), bytes: vec![0; HEADER] };
    let own: &[u8] = if cfi.debug_frame { b".debug_frame\0" } else { b".eh_frame\0" };
    let names = [b"\0.text\0.got\0.shstrtab\0", own].concat();
    let frames = writer.bytes.len();
    writer.bytes.extend(&cfi.bytes);
    let strings = writer.bytes.len();
    writer.bytes.extend(&names);
    writer.bytes.resize(writer.bytes.len().next_multiple_of(8), 0);
    let table = writer.bytes.len();
    // Name, type, flags, address, offset, size.
    let address = if cfi.debug_frame { 0 } else { cfi.address };
    writer.section(0, 0, 0, 0, 0, 0);
    writer.section(1, 8, 6, cfi.text, frames, 0); // NOBITS, ALLOC | EXECINSTR
    writer.section(7, 8, 3, cfi.data, frames, 0); // NOBITS, ALLOC | WRITE
    writer.section(12, 3, 0, 0, strings, names.len()); // STRTAB
    writer.section(22, 1, if cfi.debug_frame { 0 } else { 2 }, address, frames, cfi.bytes.len()); // PROGBITS
    writer.header(cfi.arch, table);
    writer.bytes
}

struct Writer {
    endian: Endian,
    bytes: Vec<u8>,
}

impl Writer {
    fn section(&mut self, name: u32, kind: u32, flags: u64, address: u64, offset: usize, size: usize) {
        let start = self.bytes.len();
        self.bytes.extend([self.endian.put_u32(name), self.endian.put_u32(kind)].concat());
        for field in [flags, address, offset as u64, size as u64] {
            self.bytes.extend(self.endian.put_u64(field));
        }
        self.bytes.resize(start + SECTION, 0);
    }

    fn header(&mut self, arch: Arch, table: usize) {
        let endian = self.endian;
        let machine = match arch {
            Arch::Amd64 => 62,
            Arch::S390x => 22,
            _ => 183,
        };
        let data = if endian == Endian::Little { 1 } else { 2 };
        let mut put = |at: usize, bytes: &[u8]| self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x7f, b'E', b'L', b'F', 2, data, 1]);
        put(16, &endian.put_u16(3)); // ET_DYN
        put(18, &endian.put_u16(machine));
        put(20, &endian.put_u32(1));
        put(40, &endian.put_u64(table as u64));
        put(52, &endian.put_u16(HEADER as u16));
        put(58, &endian.put_u16(SECTION as u16));
        put(60, &endian.put_u16(5)); // sections
        put(62, &endian.put_u16(3)); // names
    }
}
