//! Reads a program's memory and registers from a core file of an emulator.

use std::path::Path;

use cfipack_format::Arch;
use object::elf::{FileHeader64, NT_PRSTATUS, PT_LOAD};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endian as _, Endianness};

/// A core file.
pub struct Core {
    /// The registers that the file has, by DWARF number.
    pub registers: Vec<u64>,
    pub pc: u64,
    endian: Endianness,
    segments: Vec<(u64, Vec<u8>)>,
}

/// The offset of the first register in the note of a process's status.
const REGISTERS: usize = 112;

/// Indexes of DWARF registers 0 to 15 and of the PC in `struct user_regs_struct` of x86-64.
const AMD64: [usize; 17] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];

impl Core {
    pub fn read(path: &Path, arch: Arch) -> Self {
        let bytes = std::fs::read(path).expect("the emulator wrote it");
        let data = &bytes[..];
        let header = FileHeader64::<Endianness>::parse(data).expect("an ELF file");
        let endian = header.endian().expect("a byte order");
        let mut status = None;
        let mut segments = Vec::new();
        for program in header.program_headers(endian, data).expect("program headers") {
            if program.p_type(endian) == PT_LOAD {
                segments.push((
                    program.p_vaddr(endian),
                    program.data(endian, data).expect("in the file").to_vec(),
                ));
            }
            let Some(mut notes) = program.notes(endian, data).expect("notes") else { continue };
            while let Some(note) = notes.next().expect("a note") {
                if note.n_type(endian) == NT_PRSTATUS && status.is_none() {
                    status = Some(note.desc().to_vec());
                }
            }
        }
        let status = status.expect("a process's status");
        let word = |number: usize| read(endian, &status[REGISTERS + 8 * number..]);
        let (registers, pc) = match arch {
            // x0 to x30, sp, pc.
            Arch::Aarch64 => ((0..32).map(word).collect(), word(32)),
            // The program status word has two words. The second is the PC.
            Arch::S390x => ((2..18).map(word).collect(), word(1)),
            _ => (AMD64[..16].iter().map(|&at| word(at)).collect(), word(AMD64[16])),
        };
        Self { registers, pc, endian, segments }
    }

    /// Returns the pointer at an address.
    pub fn word(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, bytes)| {
            let at = usize::try_from(address.checked_sub(*start)?).ok()?;
            Some(read(self.endian, bytes.get(at..at.checked_add(8)?)?))
        })
    }
}

fn read(endian: Endianness, bytes: &[u8]) -> u64 {
    endian.read_u64(*bytes.first_chunk().expect("a word"))
}
