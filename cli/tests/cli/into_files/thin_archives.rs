//! Tests thin archives, whose members are files anywhere: no archive in a tree may change files outside the tree.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{built, messages, state};

/// Makes a thin archive with exactly these names of members. `ar` would write other names.
fn thin_archive(members: &[&str]) -> Vec<u8> {
    let header =
        |name: &str, size: usize| format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 644);
    let (mut names, mut headers) = (String::new(), String::new());
    for member in members {
        headers += &header(&format!("/{}", names.len()), 1);
        names += &format!("{member}/\n");
    }
    if names.len() % 2 != 0 {
        names.push('\n');
    }
    let list = format!("{:<48}{:<10}`\n", "//", names.len());
    [b"!<thin>\n", list.as_bytes(), names.as_bytes(), headers.as_bytes()].concat()
}

/// Returns the sizes of members that a thin archive states.
fn sizes(archive: &Path, members: usize) -> Vec<u64> {
    let bytes = fs::read(archive).unwrap();
    let headers = bytes[bytes.len() - 60 * members..].chunks(60);
    headers.map(|header| std::str::from_utf8(&header[48..58]).unwrap().trim_end().parse().unwrap()).collect()
}

/// Makes a directory `tree` with an archive, and a directory `outside` next to it.
fn tree(name: &str) -> PathBuf {
    let directory = built(name);
    for below in ["tree/a", "tree/inside", "outside"] {
        fs::create_dir_all(directory.join(below)).unwrap();
    }
    for copy in ["outside/object.o", "outside/absolute.o", "tree/inside/object.o", "tree/inside/absolute.o"] {
        fs::copy(directory.join("object.o"), directory.join(copy)).unwrap();
    }
    symlink("../../outside/object.o", directory.join("tree/a/link.o")).unwrap();
    symlink("../../outside", directory.join("tree/a/directory")).unwrap();
    symlink("../inside", directory.join("tree/a/inside")).unwrap();
    directory
}

#[test]
fn members_outside_of_the_tree_stay() {
    let directory = tree("into_thin_tree");
    let [outside, absolute] = ["outside/object.o", "outside/absolute.o"].map(|name| directory.join(name));
    let before = [&outside, &absolute].map(|path| state(path));
    let canonical = fs::canonicalize(&directory).unwrap();
    let in_tree = canonical.join("tree/inside/absolute.o");
    let beyond = "../../outside/object.o";
    let out = [
        beyond,
        absolute.to_str().unwrap(),
        "link.o",
        "directory/object.o",
        "inside/object.o",
        "../inside/../../outside/object.o",
        "missing.o",
        "none/object.o",
        "../inside",
    ];
    let members = [&out[..], &["../inside/object.o", in_tree.to_str().unwrap()]].concat();
    let archive = directory.join("tree/a/thin.a");
    fs::write(&archive, thin_archive(&members)).unwrap();
    let text = messages(&directory, &["--in-place", "-r", "tree"], 0);
    for member in out {
        let path = Path::new("tree/a").join(member);
        let path = path.display();
        let is_there = !["missing.o", "../inside", "none/object.o"].contains(&member);
        let reason =
            if is_there { "outside of its directory tree" } else { "that is not there, or not a regular" };
        let expected = format!("warning: {path}: not changed: member of a thin archive {reason}");
        assert!(text.contains(&expected), "{member}: {text}");
    }
    assert_eq!(text.matches("warning: ").count(), out.len(), "{text}");
    assert_eq!([&outside, &absolute].map(|path| state(path)), before);
    // Members inside the tree are changed like all files there, and the archive states their new sizes.
    let new = fs::metadata(directory.join("tree/inside/object.o")).unwrap().len();
    assert_ne!(new, fs::metadata(&outside).unwrap().len());
    assert_eq!(sizes(&archive, members.len()), [vec![1; out.len()], vec![new; 2]].concat());
    messages(&directory, &["strip", "-r", "tree"], 0);
    let old = fs::metadata(&outside).unwrap().len();
    assert_eq!(sizes(&archive, members.len()), [vec![1; out.len()], vec![old; 2]].concat());
    assert_eq!([&outside, &absolute].map(|path| state(path)), before);
}

/// Thin archives whose members are thin archives, some of them members of themselves.
#[test]
fn thin_archives_of_thin_archives() {
    let directory = crate::program::scratch("into_thin_nested");
    let archives = [("first.a", "second.a"), ("second.a", "first.a"), ("itself.a", "itself.a")];
    for (name, member) in archives {
        fs::write(directory.join(name), thin_archive(&[member])).unwrap();
    }
    for (name, member) in archives {
        let before = state(&directory.join(member));
        let text = messages(&directory, &["--in-place", name], 2);
        let expected = format!("error: {member}: a thin archive as the member of one\n");
        assert!(text.starts_with(&expected) && !text.contains("functions"), "{text}");
        assert_eq!(state(&directory.join(member)) == before, name != member, "{name}");
    }
}

/// The order of names and directories in the arguments makes no difference.
#[test]
fn members_of_a_named_archive_are_listed() {
    for arguments in
        [&["tree/a/thin.a"][..], &["-r", "tree", "tree/a/thin.a"], &["-r", "tree/a/thin.a", "tree"]]
    {
        let directory = tree("into_thin_named");
        let members = ["../../outside/object.o", "directory/absolute.o"];
        let archive = directory.join("tree/a/thin.a");
        fs::write(&archive, thin_archive(&members)).unwrap();
        let text = messages(&directory, &[&["--in-place"], arguments].concat(), 0);
        let beside = directory.join("outside");
        for (shown, file) in
            [("tree/a/../../outside/object.o", "object.o"), ("tree/a/directory/absolute.o", "absolute.o")]
        {
            assert!(text.contains(&format!("{shown}: changed, ")), "{arguments:?}: {text}");
            messages(&beside, &["verify", file], 0);
        }
        let new = fs::metadata(beside.join("object.o")).unwrap().len();
        assert_eq!(sizes(&archive, 2), [new, new]);
    }
}
