//! Reads the sources in `corpora/sframe/`.

use std::fs;

use cfipack_format::Arch;

use crate::corpora;

/// A source.
#[derive(Clone, Debug)]
pub struct Case {
    /// `x86_64/x_min`: the directory below `corpora/sframe` and the case.
    pub name: String,
    /// The architecture.
    pub arch: Arch,
    /// The text.
    pub text: String,
    /// The command with which gas 2.47 made the golden, without the file's name.
    pub command: Vec<String>,
}

/// Returns every source of which gas 2.47 made a golden, in order of name.
pub fn corpus() -> Vec<Case> {
    let directory = corpora::directory();
    let manifest = fs::read_to_string(directory.join("MANIFEST.tsv")).unwrap();
    let case = |line: &str| {
        let columns: Vec<_> = line.split('\t').collect();
        let name = columns[0].strip_prefix("sframe/")?.strip_suffix(".gas247.o")?.to_owned();
        let arch = match name.split_once('/')?.0 {
            "x86_64" => Arch::Amd64,
            "aarch64" => Arch::Aarch64,
            "aarch64_be" => Arch::Aarch64Be,
            _ => Arch::S390x,
        };
        // Labels that start with `.L` are not in the symbol table, so we rename them.
        let text = fs::read_to_string(directory.join(format!("sframe/{name}.s"))).ok()?.replace(".LL", "LL");
        let command = columns[3].split(' ').filter(|word| !word.ends_with(".s")).map(str::to_owned).collect();
        Some(Case { name, arch, text, command })
    };
    let cases: Vec<_> = manifest.lines().filter_map(case).collect();
    assert!(cases.len() > 250, "{} sources", cases.len());
    cases
}
