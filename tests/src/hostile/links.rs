//! Makes links with many sections, and with a large one.

use cfipack_cfi::{Functions, Section as Cfi, SectionKind};
use cfipack_encoder::sframe::{At, Builder, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options, Prefer};
use cfipack_testkit::random::Random;

use super::{Input, Shape};
use crate::many_functions::eh_frame;

/// Shapes of links. Sections of code with one function each are what `-ffunction-sections` makes.
pub const LINKS: &[Shape] = &[
    ("objects of one function", |n| {
        let mut random = Random::new(7);
        Input::Link((0..8 * n).map(|_| LinkObject::new(&mut random, 1)).collect())
    }),
    ("one object", |n| Input::Link(vec![LinkObject::new(&mut Random::new(7), 32 * n)])),
];

/// An object of a link. Its sections are not relocated.
#[derive(Clone, Debug)]
pub struct LinkObject {
    sframe: Vec<u8>,
    eh_frame: Vec<u8>,
    /// The places of its functions' start fields in `.eh_frame`.
    fields: Vec<usize>,
}

impl LinkObject {
    fn new(random: &mut Random, functions: usize) -> Self {
        let eh_frame = eh_frame(random, functions, Address(0), Address(0x10_0000));
        let section = Cfi::new(SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
        let fields = Functions::new(&section).flatten().map(|function| function.start_field.0).collect();
        let options = TableOptions::new().with_layout(Layout::Gnu).with_few(functions == 1);
        let mut builder = Builder::new(Arch::Amd64, options).expect("an architecture of the format");
        builder.push_all(Functions::new(&section), |omitted| panic!("{omitted:?}"));
        let section = builder.finish();
        let mut sframe = vec![0; section.len()];
        section.write_relocatable(&mut sframe).expect("a table");
        Self { sframe, eh_frame, fields }
    }

    /// Returns the bytes of the sections.
    pub(super) fn len(&self) -> usize {
        self.sframe.len() + self.eh_frame.len()
    }

    /// Returns the number of the function that a field belongs to.
    fn function(&self, field: Field) -> u64 {
        let number = match field {
            // Version 3 has a header of 28 bytes and index entries of 16.
            Field::Sframe(at) => (at.0 - 28) / 16,
            Field::EhFrame(at) => self.fields.partition_point(|field| *field < at.0),
        };
        number as u64
    }
}

/// Merges the objects on one thread and on two: their tables, their CFI, and both.
pub(super) fn work(objects: &[LinkObject]) {
    for (prefer, layout) in
        [(Prefer::TableOnly, Layout::Gnu), (Prefer::Table, Layout::Small), (Prefer::Cfi, Layout::Small)]
    {
        let options = Options::new().with_prefer(prefer).with_table(TableOptions::new().with_layout(layout));
        let [one, two] = [1, 2].map(|threads| merged(objects, options, threads));
        assert_eq!(one, two, "{prefer:?}");
    }
}

fn merged(objects: &[LinkObject], options: Options, threads: usize) -> Vec<u8> {
    let pool = Threads(threads);
    let mut merger = Merger::new(Arch::Amd64, options).expect("an architecture of the format");
    let sections: Vec<_> = objects
        .iter()
        .map(|object| Object::new().with_sframe(&object.sframe).with_eh_frame(&object.eh_frame))
        .collect();
    let live = |number: usize| {
        let object = &objects[number];
        move |field| Some(Live::new(Key((number as u64) << 32 | object.function(field))))
    };
    merger.push_objects(&pool, &sections, live, |_, note| panic!("{note}"));
    let section = merger.finish_with(Finish::on(&pool));
    let mut out = vec![0; section.len()];
    let address_of = |key: Key| Address((key.0 >> 32) * 0x1000_0000 + 0x1000 * (key.0 % (1 << 32)));
    section.write(&mut out, At::on(Address(1 << 50), &pool), address_of).expect("a section");
    out
}
