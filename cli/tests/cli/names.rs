//! Gives every verb files whose names, sections and symbols have control characters. They must not reach a terminal.

use std::fs;
use std::path::Path;

use crate::compact::{linked, text};
use crate::program::{corpus, run, run_in, scratch};

/// An escape sequence, DEL, the C1 control that starts one, and a line break, in a directory's name.
const DIRECTORY: &str = "d\u{1b}[31m\u{7f}\u{9b}\nQ";

/// Replaces each name by one of the same length.
fn renamed(mut bytes: Vec<u8>, names: &[(&[u8], &[u8])]) -> Vec<u8> {
    for (old, new) in names {
        assert_eq!(old.len(), new.len());
        let found: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
        assert!(!found.is_empty(), "{old:?}");
        found.iter().for_each(|&at| bytes[at..][..old.len()].copy_from_slice(new));
    }
    bytes
}

fn write_files(directory: &Path) {
    let own = |name: &str| fs::read(corpus().join(name)).unwrap();
    let symbols: [(&[u8], &[u8]); 2] = [(b"first\0", b"f\x1b[1m\0"), (b"second\0", b"s\xc2\x9b1\x7f\n\0")];
    let sections: [(&[u8], &[u8]); 2] =
        [(b".text\0", b".\x1b[1m\0"), (b".text.unlikely\0", b".text\x1b[2J\x7f\nQ\xc2\x9b\0")];
    let of_mach_o: [(&[u8], &[u8]); 2] =
        [(b"_f0\0", b"_\x1b\x7f\0"), (b"__gxx_personality_v0\0", b"__gxx\nQ\x1b\xc2\x9bsonality\x7fv\0")];
    let files = [
        ("object", renamed(own("linkable.o"), &[symbols, sections].concat())),
        ("wrong", renamed(own("explain.o"), &[(b"no_row\0", b"n\xc2\x9b1\x7f\n\0"), sections[0]])),
        ("linked", renamed(own("linked.so"), &symbols)),
        ("mach-o", renamed(linked_object("l_5_pers_nolsda"), &of_mach_o)),
        ("dylib", linked("l_003_two_same.dylib")),
        ("annotate.s", own("annotate.s")),
        ("annotate.o", own("annotate.o")),
        ("none.a", b"!<arch>\n".to_vec()),
    ];
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

fn linked_object(name: &str) -> Vec<u8> {
    linked(&format!("{name}.o"))
}

/// Returns runs of a verb. `*` stands for the directory, and each run is made again with `--json`.
fn runs(verb: &str) -> &'static [&'static str] {
    match verb {
        "" => {
            &["*object --verify", "*wrong", "*object -o *out", "*none.a -o *out", "*mach-o -o *out", "*gone"]
        }
        "dump" => &["dump *object *linked", "dump *mach-o", "dump --symbols *object *wrong", "dump *gone"],
        "lookup" => &["lookup *object 0x1", "lookup *linked first second", "lookup *mach-o 0x1"],
        "verify" => &["verify *object *wrong *linked", "verify *mach-o *dylib", "verify --lint *wrong"],
        "diff" => &["diff *object *wrong", "diff *linked *linked", "diff *mach-o *mach-o"],
        "stats" => &["stats *object *wrong *linked", "stats *mach-o"],
        "explain" => &["explain *object", "explain *wrong", "explain *wrong no_row", "explain *mach-o"],
        "merge" => &["merge *linked", "merge *linked --section *out", "merge *object"],
        "strip" => &["strip *object -o *out", "strip *none.a -o *out", "strip *gone"],
        "gaps" => &["gaps *object *wrong", "gaps --padding *linked", "gaps --cfi *object *wrong"],
        "lint" => &["lint *object *wrong *linked", "lint --sarif *wrong", "lint *gone"],
        "unwind-info" => &["unwind-info *dylib", "unwind-info *mach-o"],
        "annotate" => &["annotate *annotate.s --object *annotate.o -o *out", "annotate *gone --object *gone"],
        "compact-unwind" => &["compact-unwind *mach-o -o *out", "compact-unwind *gone -o *out"],
        other => panic!("{other}: give this verb files with control characters in their names too"),
    }
}

#[test]
fn no_verb_prints_control_characters_of_names() {
    let parent = scratch("control_names");
    let directory = parent.join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    write_files(&directory);
    let help = text(run(&["-h"]).stdout);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = listed.map_while(|line| line.split_whitespace().next()).filter(|verb| *verb != "help");
    for verb in verbs.chain([""]) {
        let mut has_name = false;
        for run in runs(verb) {
            let arguments: Vec<_> =
                run.split(' ').map(|argument| argument.replace('*', &format!("{DIRECTORY}/"))).collect();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            for json in [&[][..], &["--json"]] {
                let output = run_in(&parent, &[&arguments[..], json].concat());
                let all = text(output.stdout) + &text(output.stderr);
                let raw = all.find(|c: char| c.is_control() && !"\n\t".contains(c));
                assert!(raw.is_none() && !all.contains("\nQ"), "{run}: {all:?}");
                has_name |= all.contains("\\u{1b}[31m") || all.contains("\\u001b[31m");
            }
        }
        assert!(has_name, "{verb}: no run prints the name of a file");
    }
}

/// JSON has the names as they are.
#[test]
fn json_has_control_characters_as_escapes() {
    let parent = scratch("control_json");
    let directory = parent.join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    write_files(&directory);
    let file = format!("{DIRECTORY}/wrong");
    let output = text(run_in(&parent, &["lint", "--json", &file]).stdout);
    assert!(output.contains("d\\u001b[31m\\u007f\\u009b\\nQ/wrong"), "{output}");
    let report: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(report["file"], file);
    assert_eq!(report["findings"][0]["symbol"].as_str().unwrap().split('+').next(), Some("n\u{9b}1\u{7f}\n"));
}
