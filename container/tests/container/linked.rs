//! Compares linked files, with and without section headers, with the tables that their linkers wrote.

use std::path::Path;
use std::process::Command;

use cfipack_cfi::{Excluded, Exclusion};
use cfipack_container::{File, Kind, members};
use cfipack_format::Address;

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container").join(name)).unwrap()
}

#[test]
fn section_headers_are_not_needed() {
    let (with, without) = (corpus("linked.so"), corpus("sectionless.so"));
    let (with, without) = (File::parse(&with).unwrap(), File::parse(&without).unwrap());
    assert_eq!((with.kind(), without.kind()), (Kind::Linked, Kind::Linked));
    let (a, b) = (with.call_frame_sections().unwrap(), without.call_frame_sections().unwrap());
    assert_eq!((a.len(), b.len()), (1, 1));
    assert_eq!(a[0].section.address, b[0].section.address);
    assert_eq!(a[0].section.bytes, b[0].section.bytes);
    assert_eq!(with.as_elf().unwrap().eh_frame_hdr_size(), 0x34);
    assert_eq!(without.as_elf().unwrap().eh_frame_hdr_size(), 0x34);
    let (a, b) = (with.sframe_sections().unwrap(), without.sframe_sections().unwrap());
    assert_eq!((a[0].address, b[0].address), (Address(0x370), Address(0x370)));
    assert_eq!(a[0].bytes[..], b[0].bytes[..a[0].bytes.len()]);
    let code = without.code_sections().unwrap();
    assert_eq!((code.len(), code[0].address), (1, Address(0)));
    let names: Vec<_> = with.code_sections().unwrap().into_iter().map(|section| section.name).collect();
    assert_eq!(names, [".plt", ".text", ".bolt.org.text"]);
}

/// Returns `linked.so` with the name `eh_frame` for its `.eh_frame`, and the offset of the section's header.
fn renamed() -> (Vec<u8>, usize) {
    let mut bytes = corpus("linked.so");
    let index = File::parse(&bytes).unwrap().call_frame_sections().unwrap()[0].section.index.unwrap();
    let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap());
    let header = usize::try_from(headers).unwrap() + 64 * index;
    // The name in the string table starts one byte later.
    bytes[header] += 1;
    (bytes, header)
}

/// The program header leads to `.eh_frame`, whatever its section is called, and whatever the section has before and after
/// it. ld wrote the `.eh_frame` of this file at 0x2d0 with 0x9c bytes, and `.sframe` at 0x370.
#[test]
fn eh_frame_has_another_name_or_is_part_of_a_section() {
    let whole = corpus("linked.so");
    let file = File::parse(&whole).unwrap();
    let own = file.call_frame_sections().unwrap();
    let (renamed, header) = renamed();
    // sh_addr, sh_offset and sh_size: the section has 4 bytes more before it, and .sframe after it.
    let mut inside = renamed.clone();
    for (field, value) in [(16, 0x2cc), (24, 0x2cc), (32, 0x390 - 0x2cc_u64)] {
        inside[header + field..][..8].copy_from_slice(&value.to_le_bytes());
    }
    // Other data follows at once, without a terminator.
    let mut at_once = inside.clone();
    at_once[0x36c..0x370].copy_from_slice(b"data");
    let inside_name = ".eh_frame in eh_frame";
    for (bytes, name) in [(renamed, "eh_frame"), (inside, inside_name), (at_once, inside_name)] {
        let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
        let [found] = &sections[..] else { panic!("{name}: {} sections", sections.len()) };
        assert_eq!(found.section.name, name);
        assert_eq!(found.section.address, Address(0x2d0));
        assert_eq!(found.section.bytes, own[0].section.bytes, "{name}");
    }
}

