//! The program from outside: arguments in, streams, files and exit statuses out.

mod compact;
mod files;
mod json;
mod program;
mod text;
