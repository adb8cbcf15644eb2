//! Copies attributes of an old file to the changed file: owner, mode, extended attributes, and on request the time of
//! modification.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use xattr::FileExt as _;

use super::replace::keep_owner;

/// Signatures of a file's bytes. They are wrong for changed bytes, so they are not kept.
const SIGNATURES: [&str; 2] = ["security.ima", "security.evm"];

/// The label of SELinux. If the process may not set it, the new file keeps the label that the policy gave it.
const LABEL: &str = "security.selinux";

/// Gives a changed file the owner, group, mode and extended attributes of the old file, which is open as `old`.
///
/// Returns warnings about attributes that cannot be kept. A lost capability or access control list is an error.
pub fn keep(new: &File, old: &File, metadata: &Metadata) -> io::Result<Vec<String>> {
    let owner = keep_owner(new, metadata)?;
    let mut warnings = Vec::from_iter(owner.warning);
    for name in names(old)? {
        if SIGNATURES.iter().any(|signature| name == *signature) {
            let name = Path::new(&name).display();
            warnings.push(format!("extended attribute {name}: not kept, it is a signature of the old bytes"));
            continue;
        }
        let copied = old.get_xattr(&name).and_then(|value| match value {
            Some(value) => new.set_xattr(&name, &value),
            None => Ok(()),
        });
        match copied {
            Err(_) if name == LABEL => {}
            Err(error) => {
                let name = Path::new(&name).display();
                return Err(io::Error::new(error.kind(), format!("extended attribute {name}: {error}")));
            }
            Ok(()) => {}
        }
    }
    new.set_permissions(owner.mode)?;
    Ok(warnings)
}

/// Returns the names of a file's extended attributes. The list is empty if the file system has no extended attributes.
fn names(file: &File) -> io::Result<Vec<std::ffi::OsString>> {
    match file.list_xattr() {
        Ok(names) => Ok(names.collect()),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Gives a file the time of the last modification of an old file.
pub fn keep_times(new: &File, old: &Metadata) -> io::Result<()> {
    new.set_modified(old.modified()?)
}
