//! Embeds tables in finished files. The dynamic loader, the program itself, `object`, readelf, and other people's
//! programs that strip and patch files judge the result.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod damaged;
mod existing;
mod foreign;
mod linked;
mod matrix;
mod programs;
mod refused;
mod survival;
