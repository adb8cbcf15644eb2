//! Tests that an image has at most three personalities.

use cfipack_format::Arch;
use cfipack_tests::reference::Tools;

use super::edited::run;
use super::link::link;
use super::programs::target;

/// Makes an object with a function for each personality, which catches exceptions.
fn object(tools: &Tools, name: &str, personalities: &[&str]) {
    let function = |number| {
        format!("int {name}_{number}(int a) {{ try {{ return g(a); }} catch (int e) {{ return e; }} }}\n")
    };
    let functions: String = (0..personalities.len()).map(function).collect();
    tools.write("p.cpp", format!("int g(int);\n{functions}"));
    let clang = ["clang-23", "-target", target(Arch::Aarch64), "-O1", "-S", "-o", "p.s", "p.cpp"];
    tools.run_well(&clang);
    let text = String::from_utf8(tools.read("p.s")).unwrap();
    let mut parts = text.split("___gxx_personality_v0");
    let mut changed = parts.next().unwrap().to_owned();
    let rest: Vec<_> = parts.collect();
    assert_eq!(rest.len(), personalities.len(), "{text}");
    for (personality, part) in personalities.iter().zip(rest) {
        changed += personality;
        changed += part;
    }
    tools.write("p.s", changed);
    tools.run_well(&["clang-23", "-target", target(Arch::Aarch64), "-c", "-o", name, "p.s"]);
}

/// Changes an object. Returns how many functions gain an encoding, and the reasons of the others.
fn change(tools: &Tools, name: &str, options: &[&str]) -> (u64, serde_json::Value) {
    let [old, new] = [name.to_owned(), format!("new-{name}")].map(|name| tools.path(&name));
    let paths = [old.to_str().unwrap(), "-o", new.to_str().unwrap(), "--json"];
    let output = run(&[&paths[..], options].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    (json["gained"].as_u64().unwrap(), json["reasons"].clone())
}

#[test]
#[ignore = "needs the reference tools"]
fn an_image_has_three_personalities() {
    let tools = Tools::find();
    let files = |names: [&str; 2]| names.map(str::to_owned);
    object(&tools, "four", &["_one", "_two", "_three", "_four"]);
    object(&tools, "none", &[]);
    assert_eq!(change(&tools, "four", &[]), (3, serde_json::json!({ "fourth-personality": 1 })));
    link(&tools, Arch::Aarch64, &files(["new-four", "none"]), "three");
    let options = ["--personality", "_four", "--personality", "_two"];
    assert_eq!(change(&tools, "four", &options), (2, serde_json::json!({ "other-personality": 2 })));
    // The two objects have four personalities together.
    object(&tools, "ab", &["_one", "_two"]);
    object(&tools, "cd", &["_three", "_four"]);
    link(&tools, Arch::Aarch64, &files(["ab", "cd"]), "dwarf");
    for (name, options) in [("ab", &[][..]), ("cd", &[])] {
        assert_eq!(change(&tools, name, options), (2, serde_json::json!({})));
    }
    let ld = ["ld64.lld-23", "-arch", "arm64", "-dylib", "-undefined", "dynamic_lookup", "-platform_version"];
    let ld = [&ld[..], &["macos", "11.0", "11.0", "-o", "x", "new-ab", "new-cd"]].concat();
    let error = String::from_utf8(tools.run(&ld).stderr).unwrap();
    assert!(error.contains("too many personalities (4)"), "{error}");
    change(&tools, "cd", &["--personality", "_three"]);
    link(&tools, Arch::Aarch64, &files(["new-ab", "new-cd"]), "selected");
}
