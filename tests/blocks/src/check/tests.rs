//! Plants faults: each test has a page, and asserts what the check finds in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Report, Surroundings, Verdict, check};
use crate::page::Page;
use crate::session::Session;

/// A machine that has only `bash`, in a tree whose `.ci/run` runs two tests.
struct Fake;

impl Surroundings for Fake {
    fn has_program(&self, name: &str) -> bool {
        name == "bash"
    }

    fn hash(&self, file: &Path) -> Option<String> {
        fs::read_to_string(file).ok()
    }

    fn has_doc_tests(&self, _: &Page) -> bool {
        false
    }

    fn program(&self, path: &str) -> Option<String> {
        (path == ".ci/run").then(|| "run tests/a --all\nrun tests/b\n".into())
    }
}

/// Runs the page in an empty directory.
fn report(test: &str, page: &str) -> Report {
    let directory = std::env::temp_dir().join(format!("cfipack-blocks-test-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("page")).unwrap();
    let page = Page::parse("docs/page.md", page.into()).unwrap();
    let session = Session {
        directory: directory.join("page"),
        source_tree: directory.clone(),
        source_cargo_home: directory.join("cargo-home"),
        work: directory.join("work"),
        variables: BTreeMap::new(),
    };
    let report = check(&page, &session, &Fake).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    report
}

fn verdicts(test: &str, page: &str) -> Vec<Verdict> {
    report(test, page).verdicts
}

/// Returns why the page's only block failed.
fn failure(test: &str, page: &str) -> String {
    match verdicts(test, page).pop() {
        Some(Verdict::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_is_one_terminal() {
    let page = "```sh\nmkdir d && cd d\nname=value\n```\n\n```text file=a/b\nin d\n```\n\n\
                ```console\n$ cat a/b; echo $name\nin d\nvalue\n$ cat \\\n> a/b\nin d\n```\n";
    assert_eq!(verdicts("terminal", page), [Verdict::Passed, Verdict::Used, Verdict::Passed]);
}

#[test]
fn a_block_in_the_source_tree_is_another_terminal() {
    let page = "```sh in-source-tree\ncd page && touch a\n```\n\n```console\n$ ls\na\n```\n\n```sh in-source-tree\nls page/b\n```\n";
    let verdicts = verdicts("source-tree", page);
    assert!(matches!(verdicts[..], [Verdict::Passed, Verdict::Passed, Verdict::Failed(_)]), "{verdicts:?}");
}

#[test]
fn a_wrong_output_is_found_and_mended() {
    let page = "```console\n$ echo right\nright\n$ echo 1 >&2\n2\n```\n\nText.\n\n```console\n$ echo a; echo b\n...\nb\n```\n";
    let report = report("output", page);
    let Verdict::Failed(why) = &report.verdicts[0] else { panic!("{:?}", report.verdicts) };
    assert_eq!(why, "$ echo 1 >&2\n--- the page\n2\n+++ now\n1\n");
    assert_eq!(report.verdicts[1], Verdict::Passed);
    assert_eq!(report.updated, page.replace("2\n```", "1\n```"));
}

#[test]
fn a_failing_command_is_found_wherever_it_stands() {
    assert!(failure("first", "```sh\nfalse\ntrue\n```\n").contains("failed:\nfalse\n"));
    assert!(failure("last", "```sh\ntrue\nls nowhere\n```\n").contains("ls nowhere"));
    assert!(failure("pipe", "```sh\nfalse | cat\n```\n").contains("status 1; failed:\ncat\n"));
    assert!(failure("unknown", "```sh\nno-such-command\n```\n").contains("not found"));
    assert!(failure("quote", "```sh\necho \"\n```\n").contains("status"));
    assert!(failure("exit", "```sh\nexit 0\n```\n").contains("has ended the terminal"));
    assert!(failure("silent", "```console\n$ false\n```\n").contains("$ false\n(status 1)"));
    assert!(failure("elided", "```console\n$ echo a; false\n...\n```\n").contains("(status 1)"));
    assert!(failure("no-command", "```console\nls\n```\n").contains("ls"));
    assert_eq!(verdicts("shown", "```console\n$ echo differs; false\ndiffers\n```\n"), [Verdict::Passed]);
}

#[test]
fn blocks_after_a_failed_one_still_run() {
    let page = "```sh\necho \"\n```\n\n```sh\ntrue\n```\n\n```sh\nfalse\n```\n";
    let verdicts = verdicts("after", page);
    assert!(
        matches!(verdicts[..], [Verdict::Failed(_), Verdict::Passed, Verdict::Failed(_)]),
        "{verdicts:?}"
    );
}

#[test]
fn what_is_not_run_is_named() {
    let page = "```sh no-run=needs-root\nfalse\n```\n\n```sh needs=bash needs=clang\nfalse\n```\n\n\
                ```sh run-by=.ci/run\ntests/b   # now\n```\n\n```sh run-by=.ci/run\ntests/c\n```\n\n```rust\nfn main() {}\n```\n";
    let verdicts = verdicts("no-run", page);
    assert_eq!(verdicts[0], Verdict::NotRun("needs root".into()));
    assert_eq!(verdicts[1], Verdict::NotTested("there is no clang".into()));
    assert_eq!(verdicts[2], Verdict::Elsewhere(".ci/run".into()));
    assert_eq!(
        verdicts[3],
        Verdict::Failed(".ci/run has neither this page's path nor these commands".into())
    );
    assert!(matches!(&verdicts[4], Verdict::Failed(why) if why.contains("no doc tests")));
}

#[test]
fn outputs_of_another_input_are_not_compared() {
    let with = |hash| {
        format!(
            "<!-- outputs of in {hash} -->\n\n```sh\nprintf 12ab >in\n```\n\n```console\n$ cat in; echo\n99\n```\n"
        )
    };
    let mut same = report("same", &with("12"));
    assert!(matches!(same.verdicts.pop(), Some(Verdict::Failed(_))));
    assert_eq!(same.updated, with("12").replace("99", "12ab"));
    let mut other = report("other", &with("34"));
    let not_compared = Verdict::NotTested("the output, since in is another one than the page's".into());
    assert_eq!(other.verdicts.pop(), Some(not_compared));
    assert_eq!(other.updated, with("12").replace("99", "12ab"));
}

#[test]
fn lines_and_bytes_of_files_are_compared() {
    let page = "```sh\nprintf 'a\\nb\\n' >f\n```\n\n<!-- from f -->\n```asm\nb\n```\n\n<!-- from f -->\n```asm\nc\n```\n\n\
                <!-- bytes of none -->\n```text\n00\n```\n";
    let verdicts = verdicts("lines", page);
    assert_eq!(verdicts[1], Verdict::Passed);
    assert_eq!(verdicts[2], Verdict::Failed("f has not these lines".into()));
    assert!(matches!(&verdicts[3], Verdict::Failed(why) if why.contains("No such file")));
}
