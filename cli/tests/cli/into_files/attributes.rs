//! Owner, mode, times, extended attributes and capabilities of a file that is replaced.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::time::{Duration, SystemTime};

use cfipack_tests::not_tested::skipped;

use super::{built, messages, names};

/// `vfs_cap_data` of revision 2 (linux/capability.h): effective, CAP_NET_RAW permitted.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn owner_mode_and_attributes_stay() {
    let Some(directory) = built("into_attributes") else { return };
    let file = directory.join("program");
    let is_root = chown(&file, Some(1), Some(2)).is_ok();
    if !is_root {
        skipped("owners and capabilities", "this is not the superuser");
    }
    fs::set_permissions(&file, Permissions::from_mode(0o6751)).unwrap();
    let has_user_attributes = xattr::set(&file, "user.note", b"kept").is_ok();
    if !has_user_attributes {
        skipped("extended attributes", "the file system has none");
    }
    let has_capability = is_root && xattr::set(&file, "security.capability", &CAPABILITY).is_ok();
    let state = || {
        let it = fs::metadata(&file).unwrap();
        let attribute = |name| xattr::get(&file, name).unwrap_or_default();
        ((it.uid(), it.gid(), it.mode()), attribute("user.note"), attribute("security.capability"))
    };
    let before = state();
    assert_eq!(before.1.is_some(), has_user_attributes);
    assert_eq!(before.2.is_some(), has_capability);
    let inode = fs::metadata(&file).unwrap().ino();
    messages(&directory, &["--in-place", "program"], 0);
    assert_ne!(fs::metadata(&file).unwrap().ino(), inode);
    assert_eq!(state(), before);
    messages(&directory, &["strip", "program"], 0);
    assert_eq!(state(), before);
    assert_eq!(names(&directory), ["library.so", "object.o", "program"]);
}

/// A signature of the bytes would be wrong for the new ones.
#[test]
fn signatures_of_the_old_bytes_are_not_kept() {
    let Some(directory) = built("into_signed") else { return };
    let file = directory.join("program");
    // A digest, not a signature: any kernel takes it.
    let digest = [&[4, 4][..], &[0; 32]].concat();
    if xattr::set(&file, "security.ima", &digest).is_err() {
        skipped("attribute security.ima", "it cannot be set here");
        return;
    }
    let text = messages(&directory, &["--in-place", "program"], 0);
    assert!(
        text.starts_with(
            "cfi2sframe: warning: program: extended attribute security.ima: not kept, it is a signature of the old bytes\n"
        ),
        "{text}"
    );
    assert_eq!(xattr::get(&file, "security.ima").unwrap(), None);
}

#[test]
fn times_change_unless_they_are_to_be_kept() {
    let Some(directory) = built("into_times") else { return };
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

/// A new output has the permissions of the input, without set-user-ID; an old one keeps its own.
#[test]
fn permissions_of_an_output() {
    let Some(directory) = built("into_output") else { return };
    fs::set_permissions(directory.join("program"), Permissions::from_mode(0o4750)).unwrap();
    let mode = |name: &str| fs::metadata(directory.join(name)).unwrap().mode() & 0o7777;
    messages(&directory, &["program", "-o", "new"], 0);
    assert_eq!(mode("new"), 0o750);
    fs::set_permissions(directory.join("new"), Permissions::from_mode(0o700)).unwrap();
    messages(&directory, &["program", "-o", "new"], 0);
    assert_eq!(mode("new"), 0o700);
}
