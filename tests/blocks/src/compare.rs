//! Compares a shown output with the real one.
//!
//! Times, temporary names and the page's own directory are not compared. `...` stands for any lines where it is a line, and
//! for any text within one.

use std::path::Path;

use regex_lite::Regex;

/// Returns whether a real output agrees with the shown one.
pub fn agrees(shown: &str, real: &str) -> bool {
    matches(&lines(shown), &lines(real))
}

/// Returns what a page shows of an output that was printed in `directory`.
pub fn shown(output: &str, directory: &Path) -> String {
    // Programs print the directory's path as it was entered, or with symbolic links resolved.
    let real = directory.canonicalize();
    let names = [Some(directory), real.as_deref().ok()];
    names
        .into_iter()
        .flatten()
        .fold(output.into(), |output, name| output.replace(&format!("{}/", name.display()), ""))
}

/// Returns the lines, with everything that differs between runs replaced.
fn lines(text: &str) -> Vec<String> {
    let times = Regex::new(r"\b\d+(\.\d+)? (s|ms|µs|ns|min)\b").unwrap();
    let temporary = Regex::new(r"/tmp/[A-Za-z0-9._-]+").unwrap();
    text.lines()
        .map(|line| {
            let line = times.replace_all(line.trim_end(), "# $2");
            temporary.replace_all(&line, "/tmp/#").into_owned()
        })
        .collect()
}

/// Returns whether the lines agree. After an elision, the first place that agrees is tried first.
fn matches(shown: &[String], real: &[String]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last elision's line, and the place where the lines after it were last tried.
    let mut elision = None;
    while from < real.len() {
        if shown.get(at).is_some_and(|line| line == "...") {
            elision = Some((at + 1, from));
            at += 1;
        } else if shown.get(at).is_some_and(|line| line_matches(line, &real[from])) {
            (at, from) = (at + 1, from + 1);
        } else if let Some((after, tried)) = elision {
            elision = Some((after, tried + 1));
            (at, from) = (after, tried + 1);
        } else {
            return false;
        }
    }
    shown[at..].iter().all(|line| line == "...")
}

/// Returns whether the line has the parts between its elisions in order. The first is at its start, the last at its end.
fn line_matches(shown: &str, real: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| real.strip_prefix(first)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_temporary_names_and_trailing_spaces_do_not_count() {
        assert!(agrees("in 0.4 s  \n", "in 12 s\n"));
        assert!(agrees("/tmp/ccAb1.o: x\n", "/tmp/cc9Zz.o: x\n"));
        assert!(!agrees("4 sections\n", "5 sections\n"));
        assert!(!agrees("4 s\n", "4 ms\n"));
    }

    #[test]
    fn everything_else_counts() {
        assert!(!agrees("CFA = rsp+16\n", "CFA = rsp+8\n"));
        assert!(!agrees("a\n", "a\nb\n"));
        assert!(!agrees("a\nb\n", "a\n"));
        assert!(!agrees("", "error: no such file\n"));
    }

    #[test]
    fn elisions_stand_for_any_lines_and_any_text() {
        for (shown, real, agrees) in [
            ("a\n...\nd\n", "a\nb\nc\nd\n", true),
            ("a\n...\nd\n", "a\nd\n", true),
            ("...\nd\n", "d\nx\nd\n", true),
            ("a\n...\n", "a\n", true),
            ("...\n", "", true),
            ("a\n...\nd\n", "a\nb\nc\n", false),
            ("a\n...\nb\n...\nc\n", "a\n1\nb\n2\nb\nc\n", true),
            ("a\n...\nb\n...\nc\n", "a\n1\n2\nc\n", false),
            ("gcc ... 12\n", "gcc (Debian) 12\n", true),
            ("gcc ... 12\n", "gcc (Debian) 13 x\n", false),
            ("a...a\n", "a\n", false),
        ] {
            assert_eq!(super::agrees(shown, real), agrees, "{shown:?} {real:?}");
        }
    }

    #[test]
    fn the_directory_is_not_shown() {
        assert_eq!(shown("/x/page/a.o: 1\n", Path::new("/x/page")), "a.o: 1\n");
    }
}
