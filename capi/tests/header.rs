//! The committed header is the header that the sources give, and compilers accept it as C89.

use std::path::Path;
use std::process::Command;

use cfipack_testkit::needs;

#[test]
#[ignore = "needs cbindgen"]
fn the_header_is_that_of_the_sources() {
    needs::program("cbindgen", "none; cargo install cbindgen@0.29.4");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cbindgen = Command::new("cbindgen");
    let output =
        cbindgen.args(["--quiet", "--config", "cbindgen.toml", "."]).current_dir(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let generated = c89(&String::from_utf8(output.stdout).unwrap()).replace("@VERSION@", &version());
    let path = root.join("include/cfipack.h");
    if std::env::var_os("CFIPACK_UPDATE_HEADER").is_some() {
        std::fs::create_dir_all(root.join("include")).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(generated.lines()).position(|(old, new)| old != new);
    assert!(
        committed == generated,
        "include/cfipack.h differs from the sources in line {:?}: CFIPACK_UPDATE_HEADER=1 writes it",
        differs.map(|line| line + 1)
    );
}

/// Returns preprocessor definitions of the crate's version.
fn version() -> String {
    let parts = [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ];
    let line = |(name, value)| format!("#define CFIPACK_VERSION_{name} {value}\n");
    let lines: String = parts.into_iter().map(line).collect();
    let text = env!("CARGO_PKG_VERSION");
    format!(
        "/* The version of this header; cfipack_version() is that of the library. */\n{lines}#define CFIPACK_VERSION_STRING \"{text}\"\n"
    )
}

/// Returns the header with comments and lists in the form of C89.
fn c89(header: &str) -> String {
    // The conditions of Rust's `unsafe` are the conditions of any C function, so they need no heading.
    let mut lines = header.lines().filter(|line| *line != "// # Safety").peekable();
    let mut out = String::new();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let indent = &line[..line.len() - text.len()];
        let Some(first) = text.strip_prefix("//") else {
            let is_last = lines.peek().is_some_and(|next| next.starts_with('}'));
            let code = if is_last { line.strip_suffix(',').unwrap_or(line) } else { line };
            let (code, comment) = code.split_once("//").unwrap_or((code, ""));
            let comment = if comment.is_empty() { String::new() } else { format!("/*{comment} */") };
            out += &format!("{code}{comment}\n");
            continue;
        };
        out += &format!("{indent}/*{first}");
        while let Some(more) = lines.next_if(|line| line.trim_start().starts_with("//")) {
            out += &format!("\n{indent} *{}", &more.trim_start()[2..]);
        }
        out += " */\n";
    }
    out
}

/// More than seven parameters become a structure. `clippy` enforces this only for Rust functions.
#[test]
fn functions_have_seven_parameters_at_most() {
    let header = include_str!("../include/cfipack.h");
    let mut functions = 0;
    for declaration in header.split(';') {
        let code = declaration.rsplit("*/").next().unwrap_or_default();
        let Some((name, parameters)) =
            code.trim_end().strip_suffix(')').and_then(|code| code.split_once('('))
        else {
            continue;
        };
        let count = parameters.split(',').count();
        assert!(count <= 7, "{name}: {count} parameters");
        functions += 1;
    }
    assert!(functions > 90, "{functions} functions found");
}

/// Compilers accept the header in strict C89, its preprocessor names have the crate's version, and compilers
/// warn about an ignored result.
#[test]
#[ignore = "needs gcc and clang"]
fn c89_takes_the_header() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header");
    std::fs::create_dir_all(&directory).unwrap();
    let program = directory.join("c89.c");
    let text = format!(
        "#include \"cfipack.h\"\n\
         #if CFIPACK_VERSION_MAJOR != {} || CFIPACK_VERSION_MINOR != {} || CFIPACK_VERSION_PATCH != {}\n\
         #error another version\n#endif\n\
         char is_version[sizeof CFIPACK_VERSION_STRING == sizeof \"{}\" ? 1 : -1];\n",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
        env!("CARGO_PKG_VERSION"),
    );
    std::fs::write(&program, text).unwrap();
    // This program ignores a result that it has to check.
    let ignores = directory.join("ignores.c");
    let text = "#include \"cfipack.h\"\nvoid ignores(void) { cfipack_sframe_parse(0, 0, 0, 0, 0); }\n";
    std::fs::write(&ignores, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    for compiler in ["gcc", "clang"] {
        let compile = |file: &Path, standard: &str| {
            let mut command = Command::new(compiler);
            // The whole compilation is needed, because gcc warns about ignored results late.
            command.args([standard, "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-c", "-I"]);
            command.arg(&include).arg(file).arg("-o").arg(directory.join("out.o")).output()
        };
        needs::program(compiler, compiler);
        let output = compile(&program, "-std=c89").unwrap();
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        for standard in ["-std=c89", "-std=c17"] {
            let output = compile(&ignores, standard).unwrap();
            assert!(!output.status.success(), "{compiler} {standard}: nothing looks at the result");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(errors.contains("unused"), "{compiler} {standard}: {errors}");
        }
    }
}
