//! Tests thin archives, whose members are changed as files.

use cfipack_container::{Error, thin_members};
use cfipack_edit::resize_thin_members;
use cfipack_encoder::sframe::Options;
use cfipack_tests::embedded_objects::embedded;
use cfipack_tests::reference::Tools;

#[test]
#[ignore = "needs the reference tools"]
fn a_thin_archive_follows_its_members() {
    let tools = Tools::find();
    tools.run_well(&["mkdir", "-p", "objects"]);
    let names = ["objects/a.o", "objects/with_a_long_name_and_more.o", "b.o", "other.txt"];
    for (i, name) in names.iter().enumerate() {
        tools.write("x.s", format!(".globl f{i}\nf{i}:\n.cfi_startproc\nret\n.cfi_endproc\n"));
        tools.run_well(&["as", "x.s", "-o", name]);
    }
    tools.write("other.txt", "text");
    tools.run_well(&[&["ar", "qcsT", "thin.a"], &names[..]].concat());
    let archive = tools.read("thin.a");
    let members = thin_members(&archive).unwrap().expect("a thin archive");
    let paths: Vec<_> = members.iter().map(|member| std::str::from_utf8(member.path).unwrap()).collect();
    assert_eq!(paths, names);
    for member in &members {
        let path = std::str::from_utf8(member.path).unwrap();
        assert_eq!((member.size, member.nested), (tools.read(path).len() as u64, None));
    }
    let same = resize_thin_members(&archive, |member| Ok::<_, Error>(member.size)).unwrap();
    assert!(same.is_unchanged(&archive));
    for path in &names[..3] {
        let new = embedded(&tools.read(path), Options::new());
        tools.write(path, new);
    }
    let new = resize_thin_members(&archive, |member| {
        Ok::<_, Error>(tools.read(std::str::from_utf8(member.path).unwrap()).len() as u64)
    });
    let new = new.unwrap().to_vec(&archive);
    assert_eq!(new.len(), archive.len());
    tools.write("new.a", &new);
    // The expected archive is the one that `ar` makes of the changed members.
    tools.run_well(&[&["ar", "qcsT", "theirs.a"], &names[..]].concat());
    assert!(new == tools.read("theirs.a"), "not as ar makes it");
    tools.write("main.s", ".globl _start\n_start: call f0\ncall f1\ncall f2\n");
    tools.run_well(&["as", "main.s", "-o", "main.o"]);
    for ld in ["ld", "ld.lld-23"] {
        tools.run_well(&[ld, "main.o", "new.a", "-o", "program"]);
    }
    tools.run_well(&["ld", "main.o", "new.a", "-o", "program"]);
    let text = tools.run_well(&["readelf", "--sframe", "program"]);
    assert!(text.contains("Num FDEs: 3"), "{text}");
}

#[test]
#[ignore = "needs the reference tools"]
fn members_of_archives_in_thin_archives_are_named() {
    let tools = Tools::find();
    for name in ["a", "b", "c"] {
        tools.write("x.s", format!(".globl {name}\n{name}: ret\n"));
        tools.run_well(&["as", "x.s", "-o", &format!("{name}.o")]);
    }
    tools.run_well(&["ar", "qcs", "inner.a", "a.o", "b.o"]);
    tools.run_well(&["ar", "qcsT", "outer.a", "inner.a", "c.o"]);
    let archive = tools.read("outer.a");
    let members = thin_members(&archive).unwrap().expect("a thin archive");
    let inner = tools.read("inner.a");
    for member in &members[..2] {
        assert_eq!(member.path, b"inner.a");
        let header = member.nested.expect("a place in the archive") as usize;
        assert_eq!(&inner[header + 58..header + 60], b"`\n");
    }
    assert_eq!((members[2].path, members[2].nested), (&b"c.o"[..], None));
}