/// `objcopy --only-keep-debug` leaves a program header without bytes, and `objcopy -R` one that leads to no section.
#[test]
fn a_program_header_without_eh_frame_hdr_leads_nowhere() {
    let (bytes, _) = renamed();
    let headers = (0..usize::from(bytes[0x38])).map(|index| 64 + 56 * index);
    let header = headers.into_iter().find(|&at| bytes[at..][..4] == 0x6474_e550_u32.to_le_bytes()).unwrap();
    for (field, value) in [(32, 0_u64), (16, 0x7000_0000)] {
        let mut bytes = bytes.clone();
        bytes[header + field..][..8].copy_from_slice(&value.to_le_bytes());
        assert!(File::parse(&bytes).unwrap().call_frame_sections().unwrap().is_empty());
    }
    // A damaged index is an error if nothing else leads to CFI.
    let mut bytes = bytes;
    bytes[0x298] = 9;
    let error = File::parse(&bytes).unwrap().call_frame_sections().unwrap_err();
    assert_eq!(error.to_string(), "section .eh_frame_hdr: offset 0x0: unexpected value 0x9");
}

#[test]
fn a_segment_longer_than_its_table_is_given_whole() {
    // ld made the segment 0xe0 bytes long and the section 0xbe. Without e_shoff and the last two counts of
    // the header, the file has no sections.
    let mut bytes = corpus("linked.so");
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let sframe = File::parse(&bytes).unwrap().sframe_sections().unwrap();
    assert_eq!((sframe[0].address, sframe[0].bytes.len()), (Address(0x370), 0xe0));
    let with = corpus("linked.so");
    let section = File::parse(&with).unwrap().sframe_sections().unwrap();
    assert_eq!((&sframe[0].bytes[..0xbe], section[0].bytes.len()), (&section[0].bytes[..], 0xbe));
    assert!(sframe[0].bytes[0xbe..].iter().all(|&byte| byte == 0));
}

/// `readelf -wf` prints an FDE at 0x400087 in `.eh_frame`, and four FDEs in `.debug_frame`: one also at
/// 0x400087, two of code without unwind tables, and one at 0 of a function that ld discarded.
#[test]
fn each_function_comes_once() {
    let bytes = corpus("both_frames");
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let functions: Vec<Vec<_>> = sections
        .iter()
        .map(|section| {
            cfipack_cfi::Functions::new(&section.cfi())
                .map(|f| f.unwrap())
                .map(|f| (f.key.0, f.size))
                .collect()
        })
        .collect();
    assert_eq!(functions, [vec![(0x40_0087, 3)], vec![(0x40_0078, 6), (0x40_007e, 9)]]);
}

/// `readelf -wf` prints five FDEs at 0, of 8, 6, 6, 5 and 9 bytes, and one at 6. The FDEs of 6 bytes are
/// equal. `readelf -s` prints a function of 6 bytes at 0.
#[test]
fn discarded_functions_that_lie_where_code_is() {
    let functions = |name: &str| {
        let bytes = corpus(name);
        let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
        let functions = sections.iter().flat_map(|section| cfipack_cfi::Functions::new(&section.cfi()));
        functions.map(|f| f.unwrap()).map(|f| (f.key.0, f.size)).collect::<Vec<_>>()
    };
    assert_eq!(functions("at_zero"), [(0, 6), (6, 12)]);
    // Without symbols, nothing decides which of the functions exist.
    assert_eq!(functions("at_zero.nameless"), [(0, 8), (0, 6), (6, 12), (0, 5), (0, 9)]);
}

/// Excluded FDEs are listed, and the bytes of the section stay the same. The FDEs lie where `readelf -wf`
/// prints them. `corpora/container/*.s` explain the reasons.
#[test]
fn excluded_functions_are_listed_and_left_alone() {
    use object::{Object as _, ObjectSection as _};

    use Exclusion::{Discarded, Repeated, Superseded};
    for (name, reasons) in [
        ("at_zero", &[Discarded, Discarded, Discarded, Repeated][..]),
        ("at_zero.nameless", &[Repeated]),
        ("both_frames", &[Discarded, Superseded]),
        ("linked.so", &[]),
    ] {
        let bytes = corpus(name);
        let object = object::File::parse(&*bytes).unwrap();
        let sections = File::parse(&bytes).unwrap().call_frame_sections().unwrap();
        let mut found = Vec::new();
        for section in &sections {
            let raw = object.section_by_name(&section.section.name).unwrap().data().unwrap();
            assert_eq!(section.section.bytes, raw, "{name}");
            assert!(section.excluded.is_sorted());
            for Excluded { fde, reason } in &section.excluded {
                // The length of the record, and the CIE pointer, which is not a CIE's id.
                let words =
                    [0, 4].map(|at| raw[fde.0 + at..][..4].try_into().map(u32::from_le_bytes).unwrap());
                assert!(words[0] >= 16 && fde.0 + words[0] as usize <= raw.len(), "{name}: {fde}");
                assert!(words[1] < u32::MAX, "{name}: {fde}");
                found.push(*reason);
            }
        }
        found.sort_unstable();
        assert_eq!(found, reasons, "{name}");
    }
}

