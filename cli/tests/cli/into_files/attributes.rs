//! Tests that a replaced file keeps owner, mode, times, extended attributes and capabilities.

use std::fmt::Debug;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{built, messages, names};

/// `vfs_cap_data` of revision 2 (linux/capability.h): effective, CAP_NET_RAW permitted.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn mode_stays() {
    let directory = built("into_mode");
    let file = directory.join("program");
    fs::set_permissions(&file, Permissions::from_mode(0o6751)).unwrap();
    stays_when_replaced(&directory, || fs::metadata(&file).unwrap().mode());
}

#[test]
#[ignore = "needs root"]
fn owner_mode_and_attributes_stay() {
    let directory = built("into_attributes");
    let file = directory.join("program");
    chown(&file, Some(1), Some(2)).expect("this test needs root");
    fs::set_permissions(&file, Permissions::from_mode(0o6751)).unwrap();
    // Some file systems have no extended attributes of users.
    let has_user_attributes = xattr::set(&file, "user.note", b"kept").is_ok();
    let has_capability = xattr::set(&file, "security.capability", &CAPABILITY).is_ok();
    eprintln!("extended attributes: {has_user_attributes}, capabilities: {has_capability}");
    stays_when_replaced(&directory, || {
        let it = fs::metadata(&file).unwrap();
        let attribute = |name| xattr::get(&file, name).unwrap_or_default();
        let (note, capability) = (attribute("user.note"), attribute("security.capability"));
        assert_eq!((note.is_some(), capability.is_some()), (has_user_attributes, has_capability));
        ((it.uid(), it.gid(), it.mode()), note, capability)
    });
}

/// Replaces `program` twice, and asserts that `state` stays the same.
fn stays_when_replaced<S: PartialEq + Debug>(directory: &Path, state: impl Fn() -> S) {
    let file = directory.join("program");
    let before = state();
    let inode = fs::metadata(&file).unwrap().ino();
    messages(directory, &["--in-place", "program"], 0);
    assert_ne!(fs::metadata(&file).unwrap().ino(), inode);
    assert_eq!(state(), before);
    messages(directory, &["strip", "program"], 0);
    assert_eq!(state(), before);
    assert_eq!(names(directory), ["library.so", "object.o", "program"]);
}

/// A signature of the old bytes would be wrong for the new bytes.
#[test]
#[ignore = "needs root"]
fn signatures_of_the_old_bytes_are_not_kept() {
    let directory = built("into_signed");
    let file = directory.join("program");
    // The attribute has a digest and no signature, because every kernel accepts a digest.
    let digest = [&[4, 4][..], &[0; 32]].concat();
    xattr::set(&file, "security.ima", &digest)
        .expect("this test needs root, and a file system with extended attributes");
    let text = messages(&directory, &["--in-place", "program"], 0);
    assert!(
        text.starts_with(
            "warning: program: extended attribute security.ima: not kept, it is a signature of the old bytes\n"
        ),
        "{text}"
    );
    assert_eq!(xattr::get(&file, "security.ima").unwrap(), None);
}

#[test]
fn times_change_unless_they_are_to_be_kept() {
    let directory = built("into_times");
    let file = directory.join("library.so");
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_000);
    let set = || {
        let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
        fs::File::options().write(true).open(&file).unwrap().set_times(times).unwrap();
    };
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    set();
    messages(&directory, &["--in-place", "-p", "library.so"], 0);
    assert_eq!(modified(), old);
    messages(&directory, &["strip", "library.so"], 0);
    assert!(modified() > old);
    set();
    messages(&directory, &["library.so", "-o", "new.so", "--preserve-dates"], 0);
    assert_eq!(fs::metadata(directory.join("new.so")).unwrap().modified().unwrap(), old);
}

/// A new output gets the permissions of the input, without set-user-ID. An existing output keeps its own.
#[test]
fn permissions_of_an_output() {
    let directory = built("into_output");
    fs::set_permissions(directory.join("program"), Permissions::from_mode(0o4750)).unwrap();
    let mode = |name: &str| fs::metadata(directory.join(name)).unwrap().mode() & 0o7777;
    messages(&directory, &["program", "-o", "new"], 0);
    assert_eq!(mode("new"), 0o750);
    fs::set_permissions(directory.join("new"), Permissions::from_mode(0o700)).unwrap();
    messages(&directory, &["program", "-o", "new"], 0);
    assert_eq!(mode("new"), 0o700);
}
