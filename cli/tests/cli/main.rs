//! The program from outside: arguments in, streams, files and exit statuses out.

mod archives;
mod compact;
mod fat;
mod faults;
mod files;
mod innermost;
mod json;
mod objects;
mod options;
mod program;
mod statuses;
mod text;
mod undefined;
