//! Runs the nearest tests of each mutant.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::suites::Suite;
use crate::tree::{Placed, Program, Tree};

/// A mutant may make a loop endless: so much memory in KiB, and this much time beside three times that of a run without.
const MEMORY: u32 = 8 << 20;
const GRACE: Duration = Duration::from_secs(10);

/// A test program of a suite, as it runs without a mutant.
struct Run {
    program: Program,
    filters: Vec<String>,
    reached: HashSet<u32>,
    limit: Duration,
}

/// The nearest tests of a crate.
pub struct Judge {
    runs: Vec<Run>,
}

/// The outcome of a sample of mutants.
#[derive(Default)]
pub struct Outcome {
    pub count: usize,
    pub detected: usize,
    /// Undetected mutants that no test reaches.
    pub unreached: usize,
}

impl Outcome {
    /// The share of mutants that were detected, in percent.
    pub fn share(&self) -> f64 {
        if self.count == 0 { 100.0 } else { 100.0 * self.detected as f64 / self.count as f64 }
    }
}

impl Judge {
    /// Runs the tests once without a mutant: they have to pass, and tell which mutants they reach.
    pub fn new(tree: &Tree, programs: &[Program], name: &str, suites: &[Suite]) -> Result<Self> {
        let mut runs = Vec::new();
        for suite in suites {
            let found: Vec<_> =
                programs.iter().filter(|program| suite.has(program, tree.directory.join(name))).collect();
            if found.is_empty() {
                return Err(format!("{name}: no test program {}", suite.program).into());
            }
            for program in found {
                runs.push(Run::baseline(program, suite, tree.directory.join("../reached"))?);
            }
        }
        // What takes the least time comes first.
        runs.sort_by_key(|run| run.limit);
        Ok(Self { runs })
    }

    pub fn run(&self, mutants: &[&Placed]) -> Outcome {
        let next = AtomicUsize::new(0);
        let outcome = Mutex::new(Outcome { count: mutants.len(), ..Outcome::default() });
        let work = || {
            while let Some(placed) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
                let number = placed.mutant.number;
                let reaching: Vec<_> = self.runs.iter().filter(|run| run.reached.contains(&number)).collect();
                let is_detected = reaching.iter().any(|run| run.detects(number));
                let mut outcome = outcome.lock().expect("no worker panics");
                if is_detected {
                    outcome.detected += 1;
                    continue;
                }
                outcome.unreached += usize::from(reaching.is_empty());
                let how = if reaching.is_empty() { ", which no test reaches" } else { "" };
                println!(
                    "MISSED {}:{}: {}{how}",
                    placed.file.display(),
                    placed.mutant.line,
                    placed.mutant.words
                );
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        outcome.into_inner().expect("no worker panics")
    }
}

/// With the reference tools, the tests that need them count too; what is downloaded and what takes minutes never does.
fn ignored_tests() -> &'static [&'static str] {
    match std::env::var_os("CFIPACK_REFERENCE_TOOLS") {
        Some(_) => &["--include-ignored", "--skip", "_download", "--skip", "_slow"],
        None => &[],
    }
}

impl Suite {
    fn has(&self, program: &Program, directory: PathBuf) -> bool {
        match self.program.as_str() {
            "own" => program.directory == directory,
            name => program.name == name && !program.is_unit && program.directory.ends_with("tests"),
        }
    }
}

impl Run {
    fn baseline(program: &Program, suite: &Suite, reached: PathBuf) -> Result<Self> {
        let _ = fs::remove_file(&reached);
        let mut run = Self {
            program: program.clone(),
            filters: suite.filters.clone(),
            reached: HashSet::new(),
            limit: Duration::from_secs(600),
        };
        let start = Instant::now();
        if !run.command().env("CFIPACK_MUTANTS_REACHED", &reached).status()?.success() {
            return Err(format!("{}: a test fails without a mutant", program.path.display()).into());
        }
        run.limit = start.elapsed() * 3 + GRACE;
        let text = fs::read_to_string(&reached).unwrap_or_default();
        run.reached = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(run)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -v {MEMORY}; exec timeout -s KILL \"$@\""), "sh"])
            .arg(self.limit.as_secs().to_string())
            .arg(&self.program.path)
            .args(["--test-threads", "1", "--quiet"])
            .args(&self.filters)
            .args(ignored_tests())
            .current_dir(&self.program.directory)
            .env_remove("RUST_BACKTRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn detects(&self, number: u32) -> bool {
        let status = self.command().env("CFIPACK_MUTANT", number.to_string()).status();
        !status.is_ok_and(|status| status.success())
    }
}
