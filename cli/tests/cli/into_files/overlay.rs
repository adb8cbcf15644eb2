//! Tests files of a lower layer of overlayfs, as containers have them.

use super::{built, mounting};

/// The lower layer keeps the old file, and the upper layer gets only the new file.
#[test]
#[ignore = "needs root"]
fn a_file_of_a_lower_layer() {
    let directory = built("into_overlay");
    let script = r#"
mkdir lower layers && mount -t tmpfs none layers && cp library.so lower/ &&
mkdir layers/upper layers/work layers/merged || exit 99
mount -t overlay -o lowerdir=lower,upperdir=layers/upper,workdir=layers/work none layers/merged || exit 99
"$0" --in-place layers/merged/library.so && "$0" verify layers/merged/library.so || exit 2
cmp library.so lower/library.so && ls -A layers/upper
"$0" strip layers/merged/library.so && cmp library.so layers/merged/library.so"#;
    let output = mounting(&directory, script);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.ends_with("library.so\n") && printed.contains(" 0 different, "), "{printed}");
}
