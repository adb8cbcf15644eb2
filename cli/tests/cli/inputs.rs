//! Tests inputs of the conversion: several inputs at once, and inputs that belong to another verb.

use std::fs;

use object::write::Object;
use object::{Architecture, BinaryFormat, Endianness, SectionKind};
use serde_json::Value;

use crate::compact::{error_of, text, unpack};
use crate::program::{run, scratch};

/// Each summary is the same as when the file is converted alone, even if another input cannot be read.
#[test]
fn several_inputs_have_a_summary_each() {
    let files = ["linked.so", "linkable.o", "both_frames"];
    let alone = files.map(|file| text(run(&[file]).stderr)).concat();
    let together = run(&files);
    assert_eq!((together.status.code(), text(together.stderr)), (Some(0), alone.clone()));
    let output = run(&["linked.so", "container.s", "linkable.o", "both_frames"]);
    let printed = text(output.stderr);
    let (errors, rest): (Vec<_>, Vec<_>) = printed.lines().partition(|line| line.starts_with("error: "));
    assert_eq!((output.status.code(), errors.len()), (Some(2), 1), "{printed}");
    assert_eq!(rest.join("\n") + "\n", alone);
    // Members of archives are inputs too.
    let output = run(&["--json", "members.a", "linked.so"]);
    let objects: Vec<Value> =
        text(output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = objects.iter().map(|object| object["file"].as_str().unwrap()).collect();
    let members =
        ["members.a(linkable.o)", "members.a(debug_frame.none.o)", "members.a(a_long_member_name.o)"];
    assert_eq!(names, [&members[..], &["linked.so"]].concat());
}

#[test]
fn mach_o_files_have_other_verbs() {
    let directory = unpack("other_verbs", &["l_003_two_same.dylib", "l_003_two_same.o"]);
    for (file, verb) in
        [("l_003_two_same.dylib", "unwind-info FILE"), ("l_003_two_same.o", "compact-unwind FILE -o OUT")]
    {
        let error = error_of(&directory, &[file]);
        assert!(error.starts_with(&format!("error: {file}: a Mach-O ")) && error.contains(verb), "{error}");
        let error = error_of(&directory, &[file, "-o", "new"]);
        assert!(error.contains(verb.split(' ').next().unwrap()), "{error}");
    }
}

/// GCC's `-flto` makes objects with sections of intermediate code, and a `.text` without bytes.
#[test]
fn objects_of_gccs_optimization_at_the_link() {
    let directory = scratch("gcc_lto");
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    let code = object.add_section(Vec::new(), b".gnu.lto_main.1.0".to_vec(), SectionKind::Other);
    object.append_section_data(code, &[1, 2, 3], 1);
    fs::write(directory.join("slim.o"), object.write().unwrap()).unwrap();
    for arguments in
        [&["slim.o"][..], &["stats", "slim.o"], &["verify", "slim.o"], &["slim.o", "-o", "new.o"]]
    {
        let error = error_of(&directory, arguments);
        assert!(error.contains("an object of GCC's link-time optimization (-flto)"), "{error}");
        assert!(error.contains("-ffat-lto-objects"), "{error}");
    }
}
