//! Walks the stack of a process that is stopped in a system call, by framehop.

use std::fs::{File, read, read_to_string};
use std::os::unix::fs::FileExt as _;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder};

/// Takes the file, the process, its rbp, and the sections as `NAME:OFFSET:SIZE:ADDRESS`. The program has fixed addresses.
pub fn run(words: &[String]) -> Result<String, String> {
    let file = read(&words[0]).expect("a file");
    let mut sections = ExplicitModuleSectionInfo::default();
    for section in &words[3..] {
        let fields: Vec<_> = section.split(':').collect();
        let numbers: Vec<u64> = fields[1..].iter().map(|field| field.parse().expect("a number")).collect();
        let bytes = file[numbers[0] as usize..][..numbers[1] as usize].to_vec();
        let range = numbers[2]..numbers[2] + numbers[1];
        match fields[0] {
            ".text" => (sections.text, sections.text_svma) = (Some(bytes), Some(range)),
            ".eh_frame" => (sections.eh_frame, sections.eh_frame_svma) = (Some(bytes), Some(range)),
            ".eh_frame_hdr" => (sections.eh_frame_hdr, sections.eh_frame_hdr_svma) = (Some(bytes), Some(range)),
            _ => sections.got_svma = Some(range),
        }
    }
    let text = sections.text_svma.clone().expect("code");
    let mut unwinder = UnwinderX86_64::<Vec<u8>, MayAllocateDuringUnwind>::new();
    unwinder.add_module(Module::new("program".to_owned(), text, 0, sections));

    let process = &words[1];
    let state = || read_to_string(format!("/proc/{process}/syscall")).expect("a process");
    // The number of `pause`.
    let state = std::iter::repeat_with(state).find(|state| state.starts_with("34 ")).expect("a stopped process");
    let hexadecimal = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("a number");
    let mut last = state.split_whitespace().rev().map(hexadecimal);
    let (pc, sp) = (last.next().expect("pc"), last.next().expect("sp"));
    let memory = File::open(format!("/proc/{process}/mem")).expect("memory");
    let mut read_stack = |address| {
        let mut bytes = [0; 8];
        memory.read_exact_at(&mut bytes, address).map(|()| u64::from_le_bytes(bytes)).map_err(|_| ())
    };
    let mut cache = CacheX86_64::<MayAllocateDuringUnwind>::new_in();
    let registers = UnwindRegsX86_64::new(pc, sp, hexadecimal(&words[2]));
    let mut frames = unwinder.iter_frames(pc, registers, &mut cache, &mut read_stack);
    let mut printed = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        printed.push(format!("{:#x}", frame.address_for_lookup()));
    }
    Ok(printed.join("\n"))
}
