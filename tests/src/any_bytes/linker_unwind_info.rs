//! Reads any bytes as unwind information of two objects, whose functions are anywhere. There is no panic, the table is
//! not larger than announced, and our reader finds its entries in order.

use cfipack_decoder::unwind_info::{Error, Section};
use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey};
use cfipack_linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Resolve};

/// Every pointer leads to the place that its field states. Some functions of the second object are dead or folded.
struct Fields(u32);

impl Resolve for Fields {
    fn function(&mut self, field: Field) -> Option<Key> {
        let function = field.target?.0;
        (self.0 == 0 || function % 5 != 4).then_some(Key(function / u64::from(1 + self.0)))
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        field.target.map(|target| PersonalityKey(target.0 % 6))
    }

    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        LsdaKey::new(field.target?.0)
    }
}

/// Addresses that a few numbers decide.
struct Anywhere {
    factor: u32,
    absent: u64,
}

impl Addresses for Anywhere {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        let is_absent = self.absent != 0 && function.0 % 7 == self.absent % 7;
        (!is_absent).then(|| ImageOffset((function.0 as u32).wrapping_mul(self.factor)))
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        (lsda.0.get() % 9 != 1).then(|| lsda.image_offset())
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        (fde.offset.0 % 11 != 1).then_some((fde.offset.0 as u32).wrapping_mul(self.factor))
    }
}

/// Links Mach-O objects that have the input's rows and CFI.
pub fn linker_unwind_info(bytes: &[u8]) {
    let Some((&[how, factor, absent, cut], bytes)) = bytes.split_first_chunk::<4>() else { return };
    let arch = [Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32][usize::from(how & 3)];
    let layout = Layout::ALL[usize::from(how >> 2) % Layout::ALL.len()];
    let options = Options::new().with_layout(layout);
    let mut builder = Builder::new(arch, options).expect("an architecture of the format");
    let (rows, eh_frame) = bytes.split_at(bytes.len() * usize::from(cut) / 256);
    for object in 0..2 {
        let input = Input::new(object)
            .with_compact_unwind(rows)
            .with_eh_frame(eh_frame, Address(u64::from(object) << 20));
        builder.push(&input, &mut Fields(object));
    }
    let section = builder.finish();
    let first = Anywhere { factor: 1, absent: 0 };
    let plan = section.plan(|key| first.function(key), 0).expect("no table of 4 GiB");
    let anywhere = Anywhere { factor: 0x9e37_79b9 >> (factor & 31), absent: absent.into() };
    for addresses in [first, anywhere] {
        let table = section.place(Some(&plan), None, &addresses).expect("no table of 4 GiB");
        assert!(table.len() <= section.max_len(), "{} of {}", table.len(), section.max_len());
        let mut out = vec![0xaa; table.len()];
        table.write(&mut out, |_| ImageOffset(8)).expect("as long as was asked for");
        if !out.is_empty() {
            let read = Section::parse(&out).expect("what we write is whole");
            let starts = read.entries().map(|entry| match entry {
                Ok(entry) => entry.start,
                // A function without bytes comes last, and no PC asks for its entry.
                Err(Error::AfterSentinel { function, sentinel, .. }) if function == sentinel => function,
                Err(error) => panic!("an entry: {error}"),
            });
            let starts: Vec<_> = starts.collect();
            assert!(starts.is_sorted_by(|a, b| a < b));
        }
    }
}
