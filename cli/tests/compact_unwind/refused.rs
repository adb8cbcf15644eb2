//! Tests refusals and errors of `compact-unwind`, on objects of the corpora. No tools are needed.

use std::fs;
use std::path::{Path, PathBuf};

use super::edited::{edited, run, scratch};

/// Makes a directory with an object of llvm-mc. Returns both paths.
fn with_object(test: &str, name: &str) -> (PathBuf, PathBuf) {
    let directory = scratch(test);
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let object = directory.join("object.o");
    fs::copy(corpus.join(name).with_extension("o"), &object).unwrap();
    (directory, object)
}

/// Runs a command that must fail and write nothing to standard output. Returns status and standard error.
fn failed(arguments: &[&str], directory: &Path) -> String {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}: {error}");
    error.replace(directory.to_str().unwrap(), "DIR")
}

#[test]
fn the_summary_of_an_object() {
    let (directory, object) = with_object("compact-unwind-summary", "a37_pers_custom");
    let output = run(&["--dry-run", object.to_str().unwrap()]);
    let text = String::from_utf8(output.stderr).unwrap().replace(directory.to_str().unwrap(), "DIR");
    let expected = "DIR/object.o: 1 FDE: 1 get a compact encoding (100.00 %)\n  \
        __compact_unwind: 1 row changed, 0 new, in 1 object\n  \
        personalities: _my_personality\n  \
        a linker can remove 44 bytes of FDEs\n  \
        pcs that were exact: 8 in prologues and 0 in epilogues, of 12\n  \
        file: 880 bytes, before 864\n";
    assert_eq!(text, expected);
    assert!(output.status.success() && output.stdout.is_empty());
    let (_, json) = edited(&object);
    let changes = json["changes"].as_array().unwrap();
    let what: Vec<_> = changes.iter().map(|change| change["what"].as_str().unwrap()).collect();
    assert!(what.contains(&"__compact_unwind: row") && what.contains(&"moved bytes"), "{json}");
    assert_eq!(json["personalities"], serde_json::json!(["_my_personality"]));
    fs::remove_dir_all(directory).unwrap();
}

