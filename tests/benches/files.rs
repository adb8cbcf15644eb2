//! Prints sizes of tables beside the CFI of real files, with the share of functions and PCs in them. With `images` it
//! prints sizes of `__unwind_info` by layout, for macOS images that `tests/real-libraries/download` fetches.
//!
//!     cargo bench -p cfipack-tests --bench files
//!     CFIPACK_MACOS_LIBRARIES=DIR cargo bench -p cfipack-tests --bench files -- images

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use cfipack_cfi as cfi;
use cfipack_container::File;
use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::sframe::{Builder, Layout as SframeLayout, Options};
use cfipack_encoder::unwind_info::Layout;
use cfipack_format::{Address, Arch, Key};
use cfipack_tests::convert::{Converted, cfi_of, convert};
use cfipack_tests::figures;
use cfipack_tests::machine::{compiler_program, system_library, toolchain_library, toolchain_program};
use cfipack_tests::unwind_table::Table;
use object::read::macho::{FatArch, MachOFatFile32};
use object::{Object, ObjectSection};

/// The yardstick of sizes: everything that a table replaces for a profiler.
const CFI: &str = ".eh_frame and .eh_frame_hdr";

fn main() {
    if env::args().any(|argument| argument == "images") {
        return match env::var_os("CFIPACK_MACOS_LIBRARIES") {
            Some(directory) => images(Path::new(&directory)),
            None => println!("files: images: not measured: CFIPACK_MACOS_LIBRARIES is not set"),
        };
    }
    for (name, path) in elf_files() {
        match path.as_deref().map(fs::read) {
            Some(Ok(bytes)) => elf_file(name, &bytes),
            _ => println!("files: {name}: not measured: it is not on this machine"),
        }
    }
}

/// Programs and libraries in C++, Rust, C and assembler.
fn elf_files() -> [(&'static str, Option<PathBuf>); 15] {
    let usr_bin = |name: &str| Some(Path::new("/usr/bin").join(name));
    [
        ("librustc_driver", toolchain_library("librustc_driver")),
        ("libLLVM (of Rust)", toolchain_library("libLLVM")),
        ("libLLVM 14", system_library("libLLVM-14.so.1")),
        ("libclang-cpp 14", system_library("libclang-cpp.so.14")),
        ("cc1plus", compiler_program("cc1plus")),
        ("cargo", toolchain_program("cargo")),
        ("cmake", usr_bin("cmake")),
        ("gdb", usr_bin("gdb")),
        ("libstdc++.so.6", system_library("libstdc++.so.6")),
        ("git", usr_bin("git")),
        ("python3", usr_bin("python3")),
        ("perl", usr_bin("perl")),
        ("libsqlite3.so.0", system_library("libsqlite3.so.0")),
        ("libcrypto.so.3", system_library("libcrypto.so.3")),
        ("libc.so.6", system_library("libc.so.6")),
    ]
}

fn elf_file(name: &str, bytes: &[u8]) {
    let file = File::parse(bytes).expect("an ELF file");
    let sections = file.call_frame_sections().expect("its CFI");
    let cfi = cfi_of(&sections);
    let headers = object::File::parse(bytes).expect("an ELF file");
    let size = |name| headers.section_by_name(name).map_or(0, |section| section.size());
    let [eh_frame, header] = [".eh_frame", ".eh_frame_hdr"].map(size);
    let of = |layout| convert(&cfi, file.arch(), Address(0), Options::new().with_layout(layout));
    let (small, gnu) = (of(SframeLayout::Small), of(SframeLayout::Gnu));
    println!("{name}: {} functions; {CFI}: {eh_frame} and {header} bytes", small.functions);
    figures::number(name, "functions", small.functions, "functions");
    for (layout, converted) in [("small", &small), ("gnu", &gnu)] {
        let size = converted.bytes.len();
        let share = 100.0 * size as f64 / (eh_frame + header) as f64;
        let report = converted.verify(&cfi);
        let different = report.pcs_different;
        let omitted = omitted(converted);
        println!(
            "  {layout}: {size} bytes, {share:.1} %; omitted: {omitted:?}; {different} of {} PCs differ",
            report.pcs
        );
        figures::compared(name, layout, size as f64, "bytes", CFI, (eh_frame + header) as f64);
        figures::number(name, &format!("PCs compared, {layout}"), report.pcs, "PCs");
        figures::number(name, &format!("PCs that differ, {layout}"), different, "PCs");
        for (reason, count) in omitted {
            figures::number(name, &format!("omitted, {layout}: {reason}"), count, "functions");
        }
    }
    let [common_small, common_gnu] = same_functions(&cfi, file.arch(), [&small, &gnu]);
    let share = 100.0 * common_small as f64 / common_gnu as f64;
    println!("  the functions of both: {common_small} and {common_gnu} bytes, {share:.1} %");
    figures::compared(name, "small, same functions", common_small as f64, "bytes", "gnu", common_gnu as f64);
}

/// The sizes of two layouts' tables, for only the functions that both can represent.
fn same_functions(cfi: &[cfi::Section<'_>], arch: Arch, converted: [&Converted; 2]) -> [usize; 2] {
    let omitted = |converted: &'_ Converted| {
        let all = converted.omitted.iter().chain(&converted.ambiguous);
        all.map(|unsupported| unsupported.function).collect::<Vec<Key>>()
    };
    let omitted: HashSet<Key> = converted.into_iter().flat_map(omitted).collect();
    [SframeLayout::Small, SframeLayout::Gnu].map(|layout| {
        let options = Options::new().with_layout(layout);
        let mut builder = Builder::new(arch, options).expect("an architecture of the format");
        let functions = cfi.iter().flat_map(cfi::Functions::new).flatten();
        for function in functions.filter(|function| !omitted.contains(&function.key)) {
            builder.push(&function).expect("a function that both layouts have");
        }
        builder.finish().len()
    })
}

/// Counts functions that are not in the table, by reason.
fn omitted(converted: &Converted) -> BTreeMap<&'static str, u64> {
    let mut omitted = BTreeMap::new();
    for unsupported in converted.omitted.iter().chain(&converted.ambiguous) {
        *omitted.entry(unsupported.reason.name()).or_default() += 1;
    }
    omitted
}

