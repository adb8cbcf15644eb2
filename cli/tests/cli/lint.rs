//! Tests `lint`, which compares CFI with code.

use std::fs;

use cfipack_tests::reference::Tools;
use serde_json::Value;

use crate::objects::printed;
use crate::program::{corpus, run, scratch};

/// Symbol and kind of every finding in `explain.o`. The source states what is wrong with each function.
const WRONG: [(&str, &str); 6] = [
    ("no_row", "no-row"),
    ("no_instruction", "no-instruction"),
    ("mismatch", "mismatch"),
    ("branch", "branch"),
    ("prologue_only", "no-row"),
    ("boundary", "boundary"),
];

fn report(arguments: &[&str]) -> Value {
    let output = run(&[&["lint", "--json"], arguments].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

fn findings(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let of = |finding: &Value| {
        let symbol = text(&finding["symbol"]);
        (symbol.split('+').next().unwrap_or_default().to_string(), text(&finding["kind"]))
    };
    report["findings"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn wrong_functions_are_found_and_right_ones_are_not() {
    let report = report(&["explain.o"]);
    let found = findings(&report);
    for (symbol, kind) in WRONG {
        assert!(found.contains(&(symbol.to_string(), kind.to_string())), "{symbol}: {found:?}");
    }
    assert!(found.iter().all(|(symbol, _)| symbol != "agrees"), "{found:?}");
    assert_eq!(run(&["lint", "explain.o"]).status.code(), Some(1));
    // A library that ld linked.
    assert!(printed(0, &["lint", "linked.so"]).contains("0 with wrong CFI"));
}

#[test]
fn kinds_and_functions_are_selected() {
    let only = findings(&report(&["explain.o", "--kind", "boundary"]));
    assert_eq!(only, [("boundary".to_string(), "boundary".to_string())]);
    let only = findings(&report(&["explain.o", "--function", "branch"]));
    assert!(!only.is_empty() && only.iter().all(|(symbol, _)| symbol == "branch"), "{only:?}");
    printed(0, &["lint", "explain.o", "--function", "agrees"]);
    let missing = run(&["lint", "explain.o", "linked.so", "--function", "agrees", "--function", "absent"]);
    assert_eq!(missing.status.code(), Some(1));
    let warnings = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(warnings.matches("no function with CFI is named").count(), 1, "{warnings}");
    assert!(warnings.contains("no function with CFI is named absent"), "{warnings}");
    let refused = run(&["lint", "explain.o", "--kind", "wrong"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_baseline_has_what_is_known() {
    let known = scratch("lint").join("known.json");
    let all = run(&["lint", "--json", "explain.o"]).stdout;
    fs::write(&known, &all).unwrap();
    let known = known.to_str().unwrap();
    let rest = report(&["explain.o", "--baseline", known]);
    let count = serde_json::from_slice::<Value>(&all).unwrap()["findings"].as_array().unwrap().len();
    assert_eq!((findings(&rest), &rest["known"]), (Vec::new(), &count.into()));
    printed(0, &["lint", "explain.o", "--baseline", known]);
    // The baseline is of another file, so all findings are new.
    printed(1, &["lint", "explain_aarch64.o", "--baseline", known]);
}

#[test]
fn sarif_has_a_rule_for_each_result() {
    let output = run(&["lint", "--sarif", "explain.o", "explain_aarch64.o"]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules: Vec<_> =
        run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    let results = run["results"].as_array().unwrap();
    assert!(results.len() > WRONG.len() && results.iter().all(|result| rules.contains(&&result["ruleId"])));
}

/// The expected URI is by `urllib.parse.quote` of Python.
#[test]
fn sarif_has_uris() {
    let file = scratch("lint_uri").join("a b%20#c.o");
    fs::copy(corpus().join("explain.o"), &file).unwrap();
    let output = run(&["lint", "--sarif", file.to_str().unwrap()]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let location = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    let uri = location["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.starts_with("file:///") && uri.ends_with("/a%20b%2520%23c.o"), "{uri}");
    let empty = run(&["lint", "--sarif", "linked.so"]).stdout;
    assert_eq!(serde_json::from_slice::<Value>(&empty).unwrap()["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn findings_are_ignored_by_kind_and_symbol() {
    let list = scratch("lint_ignore").join("ignore.txt");
    fs::write(&list, "# by intent\nno-row no_*\n* boundary\nentry gone\n").unwrap();
    let arguments = ["lint", "--json", "explain.o", "--ignore", list.to_str().unwrap()];
    let output = run(&arguments);
    let all = report(&["explain.o"]);
    let rest: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_ignored = |(symbol, kind): &(String, String)| {
        symbol == "boundary" || (kind == "no-row" && symbol.starts_with("no_"))
    };
    let (ignored, expected): (Vec<_>, Vec<_>) = findings(&all).into_iter().partition(is_ignored);
    assert_eq!((findings(&rest), &rest["ignored"]), (expected, &ignored.len().into()));
    assert!(!ignored.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.ends_with("ignore.txt: line 4: entry gone: matches no finding\n"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

/// The finding is at the instruction after `no_row`'s push, which has no row.
#[test]
#[ignore = "needs the reference tools"]
fn findings_have_lines_of_the_source() {
    let tools = Tools::find();
    let text = "\t.type no_row, @function\nno_row:\n\t.cfi_startproc\n\tpush %rbx\n\tpop %rbx\n\tret\n\t.cfi_endproc\n";
    let push = 1 + text.lines().position(|line| line.contains("push")).unwrap();
    tools.write("line.s", text);
    for version in ["--gdwarf-4", "--gdwarf-5"] {
        tools.run_well(&["as", version, "-o", "line.o", "line.s"]);
        tools.run_well(&["ld", "-shared", "-o", "line.so", "line.o"]);
        for file in ["line.o", "line.so"] {
            let found = report(&[tools.path(file).to_str().unwrap()]);
            let source = &found["findings"][0]["source"];
            assert_eq!(source["line"], push, "{file}: {found}");
            assert!(source["file"].as_str().unwrap().ends_with("line.s"), "{file}: {found}");
        }
    }
}

#[test]
fn verify_says_whether_the_cfi_was_checked() {
    assert!(printed(0, &["verify", "linked.so"]).contains("CFI against code: not checked (--lint)"));
    let checked = printed(0, &["verify", "--lint", "linked.so"]);
    assert!(checked.contains("CFI against code: ") && checked.contains("0 with wrong CFI"), "{checked}");
}

/// A function with rows for its prologue only, as clang writes it with `-Oz` for AArch64.
const PROLOGUE: &str = "\t.cfi_startproc
\tpush %rbx
\t.cfi_def_cfa_offset 16
\t.cfi_offset %rbx, -16
\tcall other
\tpop %rbx
EPILOGUE\tret
\t.cfi_endproc
";

/// In a file without rows for epilogues, findings are about calls. A single function without them is a fault.
#[test]
#[ignore = "needs the reference tools"]
fn files_with_rows_for_calls_only_are_judged_at_calls() {
    let tools = Tools::find();
    let linted = |bodies: &[&String], arguments: &[&str]| {
        let functions = bodies.iter().enumerate().map(|(number, body)| {
            format!("\t.type f{number}, @function\nf{number}:\n{body}\t.size f{number}, . - f{number}\n")
        });
        tools.write("calls.s", functions.collect::<String>());
        tools.run_well(&["as", "-o", "calls.o", "calls.s"]);
        let report = report(&[&[tools.path("calls.o").to_str().unwrap()], arguments].concat());
        (report["calls_only"].as_bool().unwrap(), findings(&report))
    };
    let inexact = PROLOGUE.replace("EPILOGUE", "");
    let exact = PROLOGUE.replace("EPILOGUE", "\t.cfi_def_cfa_offset 8\n\t.cfi_restore %rbx\n");
    let wrong = inexact.replace("offset 16", "offset 24");
    let fault = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    assert_eq!(linted(&[&inexact; 4], &[]), (true, vec![]));
    // The row at the end of the frame is there, and wrong.
    let planted = exact.replace("offset 8\n", "offset 8\n\tnop\n\t.cfi_def_cfa_offset 999\n");
    assert_eq!(linted(&[&planted; 4], &[]).1.len(), 4);
    assert_eq!(
        linted(&[&inexact, &inexact, &inexact, &inexact, &wrong], &[]),
        (true, vec![fault("f4", "call")])
    );
    assert_eq!(linted(&[&inexact, &exact], &["--calls-only"]), (true, vec![]));
    assert!(
        linted(&[&inexact, &exact], &[])
            .1
            .iter()
            .any(|(name, kind)| (&name[..], &kind[..]) == ("f0", "no-row"))
    );
    assert_eq!(linted(&[&exact, &wrong], &["--calls-only"]), (true, vec![fault("f1", "call")]));
}

/// `never` does not return, so code after its call is reached on another path. There `%rbx` is back, and its second
/// store is right.
const NEVER: &str = "
\t.type f, @function
f:
\t.cfi_startproc
\tsub $24, %rsp
\t.cfi_def_cfa_offset 32
\tmov %rbx, 8(%rsp)
\t.cfi_offset %rbx, -24
\tmov %rdi, %rbx
\ttest %esi, %esi
\tjne 1f
\tjs 3f
\tcall other
\tmov 8(%rsp), %rbx
\t.cfi_restore %rbx
\ttest %eax, %eax
\tjne 2f
\tadd $24, %rsp
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_def_cfa_offset 32
\t.cfi_offset %rbx, -24
1:\tcall never
2:\t.cfi_restore %rbx
\tmov %rbx, 8(%rsp)
\t.cfi_offset %rbx, -24
\tcall never
3:\tmov 8(%rsp), %rbx
\t.cfi_restore %rbx
\tadd $24, %rsp
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size f, . - f
\t.type never, @function
never:
\t.cfi_startproc
\tcall other
\tjmp spin
\t.cfi_endproc
\t.size never, . - never
\t.type spin, @function
spin:
\t.cfi_startproc
\tEND
\t.cfi_endproc
\t.size spin, . - spin
";

#[test]
#[ignore = "needs the reference tools"]
fn called_functions_that_never_return_are_looked_at() {
    let tools = Tools::find();
    let found = |end: &str| {
        tools.write("never.s", NEVER.replace("END", end));
        tools.run_well(&["as", "-o", "never.o", "never.s"]);
        findings(&report(&[tools.path("never.o").to_str().unwrap()]))
    };
    assert_eq!(found("jmp spin"), []);
    // Functions that only call each other, and a function that ends with a call, give no findings.
    assert_eq!(found("jmp never"), []);
    assert_eq!(found("call other"), []);
    let wrong = found("ret");
    assert_eq!(wrong, [("f".to_string(), "lost-register".to_string())]);
}

#[test]
#[ignore = "needs the reference tools"]
fn imported_functions_that_never_return_are_known_by_name() {
    let tools = Tools::find();
    let found = |name: &str| {
        let call = format!("call {name}@PLT");
        let text = NEVER.replace("call never", &call).replace("call other", "call other@PLT");
        tools.write("imported.s", text.replace("END", "ret"));
        tools.run_well(&["as", "-o", "imported.o", "imported.s"]);
        tools.run_well(&["ld", "-shared", "-o", "imported.so", "imported.o"]);
        findings(&report(&[tools.path("imported.so").to_str().unwrap()]))
    };
    assert_eq!(found("abort"), []);
    let wrong = found("returns");
    assert_eq!(wrong, [("f".to_string(), "lost-register".to_string())]);
}

/// A library's own functions may be called by way of its PLT.
#[test]
#[ignore = "needs the reference tools"]
fn own_functions_behind_stubs_are_looked_at() {
    let tools = Tools::find();
    let found = |end: &str| {
        let text = NEVER.replace("call never", "call never@PLT").replace("call other", "call other@PLT");
        tools.write("own.s", format!(".globl never\n{text}").replace("END", end));
        tools.run_well(&["as", "-o", "own.o", "own.s"]);
        tools.run_well(&["ld", "-shared", "-o", "own.so", "own.o"]);
        findings(&report(&[tools.path("own.so").to_str().unwrap()]))
    };
    assert_eq!(found("jmp spin"), []);
    let wrong = found("ret");
    assert_eq!(wrong, [("f".to_string(), "lost-register".to_string())]);
}

/// `f` has a right FDE in `.eh_frame`, and an FDE in `.debug_frame` whose row is SECOND bytes from the stack pointer.
const TWICE: &str = "
\t.type f, @function
f:
\t.cfi_startproc
\tsub $40, %rsp
\t.cfi_def_cfa_offset 48
\tcall g
\tadd $40, %rsp
\t.cfi_def_cfa_offset 8
\tret
\t.cfi_endproc
\t.size f, . - f
end:
\t.section .debug_frame, \"\", @progbits
\t.long 2f - 1f
1:\t.long -1
\t.byte 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1
\t.balign 8
2:\t.long 4f - 3f
3:\t.long 0
\t.quad f, end - f
\t.byte 0x44, 0x0e, SECOND, 0x49, 0x0e, 8
\t.balign 8
4:
";

#[test]
#[ignore = "needs the reference tools"]
fn an_fde_that_another_section_supersedes_agrees_with_it() {
    let tools = Tools::find();
    let found = |second: &str| {
        tools.write("twice.s", TWICE.replace("SECOND", second));
        tools.run_well(&["as", "-o", "twice.o", "twice.s"]);
        tools.run_well(&["ld", "-shared", "-o", "twice.so", "twice.o"]);
        ["twice.o", "twice.so"].map(|file| findings(&report(&[tools.path(file).to_str().unwrap()])))
    };
    assert_eq!(found("48"), [[], []]);
    assert_eq!(found("16"), [(); 2].map(|()| vec![("f".to_string(), "disputed".to_string())]));
}

/// Some linkers write wrong starts, and an FDE for no code shows that they did.
#[test]
#[ignore = "needs the reference tools"]
fn fdes_describe_code() {
    let tools = Tools::find();
    let text = TWICE.split("end:").next().unwrap();
    tools.write("moved.s", text.replace("call g", "call f"));
    tools.run_well(&["as", "-o", "moved.o", "moved.s"]);
    tools.run_well(&["ld", "-shared", "-o", "moved.so", "moved.o"]);
    let path = tools.path("moved.so");
    assert_eq!(findings(&report(&[path.to_str().unwrap()])), []);
    // The distance from the FDE's field to the function's start gets larger by 0x10000.
    let mut bytes = fs::read(&path).unwrap();
    let start = {
        let file = cfipack_container::File::parse(&bytes).unwrap();
        let sections = file.call_frame_sections().unwrap();
        let cfi = sections[0].cfi();
        let function = cfipack_cfi::Functions::new(&cfi).flatten().next().unwrap();
        let at = cfi.bytes.as_ptr() as usize - bytes.as_ptr() as usize;
        at + function.fde.0 as usize + 8
    };
    let field = bytes[start..].first_chunk_mut::<4>().unwrap();
    *field = (i32::from_le_bytes(*field) + 0x10000).to_le_bytes();
    fs::write(&path, &bytes).unwrap();
    let found = findings(&report(&[path.to_str().unwrap()]));
    assert_eq!(found.iter().map(|found| &*found.1).collect::<Vec<_>>(), ["outside-code"]);
}
