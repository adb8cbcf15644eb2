//! A log in the Static Analysis Results Interchange Format, version 2.1.0 (OASIS).

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::{LintFinding, kinds};
use crate::io::output;

/// Writes a log. Each result is written when it is found, so that a log of any length needs little memory.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> Log<W> {
    /// Writes the start of a log: the tool and its rules.
    pub fn start(mut out: W) -> anyhow::Result<Self> {
        let rules = kinds().map(|(name, sentence)| {
            let help = format!(
                "{sentence} An unwinder that stops in the wrong range finds the wrong caller, or none. \
                 `cfi2sframe explain FILE ADDRESS` lists the instructions of the function beside their rows."
            );
            json!({
                "id": name,
                "name": name,
                "shortDescription": { "text": sentence },
                "fullDescription": { "text": sentence },
                "help": { "text": help },
                "defaultConfiguration": { "level": "warning" },
            })
        });
        let driver = json!({
            "name": "cfi2sframe lint",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": rules.collect::<Vec<_>>(),
        });
        let schema = "https://json.schemastore.org/sarif-2.1.0.json";
        write!(
            out,
            r#"{{"$schema":"{schema}","version":"2.1.0","runs":[{{"tool":{{"driver":{driver}}},"results":["#
        )?;
        Ok(Self { out, is_first: true })
    }

    /// Adds the findings about a file. `member` is the name in an archive or fat file.
    pub fn add(&mut self, path: &Path, member: Option<&str>, findings: &[LintFinding]) -> anyhow::Result<()> {
        let uri = uri(&path.to_string_lossy());
        for finding in findings {
            let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
            write!(self.out, "{comma}")?;
            output::json(&mut self.out, &result(finding, &uri, member))?;
        }
        Ok(())
    }

    /// Ends the log.
    pub fn finish(mut self) -> anyhow::Result<()> {
        writeln!(self.out, "]}}]}}")?;
        Ok(self.out.flush()?)
    }
}

/// Describes a finding. Its first location is the line of the source if that is known, because code hosts show sources.
/// The place in the file of the code is then a related location.
fn result(finding: &LintFinding, uri_of_file: &str, member: Option<&str>) -> Value {
    let name = finding.symbol.linkage().unwrap_or(&finding.pc);
    let mut logical = vec![json!({ "fullyQualifiedName": name, "kind": "function" })];
    logical.extend(member.map(|member| json!({ "name": member, "kind": "module" })));
    let binary = json!({
        "artifactLocation": { "uri": uri_of_file },
        "address": { "absoluteAddress": finding.address.0, "fullyQualifiedName": name },
    });
    let message = json!({ "text": format!("{}: {}", finding.subject(), finding.words) });
    let fingerprints = json!({ "cfipack/1": finding.fingerprint });
    let mut result = json!({
        "ruleId": finding.kind,
        "level": "warning",
        "message": message,
        "partialFingerprints": fingerprints,
    });
    match &finding.source {
        Some(source) => {
            let line = json!({
                "artifactLocation": { "uri": uri(&source.file) },
                "region": { "startLine": source.line },
            });
            result["locations"] = json!([{ "physicalLocation": line, "logicalLocations": logical }]);
            result["relatedLocations"] = json!([{ "physicalLocation": binary }]);
        }
        None => result["locations"] = json!([{ "physicalLocation": binary, "logicalLocations": logical }]),
    }
    result
}

/// Returns a path as a URI reference (RFC 3986): bytes with a meaning in URIs are percent-encoded. An absolute path
/// becomes a `file:` URI.
fn uri(path: &str) -> String {
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::uri;

    /// The expected texts are by `urllib.parse.quote` of Python.
    #[test]
    fn paths_are_percent_encoded() {
        assert_eq!(uri("a b%20#c.o"), "a%20b%2520%23c.o");
        assert_eq!(uri("/x/\u{e4}?:1"), "file:///x/%C3%A4%3F%3A1");
        assert_eq!(uri("a-b_c.d~e/f"), "a-b_c.d~e/f");
    }
}
