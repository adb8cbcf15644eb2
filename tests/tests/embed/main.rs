//! Tables in finished files. The judges: the dynamic loader and the program itself, `object`, readelf of the reference
//! tools, and other people's programs that strip and patch files.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod damaged;
mod existing;
mod foreign;
mod linked;
mod matrix;
mod programs;
mod refused;
mod survival;
