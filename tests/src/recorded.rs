//! Records real programs with perf, with tables in all their files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::embedded_copy::EmbeddedCopy;
use crate::machine;

/// A program to record. It runs for about a second.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name for reports.
    pub name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
}

/// perf copies this many bytes of the stack with each sample.
const STACK: &str = "dwarf,16384";

const PYTHON: &str = "
import json, re, time
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
class A:
    def __lt__(self, other): return f(5) < 6
for i in range(20):
    f(18); json.loads(json.dumps([list(range(100))] * 100)); re.sub('a+b', 'c', 'aaab' * 10000)
    sorted([A() for _ in range(200)]); [time.time() for _ in range(50000)]
";

const PERL: &str = r#"
my %h; for my $i (1..600000) { $h{$i % 1000} .= "x$i"; }
my @k = sort { $a <=> $b } map { length } values %h;
my $s = join(",", @k); $s =~ s/(\d+),(\d+)/$2;$1/g for 1..200;
"#;

const SQL: &str = "
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 100000)
insert into t select x, random() from c;
create index i on t(b); select count(*) from t x join t y on x.a = y.a where x.b < y.b + 1;
";

/// Returns programs that most machines with a C++ compiler have: in C, C++, assembler and Rust. `rust` is a Rust
/// program that reads the files given to it. Temporary files go to `scratch`.
pub fn workloads(rust: &Path, scratch: &Path) -> Vec<Workload> {
    let system = |name: &'static str, arguments: &[&str]| Workload {
        name,
        program: Path::new("/usr/bin").join(name),
        arguments: arguments.iter().map(|&argument| argument.into()).collect(),
    };
    let mut workloads = vec![
        system("python3", &["-c", PYTHON]),
        system("perl", &["-e", PERL]),
        system("openssl", &["speed", "-seconds", "1", "rsa2048", "sha256"]),
        system("sqlite3", &[":memory:", SQL]),
        Workload { name: "rust", program: rust.into(), arguments: vec!["/usr/lib/gcc".into()] },
    ];
    workloads.extend(compiler(scratch));
    workloads
}

/// Returns the compiler itself, which the compiler driver names, with a program that the driver has preprocessed.
fn compiler(scratch: &Path) -> Option<Workload> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile/program.cpp");
    let preprocessed = scratch.join("program.ii");
    let status = Command::new("g++").args(["-E", "-o"]).arg(&preprocessed).arg(source).status().ok()?;
    let input = preprocessed.to_str().filter(|_| status.success())?;
    Some(Workload {
        name: "cc1plus",
        program: machine::compiler_program("cc1plus")?,
        arguments: ["-quiet", "-O2", "-fpreprocessed", input, "-o", "/dev/null"].map(String::from).into(),
    })
}

impl Workload {
    /// Copies the program and its libraries, each with a table, and records a run of the copies. Returns the recording.
    ///
    /// # Errors
    /// A message: perf or the program is missing or fails, or a table cannot be embedded.
    pub fn record(&self, scratch: &Path) -> Result<PathBuf, String> {
        let copy = EmbeddedCopy::make(&self.program, &scratch.join(self.name))?;
        let recording = scratch.join(self.name).join("perf.data");
        let run = copy.command();
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "--call-graph", STACK, "-o"]);
        perf.arg(&recording).arg("--").arg(run.get_program()).args(run.get_args()).args(&self.arguments);
        // A recorded program must not add to the figures of the bench that records it.
        perf.env_remove("CFIPACK_FIGURES");
        let output = perf.stdin(Stdio::null()).output().map_err(|error| format!("perf: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        Ok(recording)
    }

    /// Returns the directory of the copies and the recording.
    pub fn directory(&self, scratch: &Path) -> PathBuf {
        scratch.join(self.name)
    }
}
