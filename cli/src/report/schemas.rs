//! JSON Schemas of the verbs' output with `--json`, generated from the types: the files in `docs/schemas/`.

use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::report::comparison::DiffJson;
use crate::report::edits::FileJson;
use crate::report::explanation::ExplainJson;
use crate::report::lint::LintReport;
use crate::report::verdict::VerifyJson;
use crate::verbs::{
    annotate, compact_unwind, convert, dump, explain, gaps, lookup, merge, stats, strip, unwind_info, verify,
};

/// The report about a file with `.sframe`, or with `__unwind_info` or `__compact_unwind`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Either<A, B> {
    Sframe(A),
    Compact(B),
}

/// Returns the schema of each verb.
fn schemas() -> Vec<(&'static str, Value)> {
    fn schema_of<T: JsonSchema>(verb: &'static str) -> (&'static str, Value) {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        complete(verb, &mut schema);
        schema["title"] = json!(format!("A report of cfi2sframe: cfipack/{verb}/1"));
        (verb, schema)
    }
    vec![
        schema_of::<annotate::AnnotateJson>("annotate"),
        schema_of::<compact_unwind::SummaryJson<'_>>("compact-unwind"),
        schema_of::<convert::SummaryJson<'_>>("convert"),
        schema_of::<DiffJson<'_>>("diff"),
        schema_of::<Either<dump::sframe::TableJson<'_>, dump::unwind_info::DumpJson>>("dump"),
        schema_of::<dump::symbols::SymbolsJson<'_, '_, '_>>("dump-symbols"),
        schema_of::<FileJson<'_, convert::embed::Table>>("embed"),
        schema_of::<
            Either<
                ExplainJson<'_, explain::sframe::FunctionJson>,
                ExplainJson<'_, explain::unwind_info::FunctionJson>,
            >,
        >("explain"),
        schema_of::<gaps::GapsJson>("gaps"),
        schema_of::<LintReport>("lint"),
        schema_of::<Either<lookup::sframe::AnswerJson, lookup::unwind_info::AnswerJson>>("lookup"),
        schema_of::<merge::MergeReport>("merge"),
        schema_of::<Either<stats::sframe::StatsJson, stats::unwind_info::StatsJson>>("stats"),
        schema_of::<FileJson<'_, strip::Stripped>>("strip"),
        schema_of::<unwind_info::SummaryJson<'_>>("unwind-info"),
        schema_of::<Either<VerifyJson<'_>, verify::unwind_info::VerifyJson<'_>>>("verify"),
    ]
}

/// Makes the value of the key `schema` a constant, and Rust's documentation plain text.
fn complete(verb: &str, schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if let Some(name) = keys.get_mut("properties").and_then(|keys| keys.get_mut("schema")) {
                *name = json!({ "const": format!("cfipack/{verb}/1") });
            }
            if let Some(Value::String(text)) = keys.get_mut("description") {
                *text = plain(text);
            }
            keys.values_mut().for_each(|value| complete(verb, value));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| complete(verb, value)),
        _ => {}
    }
}

/// Returns a documentation comment in one line, without its links.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut parts = text.split("[`");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((name, rest)) = part.split_once("`]") else { return text };
        let target = rest.starts_with('(').then(|| rest.find(')')).flatten();
        plain += &format!("`{name}`{}", target.map_or(rest, |end| &rest[end + 1..]));
    }
    plain
}

/// `docs/schemas/` has the schema of each verb, as its types are.
#[test]
fn schemas_are_those_of_the_types() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas");
    let is_update = std::env::var_os("CFIPACK_UPDATE_SCHEMAS").is_some();
    if !directory.exists() && !is_update {
        // The published package has no `docs`.
        return;
    }
    let mut expected = Vec::new();
    for (verb, schema) in schemas() {
        // The definitions have the names of the types without the suffix `Json`.
        let (name, text) = (format!("{verb}.json"), format!("{schema:#}\n").replace("Json\"", "\""));
        let path = directory.join(&name);
        if is_update {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == text,
            "docs/schemas/{name} is not that of the types: CFIPACK_UPDATE_SCHEMAS=1 writes it"
        );
        expected.push(name);
    }
    let mut found: Vec<_> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}