/// The LSDA of the x86-64 case is an assembler-local label. ld64.lld would take the start of its section instead.
#[test]
fn reasons_of_the_object() {
    for (name, options, reason) in [
        ("x41_pers_custom", &[][..], "lsda-without-symbol"),
        ("a37_pers_custom", &["--personality", "_another"], "other-personality"),
        ("a47_mte", &[], "tagged-frame"),
    ] {
        let (directory, object) = with_object("compact-unwind-reasons", name);
        let before = fs::read(&object).unwrap();
        let output = run(&[&["--in-place", "--json", object.to_str().unwrap()], options].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["reasons"], serde_json::json!({ reason: 1 }), "{name}");
        assert_eq!(json["changes"], serde_json::json!([]), "{name}");
        assert!(fs::read(&object).unwrap() == before, "{name}");
        fs::remove_dir_all(directory).unwrap();
    }
    // MH_SUBSECTIONS_VIA_SYMBOLS is bit 13 of the flags. We clear it.
    let (directory, object) = with_object("compact-unwind-flags", "a37_pers_custom");
    let mut bytes = fs::read(&object).unwrap();
    bytes[25] &= !0x20;
    fs::write(&object, bytes).unwrap();
    let output = run(&["--dry-run", "--json", object.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["reasons"], serde_json::json!({ "no-subsections": 1 }));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn errors() {
    let (directory, object) = with_object("compact-unwind-errors", "a37_pers_custom");
    let sound = fs::read(&object).unwrap();
    let path = object.to_str().unwrap();
    assert!(failed(&[path], &directory).contains("--output <OUT>"));
    assert!(failed(&[path, "--dry-run", "--in-place"], &directory).contains("cannot be used with"));
    let expected = "error: DIR/object.o: -o would overwrite the input: replace it in place (--in-place)\n";
    assert_eq!(failed(&[path, "-o", path], &directory), expected);
    let expected = "error: -o: 2 inputs, but one output: --in-place changes each\n";
    assert_eq!(failed(&[path, path, "-o", "x"], &directory), expected);

    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    for other in ["container/linkable.o", "container/members.a", "compact-unwind/mc/i02_ebp.o"] {
        let error = failed(&["--dry-run", corpora.join(other).to_str().unwrap()], &corpora);
        assert!(error.ends_with(": there is no Mach-O object for x86-64 or arm64 in it\n"), "{error}");
    }
    let text = corpora.join("container/container.s");
    let error = failed(&["--dry-run", text.to_str().unwrap()], &corpora);
    assert!(error.contains(": neither an ELF file, a Mach-O file nor an archive: starts with"), "{error}");

    // An output with another name keeps the old file.
    let other = directory.join("other.o");
    fs::hard_link(&object, &other).unwrap();
    let expected = "error: DIR/object.o: the file has 2 names (hard links); \
        with --break-links the others keep the old file\n";
    assert_eq!(failed(&["--in-place", path], &directory), expected);
    assert!(run(&["--in-place", "--break-links", path]).status.success());
    assert!(fs::read(&other).unwrap() == sound && fs::read(&object).unwrap() != sound);
    fs::remove_dir_all(directory).unwrap();
}

/// A truncated object is an error, or is changed if only names of symbols are lost. An error leaves no output.
#[test]
fn truncated_objects() {
    let (directory, object) = with_object("compact-unwind-truncated", "a37_pers_custom");
    let sound = fs::read(&object).unwrap();
    let (path, out) = (object.to_str().unwrap(), directory.join("out.o"));
    for len in (0..sound.len()).step_by(7) {
        fs::write(&object, &sound[..len]).unwrap();
        let error = failed(&[path, "-o", out.to_str().unwrap()], &directory);
        assert!(error.starts_with("error: DIR/object.o: "), "{len}: {error}");
        assert!(error.lines().count() == 1 && !out.exists(), "{len}: {error}");
    }
    fs::remove_dir_all(directory).unwrap();
}

/// Makes a fat file as `mach-o/fat.h` describes it: slices with CPU type and subtype, aligned to 16 bytes.
fn fat(slices: &[([u32; 2], Vec<u8>)]) -> Vec<u8> {
    let word = |number: usize| u32::try_from(number).unwrap().to_be_bytes();
    let mut bytes = [&[0xca, 0xfe, 0xba, 0xbe], &word(slices.len())[..]].concat();
    let mut at = (8 + 20 * slices.len()).next_multiple_of(16);
    for (cpu, slice) in slices {
        let [cpu, subtype] = cpu.map(u32::to_be_bytes);
        bytes.extend([cpu, subtype, word(at), word(slice.len()), word(4)].concat());
        at = (at + slice.len()).next_multiple_of(16);
    }
    for (_, slice) in slices {
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        bytes.extend(slice);
    }
    bytes
}

/// Archives of old SDKs have slices for 32-bit ARM, PowerPC and i386. These slices stay, and are named.
#[test]
fn slices_of_other_architectures_stay() {
    let (directory, object) = with_object("compact-unwind-slices", "a37_pers_custom");
    let ours = fs::read(&object).unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let i386 = fs::read(corpus.join("i02_ebp.o")).unwrap();
    // Headers of relocatable objects without load commands, as in `mach-o/loader.h`: CPU types 12 and 18.
    let header = |magic: u32, cpu: u32| [magic, cpu, 9, 1, 0, 0, 0];
    let armv7 = header(0xfeed_face, 12).map(u32::to_le_bytes).concat();
    let ppc = header(0xfeed_face, 18).map(u32::to_be_bytes).concat();
    let archive =
        [b"!<arch>\nmember.o/       0           0     0     644     28        `\n", &armv7[..]].concat();
    let cpus = [[0x0100_000c, 0], [12, 9], [18, 0], [7, 3], [12, 11]];
    let slices: Vec<_> = cpus.into_iter().zip([ours.clone(), armv7, ppc, i386, archive]).collect();
    fs::write(&object, fat(&slices)).unwrap();
    let output = directory.join("changed.o");
    let result = run(&[object.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    let text = String::from_utf8(result.stderr).unwrap();
    assert!(result.status.success(), "{text}");
    assert!(text.contains("1 row changed, 0 new, in 1 object, 4 others\n"), "{text}");
    assert!(text.contains("  slices that stay as they are: armv7, ppc, i386, armv7s\n"), "{text}");
    let changed = fs::read(&output).unwrap();
    let slice = |number: usize| {
        let field = |at: usize| u32::from_be_bytes(changed[at..at + 4].try_into().unwrap()) as usize;
        &changed[field(16 + 20 * number)..][..field(20 + 20 * number)]
    };
    assert!(slice(0).len() > ours.len());
    for (number, (_, before)) in slices.iter().enumerate().skip(1) {
        assert!(slice(number) == before, "slice {number}");
    }
    // A slice stays if it is for another architecture, or neither an object nor an archive.
    let foreign = [([12, 9], b"BC\xc0\xde".to_vec()), ([0x99, 0], b"text".to_vec()), ([18, 0], Vec::new())];
    let bitcode = ([0x0100_0007, 3], b"BC\xc0\xde".to_vec());
    let slices: Vec<_> = foreign.into_iter().chain([bitcode, ([0x0100_000c, 0], ours.clone())]).collect();
    fs::write(&object, fat(&slices)).unwrap();
    let result = run(&[object.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    let text = String::from_utf8(result.stderr).unwrap();
    assert!(result.status.success(), "{text}");
    assert!(text.contains("  slices that stay as they are: armv7, cpu-0x99-0, ppc, x86_64\n"), "{text}");
    // A linker selects a slice by the fat header, so the header of a changed slice must be right.
    fs::write(&object, fat(&[([0x0100_0007, 3], ours.clone())])).unwrap();
    let error = failed(&["--dry-run", object.to_str().unwrap()], &directory);
    assert_eq!(error, "error: DIR/object.o: x86_64: the slice's own header says arm64\n");
    // Now the file has no slice for our architectures.
    fs::write(&object, fat(&slices[..3])).unwrap();
    let error = failed(&["--dry-run", object.to_str().unwrap()], &directory);
    assert_eq!(error, "error: DIR/object.o: there is no Mach-O object for x86-64 or arm64 in it\n");
    fs::remove_dir_all(directory).unwrap();
}

/// A symbol with the number of a missing section would end up in the section that we add.
#[test]
fn a_symbol_of_no_section() {
    let (directory, object) = with_object("compact-unwind-unclaimed", "x54_old_macos");
    let path = object.to_str().unwrap();
    let sound = fs::read(&object).unwrap();
    let word = |at: usize| u32::from_le_bytes(sound[at..at + 4].try_into().unwrap());
    let (mut command, mut sections, mut symtab) = (32, 0, 0);
    for _ in 0..word(16) {
        match word(command) {
            // LC_SEGMENT_64 and LC_SYMTAB, in `mach-o/loader.h`.
            0x19 => sections = word(command + 64) as u8,
            2 => symtab = command,
            _ => {}
        }
        command += word(command + 4) as usize;
    }
    // The symbols move to the end of the file, with one more of type N_SECT.
    let (start, count) = (word(symtab + 8) as usize, word(symtab + 12));
    let with_symbol_of = |section: u8| {
        let mut bytes = sound.clone();
        bytes.extend_from_within(start..start + 16 * count as usize);
        bytes.extend([0, 0, 0, 0, 0x0e, section, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes[symtab + 8..symtab + 12].copy_from_slice(&(sound.len() as u32).to_le_bytes());
        bytes[symtab + 12..symtab + 16].copy_from_slice(&(count + 1).to_le_bytes());
        fs::write(&object, bytes).unwrap();
    };
    with_symbol_of(1);
    assert!(run(&["--dry-run", path]).status.success());
    with_symbol_of(sections + 1);
    let error = failed(&["--dry-run", path], &directory);
    assert!(error.contains("section of a symbol, which there is not"), "{error}");
    fs::remove_dir_all(directory).unwrap();
}

/// A misspelt name would leave every function in DWARF mode without a word.
#[test]
fn a_personality_that_no_row_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc/x39_pers_gxx.o");
    for (name, is_named) in [("___gxx_personality_v0", false), ("__gxx_personality_v0", true)] {
        let output = run(&[path.to_str().unwrap(), "--dry-run", "--personality", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message.contains("no compact row has it"), is_named, "{message}");
    }
}

/// The segment lies beyond the end of the file, so that no reader finds its sections.
#[test]
fn a_segment_beyond_the_file() {
    let (directory, object) = with_object("compact-unwind-segment", "x39_pers_gxx");
    let mut bytes = fs::read(&object).unwrap();
    // The segment is the first load command, at 32.
    bytes[32 + 40 + 7] = 0xff;
    fs::write(&object, bytes).unwrap();
    let error = failed(&[object.to_str().unwrap(), "--dry-run"], &directory);
    assert!(error.contains("segment: offset in the file"), "{error}");
}
