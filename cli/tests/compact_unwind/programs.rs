//! Compiles random C, C++ and Objective-C programs for Apple's platforms.

use cfipack_format::Arch;
use cfipack_testkit::random::Random;
use cfipack_tests::apple_sources;
use cfipack_tests::reference::Tools;

/// The sources of a link, in assembly language.
#[derive(Debug)]
pub struct Program {
    pub arch: Arch,
    /// The options of clang.
    pub options: Vec<&'static str>,
    /// Names of the `.s` files in the tools' directory, without `.s`.
    pub sources: Vec<String>,
}

/// Returns the target name for clang and llvm-mc.
pub fn target(arch: Arch) -> &'static str {
    if arch == Arch::Amd64 { "x86_64-apple-macos11" } else { "arm64-apple-macos11" }
}

impl Program {
    /// Compiles a program. `personality` replaces that of C++, for which clang keeps DWARF mode.
    pub fn compile(tools: &Tools, random: &mut Random, arch: Arch, personality: Option<&str>) -> Self {
        let mut options = vec![random.pick(&["-O0", "-O1", "-O2", "-O3", "-Os"])];
        options.extend(random.chance(40).then_some("-fomit-frame-pointer"));
        options.extend(random.chance(30).then_some("-g"));
        let mut sources = Vec::new();
        for number in 0..2 + random.below(3) as usize {
            let source = apple_sources::random(random, number, 40);
            tools.write(&source.name, &source.text);
            let stem = source.name.split('.').next().unwrap().to_owned();
            let assembly = format!("{stem}.s");
            let clang = ["clang-23", "-target", target(arch), "-fexceptions", "-w", "-S", "-o", &assembly];
            tools.run_well(&[&clang[..], &options, &[&source.name]].concat());
            if let Some(personality) = personality {
                let text = String::from_utf8(tools.read(&assembly)).unwrap();
                tools.write(&assembly, text.replace("___gxx_personality_v0", personality));
            }
            sources.push(stem);
        }
        Self { arch, options, sources }
    }

    /// Assembles the sources. Returns the names of the objects, which end in `ending`.
    pub fn assemble(&self, tools: &Tools, options: &[&str], ending: &str) -> Vec<String> {
        let assemble = |stem: &String| {
            let (source, object) = (format!("{stem}.s"), format!("{stem}{ending}"));
            let llvm_mc =
                ["llvm-mc-23", "-filetype=obj", "-triple", target(self.arch), &source, "-o", &object];
            tools.run_well(&[&llvm_mc[..], options].concat());
            object
        };
        self.sources.iter().map(assemble).collect()
    }
}
