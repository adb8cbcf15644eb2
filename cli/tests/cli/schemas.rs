//! Output of the verbs with `--json`: it is as the schemas in `docs/schemas/` promise.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

use crate::compact::unpack;
use crate::program::{corpus, run_in, scratch};

/// The names of the files in `docs/schemas/`, and each with one more rule: a key that it does not have is an error.
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

/// Runs the command in a directory and holds each line of its output to the schema that it names. Returns their verbs.
fn validate(directory: &Path, arguments: &[&str]) -> BTreeSet<String> {
    let output = run_in(directory, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut verbs = BTreeSet::new();
    for line in text.lines() {
        let report: Value = serde_json::from_str(line).unwrap();
        let verb =
            report["schema"].as_str().and_then(|name| name.strip_prefix("cfipack/")?.strip_suffix("/1"));
        let verb = verb.unwrap_or_else(|| panic!("{arguments:?}: {report}"));
        let validator: Validator = jsonschema::validator_for(&schema(verb)).unwrap();
        let errors: Vec<_> = validator
            .iter_errors(&report)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{arguments:?}: {errors:#?}\n{report}");
        verbs.insert(verb.to_owned());
    }
    assert!(!verbs.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    verbs
}

/// Every verb, on files with and without tables, of both formats, linked or not, whole and damaged.
#[test]
fn every_report_has_the_keys_of_its_schema() {
    let containers = scratch("schemas");
    for file in fs::read_dir(corpus()).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), containers.join(file.file_name())).unwrap();
    }
    let mut damaged = fs::read(containers.join("linked.so")).unwrap();
    // The first start in the function index, at 0x370 + 28 in the file.
    damaged[0x370 + 28 + 8..][..4].fill(0xff);
    fs::write(containers.join("damaged.so"), damaged).unwrap();
    fs::write(
        containers.join("f.s"),
        "f:\n.cfi_startproc\n.skip 4\n.cfi_def_cfa_offset 16\n.skip 4\n.cfi_endproc\n",
    )
    .unwrap();
    let compact = unpack(
        "schemas-compact",
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
    let runs: [(&Path, &[&str]); 50] = [
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
        (&containers, &["stats", "--link", "linkable.o", "explain.o"]),
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
        (&containers, &["asm", "f.s", "--arch", "x86_64", "--format", "elf"]),
        (&containers, &["asm", "f.s", "--arch", "x86_64", "--format", "elf", "--emit", "eh-frame"]),
        (&containers, &["asm", "f.s", "--arch", "x86_64", "--format", "mach-o", "--emit", "compact-unwind"]),
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
    let mut verbs = BTreeSet::new();
    for (directory, arguments) in runs {
        let arguments: Vec<_> = arguments.iter().copied().chain(["--json"]).collect();
        verbs.extend(validate(directory, &arguments));
    }
    let schemas = fs::read_dir(self::directory()).unwrap().map(|entry| entry.unwrap().path());
    let schemas: BTreeSet<_> =
        schemas.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(verbs, schemas);
}
