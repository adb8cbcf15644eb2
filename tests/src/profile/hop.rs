//! Walks with framehop, which reads `.eh_frame` too. If that has no answer, framehop uses frame pointers.

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};

use super::recording::{FP, SP, Sample};
use super::walk::Space;

/// framehop's view of a process.
pub type Unwinder<'f> = UnwinderX86_64<&'f [u8]>;

/// Makes an unwinder for a space.
pub fn unwinder<'f>(space: &Space<'_, 'f>) -> Unwinder<'f> {
    let mut unwinder = UnwinderX86_64::new();
    for (range, bias, image) in space.images() {
        let Some(cfi) = &image.cfi else { continue };
        let ((header, header_bytes), (section, section_bytes)) = (cfi.header_bytes, cfi.section_bytes);
        let info = ExplicitModuleSectionInfo {
            eh_frame_hdr_svma: Some(header..header + header_bytes.len() as u64),
            eh_frame_hdr: Some(header_bytes),
            eh_frame_svma: Some(section..section + section_bytes.len() as u64),
            eh_frame: Some(section_bytes),
            ..Default::default()
        };
        unwinder.add_module(Module::new(image.name().to_string(), range, bias, info));
    }
    unwinder
}

/// Walks a sample's stack. Returns the PCs, innermost first.
pub fn walk_by_framehop(
    sample: &Sample,
    unwinder: &Unwinder<'_>,
    cache: &mut CacheX86_64,
    pcs: &mut Vec<u64>,
) {
    let registers = UnwindRegsX86_64::new(sample.pc, sample.registers[SP], sample.registers[FP]);
    let mut read = |address| sample.word(address).ok_or(());
    let mut frames = unwinder.iter_frames(sample.pc, registers, cache, &mut read);
    pcs.clear();
    while let Ok(Some(frame)) = frames.next() {
        pcs.push(frame.address());
    }
}