/// Prints the image with the largest table of each package.
fn images(directory: &Path) {
    let mut packages: Vec<_> = ["wheel", "npm"]
        .into_iter()
        .filter_map(|kind| fs::read_dir(directory.join(kind)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    packages.sort();
    let mut identical: BTreeMap<String, u64> = BTreeMap::new();
    for package in packages {
        let paths = fs::read_dir(&package).expect("a directory").filter_map(|entry| Some(entry.ok()?.path()));
        let images: Vec<_> = paths.flat_map(|path| tables(&path)).collect();
        for image in &images {
            *identical.entry(image.layout()).or_default() += 1;
        }
        if let Some(image) = images.iter().max_by_key(|image| image.table.len()) {
            image.measure();
        }
    }
    for (layout, count) in identical {
        println!("layout {layout}: {count} images");
        figures::number("all images", &layout, count, "images");
    }
}

/// An image's table.
struct Image {
    name: String,
    arch: Arch,
    table: Vec<u8>,
    eh_frame_len: u32,
}

/// Returns the tables of all images in a file, which may be fat.
fn tables(path: &Path) -> Vec<Image> {
    let Ok(data) = fs::read(path) else { return Vec::new() };
    let slices: Vec<&[u8]> = match MachOFatFile32::parse(&*data) {
        Ok(fat) => fat.arches().iter().filter_map(|arch| arch.data(&*data).ok()).collect(),
        Err(_) => vec![&data],
    };
    let image = |slice: &&[u8]| {
        let file = File::parse(slice).ok()?;
        let section = file.as_macho()?.unwind_info_section().ok()??;
        // No reader finds entries after the sentinel.
        if Section::parse(&section.bytes).ok()?.entries().any(|entry| entry.is_err()) {
            return None;
        }
        let call_frames = file.call_frame_sections().ok()?;
        let eh_frame = call_frames.iter().find(|cfi| cfi.section.name == "__eh_frame");
        let eh_frame_len = eh_frame.map_or(0, |cfi| cfi.section.bytes.len() as u32);
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Image { name, arch: file.arch(), table: section.bytes.to_vec(), eh_frame_len })
    };
    slices.iter().filter_map(image).collect()
}

impl Image {
    /// Returns the layout in which the entries give the image's own table.
    fn layout(&self) -> String {
        let entries = Table::read(&self.table);
        let is_same = |layout: &_| entries.lay_out_again(self.arch, *layout, self.eh_frame_len) == self.table;
        let found = Layout::ALL.into_iter().filter(|layout| *layout != Layout::Small).find(is_same);
        found.map_or("different".to_owned(), |layout| format!("identical: {}", layout.name()))
    }

    fn measure(&self) {
        let Self { name, arch, table, eh_frame_len } = self;
        let of_arch = match arch {
            Arch::Amd64 => "x86-64",
            Arch::Aarch64 => "arm64",
            _ => "i386",
        };
        let subject = format!("{name}, {of_arch}");
        let entries = Table::read(table);
        let sizes = [
            ("lld", entries.lay_out(*arch, Layout::Lld).len()),
            ("ld-prime", entries.lay_out(*arch, Layout::LdPrime).len()),
            ("ld64", entries.lay_out_again(*arch, Layout::Ld64, *eh_frame_len).len()),
            ("small", entries.lay_out(*arch, Layout::Small).len()),
        ];
        println!("{subject}: {} entries, {} bytes, in layouts {sizes:?}", entries.entries.len(), table.len());
        for (layout, size) in sizes {
            figures::compared(&subject, layout, size as f64, "bytes", "in the image", table.len() as f64);
        }
    }
}
