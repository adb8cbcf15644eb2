//! Tests that the JSON output of the verbs agrees with the schemas in `docs/schemas/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_testkit::needs;
use serde_json::Value;

use crate::compact::unpack;
use crate::program::{corpus, run_in, scratch};

/// Reads a schema of `docs/schemas/`, and makes it stricter: a key that the schema lacks is an error.
fn schema(verb: &str) -> Value {
    let path = directory().join(format!("{verb}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema = serde_json::from_str(&text).unwrap();
    forbid_other_keys(&mut schema);
    schema
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

fn forbid_other_keys(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.contains_key("properties") && !keys.contains_key("anyOf") {
                keys.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            keys.values_mut().for_each(forbid_other_keys);
        }
        Value::Array(values) => values.iter_mut().for_each(forbid_other_keys),
        _ => {}
    }
}

/// Runs the command in a directory. Returns each line of output with the verb whose schema the line names.
fn reports(directory: &Path, arguments: &[&str]) -> Vec<(String, String)> {
    let output = run_in(directory, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let with_verb = |line: &str| {
        let report: Value = serde_json::from_str(line).unwrap();
        let schema = report["schema"].as_str().unwrap_or_else(|| panic!("{arguments:?}: {report}"));
        let verb = schema.strip_prefix("cfipack/").and_then(|name| name.strip_suffix("/1"));
        (verb.unwrap_or_else(|| panic!("{arguments:?}: {schema}")).to_owned(), line.to_owned())
    };
    text.lines().map(with_verb).collect()
}

#[test]
fn every_report_names_a_schema_and_every_schema_has_a_report() {
    let schemas = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let schemas: BTreeSet<_> =
        schemas.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let verbs: BTreeSet<_> = all_reports("schemas").into_iter().map(|(verb, _)| verb).collect();
    assert_eq!(verbs, schemas);
}

#[test]
#[ignore = "needs check-jsonschema"]
fn every_report_has_the_keys_of_its_schema() {
    needs::program("check-jsonschema", "none; pip install check-jsonschema");
    let scratch = scratch("schemas-checked");
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (number, (verb, report)) in all_reports("schemas-reports").into_iter().enumerate() {
        let path = scratch.join(format!("{verb}-{number}.json"));
        fs::write(&path, report).unwrap();
        files.entry(verb).or_default().push(path);
    }
    for (verb, reports) in files {
        let schema_file = scratch.join(format!("{verb}.schema"));
        fs::write(&schema_file, schema(&verb).to_string()).unwrap();
        let mut check = Command::new("check-jsonschema");
        let output = check.arg("--schemafile").arg(&schema_file).args(&reports).output().unwrap();
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Runs every verb on files with and without tables, of both formats, linked or not, whole and damaged.
fn all_reports(name: &str) -> Vec<(String, String)> {
    let containers = scratch(name);
    for file in fs::read_dir(corpus()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), containers.join(file.file_name())).unwrap();
    }
    let mut damaged = fs::read(containers.join("linked.so")).unwrap();
    // The first function's size: the index starts at 0x370 + 28, and the size 8 bytes later.
    damaged[0x370 + 28 + 8..][..4].fill(0xff);
    fs::write(containers.join("damaged.so"), damaged).unwrap();
    fs::write(
        containers.join("f.s"),
        "f:\n.cfi_startproc\n.skip 4\n.cfi_def_cfa_offset 16\n.skip 4\n.cfi_endproc\n",
    )
    .unwrap();
    let compact = unpack(
        &format!("{name}-compact"),
        &[
            "l_6_pers_3.dylib",
            "l_6_pers_3.o",
            "l_8_dwarf_lsda.dylib",
            "l_8_dwarf_3.dylib",
            "la_2_alt_1022.dylib",
        ],
    );
    let omitting = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/sframe/x86_64");
    let mach_o = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind/mc");
    let runs: [(&Path, &[&str]); 46] = [
        (&containers, &["linked.so"]),
        (&containers, &["linked.so", "--verify"]),
        (&containers, &["linkable.o", "--verify"]),
        (&omitting, &["x_def_cfa_r10.gas247.o", "--no-flex", "--verify"]),
        (&containers, &["linkable.o", "-o", "embedded.o"]),
        (&containers, &["linked.so", "-o", "embedded.so"]),
        (&containers, &["members.a", "-o", "embedded.a"]),
        (&containers, &["--in-place", "--skip-done", "linked.so", "f.s"]),
        (&containers, &["strip", "embedded.so", "-o", "stripped.so"]),
        (&containers, &["strip", "embedded.a", "-o", "stripped.a"]),
        (&containers, &["dump", "linked.so", "linkable.o", "damaged.so"]),
        (&containers, &["dump", "--symbols", "linked.so", "linkable.o", "damaged.so"]),
        (&containers, &["verify", "both_frames", "--sframe", "linked.so"]),
        (&containers, &["lookup", "linked.so", "0x285", "0x270", "1"]),
        (&containers, &["lookup", "linkable.o", ".text+2"]),
        (&containers, &["verify", "linked.so", "linkable.o", "damaged.so"]),
        (&containers, &["verify", "linked.so", "--profile", "kernel"]),
        (&containers, &["verify", "linkable.o", "--padding", "16"]),
        (&containers, &["diff", "linked.so", "sectionless.so"]),
        (&containers, &["diff", "linked.so", "damaged.so"]),
        (&containers, &["stats", "linked.so", "linkable.o", "both_frames"]),
        (&containers, &["explain", "linkable.o"]),
        (&containers, &["explain", "linked.so", "0x270"]),
        (&containers, &["explain", "explain.o", ".text+4"]),
        (&containers, &["explain", "explain_aarch64.o", ".text+4"]),
        (&containers, &["synthesize.o", "--synthesize"]),
        (&containers, &["explain", "--unwind-info", "explain.o"]),
        (&containers, &["explain", "--unwind-info", "explain.o", ".text+4"]),
        (&omitting, &["explain", "x_def_cfa_r10.gas247.o", "--no-flex"]),
        (&containers, &["lint", "explain.o", "explain_aarch64.o"]),
        (&containers, &["verify", "linked.so", "--lint"]),
        (&containers, &["gaps", "linked.so", "--padding"]),
        (&containers, &["gaps", "linked.so", "--cfi"]),
        (&containers, &["merge", "linked.so"]),
        (&containers, &["annotate", "annotate.s", "--object", "annotate.o", "-o", "/dev/null"]),
        (&containers, &["unwind-info", "linked.so", "--verify"]),
        (&compact, &["unwind-info", "l_6_pers_3.dylib", "--verify"]),
        (&compact, &["unwind-info", "l_6_pers_3.o"]),
        (&compact, &["dump", "l_6_pers_3.dylib", "l_6_pers_3.o", "l_8_dwarf_lsda.dylib"]),
        (&compact, &["lookup", "l_6_pers_3.dylib", "0x3b5", "0x3bc"]),
        (&compact, &["lookup", "l_8_dwarf_3.dylib", "0x3b5"]),
        (&compact, &["verify", "l_6_pers_3.dylib", "l_8_dwarf_lsda.dylib", "la_2_alt_1022.dylib"]),
        (&compact, &["stats", "l_6_pers_3.dylib", "l_6_pers_3.o", "l_8_dwarf_lsda.dylib"]),
        (&compact, &["diff", "l_6_pers_3.dylib", "l_8_dwarf_3.dylib"]),
        (&mach_o, &["explain", "x41_pers_custom.o", "__text+0"]),
        (&mach_o, &["compact-unwind", "x41_pers_custom.o", "--dry-run"]),
    ];
    let with_json = |arguments: &[&'static str]| [arguments, &["--json"]].concat();
    let each = runs.into_iter().map(|(directory, arguments)| reports(directory, &with_json(arguments)));
    each.flatten().collect()
}
