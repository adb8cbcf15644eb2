//! Reads any bytes as an object's table and CFI. There is no panic, and the merged table can be read back. Neither
//! threads nor shards make a difference.

use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Layout;
use cfipack_format::pool::{Serial, Threads};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options, Prefer};

use super::table_and_cfi;
use crate::ARCHES;

const ADDRESS: Address = Address(0x1_0000);

/// Links objects that have the input's table and CFI.
pub fn linker(input: &[u8]) {
    let Some((choice, table, cfi)) = table_and_cfi(input) else { return };
    let arch = ARCHES[usize::from(choice & 3)];
    let mut options = Options::new();
    options.table.layout = if choice & 4 == 0 { Layout::Small } else { Layout::Gnu };
    options.table.version = if choice & 8 == 0 { Version::V3 } else { Version::V2 };
    options.prefer = [Prefer::Table, Prefer::Cfi, Prefer::TableOnly][usize::from(choice >> 4 & 3) % 3];
    let both = Object::new().with_sframe(table).with_eh_frame(cfi);
    let objects = [both, Object::new().with_sframe(table), both, Object::new().with_eh_frame(cfi)];
    let live = |number: usize| move |field| live_at(number, field);
    let merge = |threads| {
        let mut merger = Merger::new(arch, options).unwrap();
        let sum = merger.push_objects(&Threads(threads), &objects, live, |_, _| ());
        (merger.finish(), sum)
    };
    let mut shards = Merger::new(arch, options).unwrap();
    for (number, object) in objects.iter().enumerate() {
        let mut shard = shards.shard();
        shard.push_object(object, live(number), |_| ());
        shards.absorb(shard, &Serial).unwrap();
    }
    let ((section, sum), shards) = (merge(1), shards.finish());
    assert_eq!(merge(3).1, sum);
    let write = |section: &cfipack_linker::sframe::Section| {
        let mut bytes = vec![0; section.len()];
        section
            .write(&mut bytes, ADDRESS, |key: Key| Address(key.0 << 32))
            .map(|written| (written.conflicts, bytes))
    };
    let written = write(&section);
    assert_eq!(written, write(&shards), "shards make a difference");
    let mut object = vec![0; section.len()];
    section.write_relocatable(&mut object).unwrap();
    assert_eq!(section.relocations().count(), section.num_fdes());
    for bytes in [written.ok().map(|(_, bytes)| bytes), Some(object)].into_iter().flatten() {
        let table = Section::parse(&bytes, ADDRESS).expect("what was written can be read");
        table.validate().expect("what was written is valid");
    }
}

/// Fields of both sections share keys, and some are dead.
fn live_at(number: usize, field: Field) -> Option<Live> {
    let at = match field {
        Field::Sframe(at) | Field::EhFrame(at) => at.0 as u64,
    };
    let key = Key(((number as u64) << 32) | (at / 16));
    match at % 11 {
        3 => None,
        5 => Some(Live::new(key).with_extent(at as u32 % 40)),
        _ => Some(Live::new(key)),
    }
}
