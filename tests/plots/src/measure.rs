//! Runs the benches, and stores what they measured with how it was measured.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::figures::Measured;

const TOOLS: &str = "CFIPACK_REFERENCE_TOOLS";
const MACOS: &str = "CFIPACK_MACOS_LIBRARIES";
const DEBIAN: &str = "CFIPACK_DEBIAN_LIBRARIES";

/// What is measured together, in one file of figures.
struct Group {
    name: &'static str,
    /// A bench of `cfipack-tests`, or one of its [`PROGRAMS`].
    program: &'static str,
    arguments: &'static [&'static str],
    /// A variable without which it is not measured.
    needs: Option<&'static str>,
}

const fn bench(name: &'static str) -> Group {
    Group { name, program: name, arguments: &[], needs: None }
}

/// The machine's files, and Debian's.
const fn against_code(name: &'static str, arguments: &'static [&'static str]) -> Group {
    Group { name, program: "against-code", arguments, needs: Some(DEBIAN) }
}

/// Programs of `cfipack-tests` that go through files.
const PROGRAMS: [&str; 2] = ["sweep", "against-code"];

const GROUPS: [Group; 16] = [
    bench("files"),
    Group { name: "images", program: "files", arguments: &["images"], needs: Some(MACOS) },
    Group { name: "sweep", program: "sweep", arguments: &["/usr/bin", "/usr/lib"], needs: None },
    Group { name: "sweep-foreign", program: "sweep", arguments: &[], needs: Some(DEBIAN) },
    against_code("hidden-cfi", &["hidden", "/usr/bin", "/usr/lib"]),
    against_code("lint", &["lint", "/usr/lib/x86_64-linux-gnu"]),
    bench("code"),
    bench("ratios"),
    bench("unwind_info_lookup"),
    bench("unwind_info_build"),
    bench("compact_unwind_encode"),
    Group { needs: Some(TOOLS), ..bench("linker") },
    Group { needs: Some(TOOLS), ..bench("peers") },
    bench("capi"),
    bench("profile"),
    bench("scaling"),
];

/// The groups that can be measured here, of those that are wanted, or of all.
pub fn measure(root: &Path, figures: &Path, wanted: &[String]) -> Result<(), String> {
    if let Some(unknown) = wanted.iter().find(|name| GROUPS.iter().all(|group| group.name != **name)) {
        let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        return Err(format!("no such group: {unknown}; there are {}", known.join(", ")));
    }
    let groups =
        GROUPS.iter().filter(|group| wanted.is_empty() || wanted.iter().any(|name| name == group.name));
    let (groups, missing): (Vec<_>, Vec<_>) =
        groups.partition(|group| group.needs.is_none_or(|needs| env::var_os(needs).is_some()));

    let start = Instant::now();
    let mut command = cargo(root, &["build", "--profile", "bench", "--locked", "-p", "cfi2sframe"]);
    run(command.args(["--bin", "cfi2sframe"]))?;
    // With the programs of the package.
    let benches: Vec<_> =
        groups.iter().map(|group| group.program).filter(|program| !PROGRAMS.contains(program)).collect();
    if !benches.is_empty() {
        let mut command = cargo(root, &["bench", "--no-run", "--locked", "-p", "cfipack-tests"]);
        run(command.args(benches.into_iter().flat_map(|bench| ["--bench", bench])))?;
    }
    println!("\nbuilt in {} s", start.elapsed().as_secs());

    let mut notes: Vec<_> = missing
        .iter()
        .map(|group| format!("{}: not measured, {} is not set", group.name, group.needs.unwrap_or_default()))
        .collect();
    for group in groups {
        let start = Instant::now();
        println!("\n==> {}", group.name);
        if let Err(error) = group.measure(root, figures) {
            notes.push(format!("{}: not measured, {error}", group.name));
        }
        println!("    ({} s)", start.elapsed().as_secs());
    }
    println!();
    for note in &notes {
        println!("{note}; the figures are those measured before");
    }
    Ok(())
}

impl Group {
    fn measure(&self, root: &Path, figures: &Path) -> Result<(), String> {
        let target = target(root);
        let lines = target.join(format!("figures-{}.tsv", self.name));
        let _ = fs::remove_file(&lines);
        let mut command = match self.program {
            program if PROGRAMS.contains(&program) => {
                cargo(root, &["run", "--profile", "bench", "--locked", "-p", "cfipack-tests", "--bin"])
            }
            _ => cargo(root, &["bench", "--locked", "-p", "cfipack-tests", "--bench"]),
        };
        command.arg(self.program).arg("--").args(self.arguments);
        if PROGRAMS.contains(&self.program) && self.needs.is_some() {
            command.args(env::var_os(DEBIAN));
        }
        command.env("CFIPACK_FIGURES", &lines).env("CFIPACK_COMMAND", target.join("release/cfi2sframe"));
        let provenance = self.provenance(root);
        run(&mut command)?;
        let measured = fs::read_to_string(&lines).map_err(|_| "it was skipped".to_owned())?;
        let text = provenance + &measured;
        Measured::parse(&text)?;
        let path = figures.join(format!("{}.tsv", self.name));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// When, where and with which tools.
    fn provenance(&self, root: &Path) -> String {
        let mut lines = vec![
            ("date", first_line(Command::new("date").args(["-u", "+%F"]))),
            (
                "commit",
                first_line(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(root)),
            ),
            ("rustc", first_line(Command::new("rustc").arg("--version"))),
            ("system", system()),
            ("processor", processor()),
            ("load at the start", first_word("/proc/loadavg")),
        ];
        // The profile of the benches may be overridden: for a look at a figure without a long build.
        let profile = env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_BENCH_"));
        let profile: Vec<_> = profile.map(|(name, value)| format!("{name}={value}")).collect();
        if !profile.is_empty() {
            lines.push(("built with", profile.join(" ")));
        }
        if let (Some(TOOLS), Some(tools)) = (self.needs, env::var_os(TOOLS)) {
            let sid = Path::new(&tools).join("sid");
            let version = |tool: &str| first_line(Command::new("chroot").arg(&sid).args([tool, "--version"]));
            lines.push(("as", version("as")));
            lines.push(("ld", version("ld")));
            lines.push(("llvm-mc", version("llvm-mc-23")));
        }
        if self.program == "profile" {
            lines.push(("perf", first_line(Command::new("perf").arg("--version"))));
        }
        lines.iter().map(|(key, value)| format!("# {key}: {value}\n")).collect()
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

/// Where cargo puts what it builds for the workspace.
fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path))
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line =
        output.ok().and_then(|text| Some(text.lines().find(|line| !line.is_empty())?.trim().to_owned()));
    line.unwrap_or_else(|| "unknown".into())
}

fn first_word(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").into()
}

fn system() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unknown".into(), |name| name.trim_matches('"').to_owned())
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names = text.lines().filter_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let names: Vec<_> = names.map(|(_, name)| name).collect();
    match names.first() {
        Some(name) => format!("{name}, {} threads", names.len()),
        None => "unknown".into(),
    }
}
