//! Measures the cost of a link's `.sframe` besides time: memory, allocations, and questions to the linker. The
//! allocator belongs to the whole process, so this is a single test.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use cfipack_cfi::{Functions, Section as Cfi, SectionKind};
use cfipack_encoder::sframe::{At, Builder, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options, Prefer};
use cfipack_testkit::random::Random;
use cfipack_tests::allocated::{Counting, allocations, peak};
use cfipack_tests::many_functions::eh_frame;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FUNCTIONS: usize = 100_000;
/// The start of each object's code before the link.
const TEXT: u64 = 0x10_0000;

/// An object: its unrelocated sections, and the places of its functions' start fields in `.eh_frame`.
struct Input {
    table: Vec<u8>,
    cfi: Vec<u8>,
    functions: Vec<(usize, u64)>,
}

impl Input {
    fn new(random: &mut Random, count: usize) -> Self {
        let cfi = eh_frame(random, count, Address(0), Address(TEXT));
        let section = Cfi::new(SectionKind::EhFrame, &cfi, Address(0), Arch::Amd64);
        let functions = Functions::new(&section).flatten();
        let functions = functions.map(|function| (function.start_field.0, function.key.0 - TEXT)).collect();
        let mut builder =
            Builder::new(Arch::Amd64, TableOptions::new().with_layout(Layout::Gnu)).expect("an architecture");
        builder.push_all(Functions::new(&section), |omitted| panic!("{omitted:?}"));
        let section = builder.finish();
        let mut table = vec![0; section.len()];
        section.write_relocatable(&mut table).expect("a table");
        Self { table, cfi, functions }
    }
}

/// The sections that a link uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sections {
    Tables,
    Cfi,
    Both,
}

/// A way to merge the objects.
#[derive(Clone, Copy, Debug)]
struct Link {
    sections: Sections,
    layout: Layout,
    prefer: Prefer,
    threads: usize,
}

impl Link {
    fn objects(self, inputs: &[Input]) -> Vec<Object<'_>> {
        let objects = inputs.iter().map(|input| match self.sections {
            Sections::Tables => Object::new().with_sframe(&input.table),
            Sections::Cfi => Object::new().with_eh_frame(&input.cfi),
            Sections::Both => Object::new().with_sframe(&input.table).with_eh_frame(&input.cfi),
        });
        objects.collect()
    }

    /// Makes the section of a linked file, in memory that is allocated as a linker maps its output. Counts the questions.
    fn link(self, inputs: &[Input], objects: &[Object<'_>], asked: &AtomicUsize) -> Vec<u8> {
        let pool = Threads(self.threads);
        let options = Options::new().with_prefer(self.prefer);
        let options = options.with_table(TableOptions::new().with_layout(self.layout));
        let mut merger = Merger::new(Arch::Amd64, options).expect("an architecture");
        let live = |number: usize| {
            let (mut next, functions) = (0, &inputs[number].functions);
            move |field| {
                asked.fetch_add(1, Relaxed);
                let function = match field {
                    // A table's entries have 16 bytes, in the order of the CFI.
                    Field::Sframe(at) => functions[(at.0 - 28) / 16],
                    Field::EhFrame(at) => {
                        next += functions[next..].iter().take_while(|function| function.0 < at.0).count();
                        functions[next]
                    }
                };
                Some(Live::new(Key((number as u64) << 32 | function.1)))
            }
        };
        merger.push_objects(&pool, objects, live, |_, note| panic!("{note}"));
        let section = merger.finish_with(Finish::on(&pool));
        let mut out = vec![0; section.len()];
        let address_of = |key: Key| Address((key.0 >> 32) * 0x1000_0000 + key.0 % (1 << 32));
        section.write(&mut out, At::on(Address(1 << 40), &pool), address_of).expect("a section");
        out
    }
}

/// Bytes of an object's sections.
fn bytes_of(object: &Object<'_>) -> usize {
    [object.sframe, object.eh_frame].into_iter().flatten().map(<[u8]>::len).sum()
}

/// Memory is stated in multiples of the output. If rows are in tables of the inputs, the section needs 20 bytes per
/// function, and 16 per piece that does not follow the piece before. If rows come from CFI, the section has them in
/// addition to the output.
#[test]
fn a_link_costs_a_small_multiple_of_its_output() {
    for objects in [100, 1] {
        let mut random = Random::new(7);
        let inputs: Vec<_> = (0..objects).map(|_| Input::new(&mut random, FUNCTIONS / objects)).collect();
        for (sections, layout, prefer, most_memory, most_on_threads) in [
            (Sections::Tables, Layout::Gnu, Prefer::TableOnly, 1.45, 1.45),
            (Sections::Both, Layout::Small, Prefer::Table, 1.55, 1.7),
            (Sections::Cfi, Layout::Small, Prefer::Cfi, 2.3, 2.3),
        ] {
            let mut bytes = None;
            for threads in [1, 2, 4] {
                let link = Link { sections, layout, prefer, threads };
                let given = link.objects(&inputs);
                let asked = AtomicUsize::new(0);
                let mut out = Vec::new();
                let peak = peak(|| out = link.link(&inputs, &given, &asked));
                let input: usize = given.iter().map(bytes_of).sum();
                let of_all = 100.0 * (input + peak) as f64 / (input + out.len()) as f64;
                let peak = peak as f64 / out.len() as f64;
                // Starts of a section's parts are guessed, so a field may be asked for twice.
                let fields = FUNCTIONS * if sections == Sections::Both { 2 } else { 1 };
                let asked = asked.into_inner();
                let twice = if objects == 1 { fields / 100 } else { 0 };
                assert!((fields..=fields + twice).contains(&asked), "{link:?}: asked {asked} times");
                // With more threads, memory depends on timing: a finished part waits for the parts before it.
                let most = if threads > 1 { most_on_threads } else { most_memory };
                assert!(peak < most, "{link:?}, {objects} objects: {peak:.2} times the output");
                let count = allocations(|| link.link(&inputs, &given, &AtomicUsize::new(0)));
                println!(
                    "{link:?}, {objects} objects: {peak:.2} times the output, {count} allocations; with the sections \
                     {of_all:.1} % of sections and output"
                );
                // No allocation per function.
                assert!(count < FUNCTIONS / 20, "{link:?}, {objects} objects: {count} allocations");
                assert_eq!(*bytes.get_or_insert_with(|| out.clone()), out, "{link:?}");
            }
        }
    }
}