#[test]
fn archives_give_their_members() {
    let archive = corpus("members.a");
    let found: Vec<_> = members(&archive).unwrap().map(|member| member.unwrap()).collect();
    let names: Vec<_> = found.iter().map(|member| member.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["linkable.o", "container.s", "debug_frame.none.o", "a_long_member_name.o"]);
    assert_eq!(found[0].bytes, corpus("linkable.o"));
    let is_object: Vec<_> = found.iter().map(|member| File::parse(member.bytes).is_ok()).collect();
    assert_eq!(is_object, [true, false, true, true]);
    let single = corpus("linked.so");
    let found: Vec<_> = members(&single).unwrap().map(|member| member.unwrap()).collect();
    assert!(found.len() == 1 && found[0].name.is_none() && found[0].bytes == single);
}

/// Returns the pairs in the table of `.eh_frame_hdr`, which the linker or post-link optimizer wrote.
fn search_table(file: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let half = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let headers = (0..usize::from(file[0x38])).map(|index| word(0x20) as usize + 56 * index);
    let header = headers.into_iter().find(|&at| half(at) == 0x6474_e550).unwrap();
    let (offset, address) = (word(header + 8) as usize, word(header + 16));
    assert_eq!(file[offset..offset + 4], [1, 0x1b, 3, 0x3b]);
    let relative = |at: usize| address.wrapping_add_signed(half(at).cast_signed().into());
    (0..half(offset + 8) as usize)
        .map(|entry| offset + 12 + 8 * entry)
        .map(|at| (relative(at), relative(at + 4)))
        .collect()
}

#[test]
fn the_toolchains_own_libraries() {
    let sysroot = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let library = Path::new(String::from_utf8(sysroot.stdout).unwrap().trim()).join("lib");
    let mut tested = 0;
    for entry in std::fs::read_dir(library).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("librustc_driver-") && !name.starts_with("libLLVM.so") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let file = File::parse(&bytes).unwrap();
        let sections = file.call_frame_sections().unwrap();
        assert_eq!(sections.len(), 1, "{name}: .bolt.org.eh_frame is dead");
        let base = sections[0].section.address;
        let functions = cfipack_cfi::Functions::new(&sections[0].cfi()).map(|function| function.unwrap());
        let mut starts: Vec<_> =
            functions.map(|function| (function.key.0, base.0 + function.fde.0 as u64)).collect();
        starts.sort_unstable();
        let mut table = search_table(&bytes);
        table.sort_unstable();
        // The table of `.eh_frame_hdr` has only one FDE for each start.
        starts.retain(|pair| table.binary_search(pair).is_ok());
        assert_eq!(starts, table, "{name}");
        assert!(starts.len() > 50_000);
        tested += 1;
    }
    assert_ne!(tested, 0, "the toolchain has neither librustc_driver nor libLLVM");
}

/// readelf: `__GNU_EH_FRAME_HDR` at 0x298 has no size. Its section .eh_frame_hdr has 0x34 bytes.
#[test]
fn symbols_without_size_end_with_their_section() {
    let bytes = corpus("linked.so");
    let symbols = File::parse(&bytes).unwrap().symbols().unwrap();
    assert_eq!(symbols.lookup(Address(0x2cb)).unwrap().offset, 0x33);
    assert_eq!(symbols.lookup(Address(0x2cc)), None);
    assert_eq!(symbols.lookup(Address(u64::MAX)), None);
}
