//! Tests of the program as a process: arguments in, streams, files and exit statuses out.

mod annotate;
mod annotate_conditions;
mod annotate_frames;
mod annotate_habits;
mod annotate_text;
mod archives;
mod book;
mod broken_rules;
mod code_coverage;
mod compact;
#[cfg(target_os = "linux")]
mod debug_file;
mod demangled;
mod explain;
mod fat;
mod faults;
mod files;
mod gaps;
mod growth;
mod hidden_tables;
mod innermost;
mod inputs;
mod into_files;
mod json;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linker_cargo;
mod linker_driver;
mod lint;
mod lint_records;
mod lint_right;
mod manual;
mod merge;
mod messages;
mod missing;
mod names;
mod objects;
mod old_rows;
mod options;
mod outputs;
mod program;
mod schemas;
mod statuses;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stepped;
mod symbols;
mod synthesize;
mod text;
mod undefined;
mod without_cfi;
