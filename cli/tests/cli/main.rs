//! The program from outside: arguments in, streams, files and exit statuses out.

mod compact;
mod fat;
mod files;
mod json;
mod objects;
mod program;
mod text;
