//! Tests hard links and symbolic links to files that are replaced.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use super::{built, messages, names, state};

fn inode(directory: &Path, name: &str) -> u64 {
    fs::metadata(directory.join(name)).unwrap().ino()
}

#[test]
fn hard_links_stay_links() {
    let directory = built("into_hard_links");
    for name in ["second", "third"] {
        fs::hard_link(directory.join("program"), directory.join(name)).unwrap();
    }
    let before = state(&directory.join("program"));
    let text = messages(&directory, &["--in-place", "program", "second"], 1);
    let refused = "warning: program: not changed: the file has 3 names (hard links), 2 of them given; \
                   with --break-links the others keep the old file\n";
    assert!(text.starts_with(refused), "{text}");
    assert_eq!(state(&directory.join("program")), before);
    // Two spellings of one name are the same file, which counts once.
    messages(&directory, &["--in-place", "program", "./second", "third", "second"], 0);
    let new = inode(&directory, "program");
    assert_ne!(new, before.0);
    assert_eq!(["second", "third"].map(|name| inode(&directory, name)), [new, new]);
    assert_eq!(fs::metadata(directory.join("third")).unwrap().nlink(), 3);
    messages(&directory, &["strip", "--break-links", "second"], 0);
    assert_eq!(["program", "third"].map(|name| inode(&directory, name)), [new, new]);
    assert_ne!(inode(&directory, "second"), new);
    assert_eq!(names(&directory), ["library.so", "object.o", "program", "second", "third"]);
}

#[test]
fn symbolic_links_lead_to_the_new_file() {
    let directory = built("into_symbolic_links");
    fs::create_dir(directory.join("other")).unwrap();
    fs::rename(directory.join("program"), directory.join("other/program")).unwrap();
    symlink("other/program", directory.join("link")).unwrap();
    symlink("link", directory.join("link2")).unwrap();
    let old = inode(&directory, "other/program");
    let text = messages(&directory, &["--in-place", "link2", "other/program"], 0);
    assert!(text.starts_with("link2: changed"), "{text}");
    assert!(directory.join("link").is_symlink() && directory.join("link2").is_symlink());
    assert_ne!(inode(&directory, "other/program"), old);
    assert_eq!(inode(&directory, "link2"), inode(&directory, "other/program"));
    // A symbolic link that is found in a directory is not followed.
    let before = state(&directory.join("other/program"));
    symlink("..", directory.join("other/loop")).unwrap();
    symlink("nowhere", directory.join("dangling")).unwrap();
    messages(&directory, &["strip", "-r", "other/loop/other"], 0);
    assert_ne!(state(&directory.join("other/program")), before);
    let text = messages(&directory, &["--in-place", "-r", "."], 0);
    assert!(text.contains("  skipped: 4 symbolic link\n"), "{text}");
    let text = messages(&directory, &["--in-place", "dangling"], 2);
    assert_eq!(text, "error: dangling: No such file or directory (os error 2)\n");
}
