//! Looks functions up in the tables of Mach-O images by LLVM's libunwind: its `UnwindCursor` is compiled for this machine.
//! `tests/libunwind/build` compiles the program, and `CFIPACK_LIBUNWIND` names it.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use cfipack_container::File;
use cfipack_format::{Arch, ImageOffset};
use cfipack_testkit::needs;

/// An answer of the program. Addresses count from the start of the image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The start of the entry, or of the FDE in DWARF mode.
    pub start: u64,
    /// The end of the entry, or of the FDE in DWARF mode.
    pub end: u64,
    /// The encoding. In DWARF mode only the bits of the mode.
    pub encoding: u32,
    /// The place of the personality's pointer, or 0.
    pub personality: u64,
    /// The LSDA, or 0.
    pub lsda: u64,
    /// In DWARF mode, the FDE's offset in `__eh_frame`.
    pub fde: u64,
}

/// Returns the path of the program that `tests/libunwind/build` makes.
pub fn judge() -> PathBuf {
    needs::directory("CFIPACK_LIBUNWIND", "tests/libunwind/build prints it")
}

/// Where libunwind sees a table. It may be larger than the image's own table, and must not overlap other sections.
const FAR: u64 = 1 << 40;

/// Asks libunwind about PCs of an image, with `table` for its `__unwind_info`. Numbers are little-endian and have 8 bytes: 1 for
/// x86-64 or 2 for arm64, address, length and bytes of `__unwind_info` and `__eh_frame`, then the PCs.
pub fn ask(judge: &Path, file: &File<'_>, table: &[u8], pcs: &[ImageOffset]) -> Vec<Option<Answer>> {
    let base = file.as_macho().unwrap().image_base().0;
    let sections = file.call_frame_sections().unwrap();
    let eh_frame = sections.iter().find(|cfi| cfi.section.name == "__eh_frame").map(|cfi| &cfi.section);
    let mut input = Vec::new();
    let put = |number: u64| number.to_le_bytes();
    input.extend(put(if file.arch() == Arch::Amd64 { 1 } else { 2 }));
    for (address, bytes) in
        [(FAR, table), eh_frame.map_or((0, &[][..]), |cfi| (cfi.address.0 - base, &cfi.bytes[..]))]
    {
        input.extend([put(address), put(bytes.len() as u64)].concat());
        input.extend(bytes);
    }
    input.extend(put(pcs.len() as u64));
    pcs.iter().for_each(|pc| input.extend(put(pc.0.into())));
    let mut child = Command::new(judge)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program of libunwind");
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "libunwind: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(answer).collect()
}

/// Parses a line of the program: `none`, or start, end, encoding, personality, LSDA and FDE.
fn answer(line: &str) -> Option<Answer> {
    if line == "none" {
        return None;
    }
    let numbers: Vec<_> = line.split(' ').map(|number| u64::from_str_radix(number, 16).unwrap()).collect();
    let [start, end, encoding, personality, lsda, fde] = numbers[..] else { panic!("{line}") };
    Some(Answer { start, end, encoding: encoding as u32, personality, lsda, fde })
}
