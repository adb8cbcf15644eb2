//! Links objects of gas after damaging one of them. No link fails. The other objects have the rows that they have
//! without damage. The damaged object has only rows for a PC that its table has (by the decoder) or its CFI (by gimli).

use std::collections::BTreeSet;
use std::fs;

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::{Conflict, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Key, Register, Row};
use cfipack_linker::sframe::{Field, Live, Merger, Options, Prefer};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::corpora;
use cfipack_tests::elf_object::{ElfObject, Place};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, LittleEndian, UnwindContext, UnwindSection as _, Vendor,
};

const TABLE: Address = Address(0x4000_0000);
const LINKS: usize = 1000;

/// Returns small objects of x86-64 and AArch64 that have a table and CFI.
fn objects(directory: &str) -> Vec<ElfObject> {
    let files = fs::read_dir(corpora::directory().join("sframe").join(directory)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    paths.sort();
    let objects = paths.iter().map(|path| ElfObject::parse(&fs::read(path).unwrap()));
    let is_small = |bytes: Option<&[u8]>| bytes.is_some_and(|bytes| bytes.len() < 1 << 12);
    objects.filter(|it| is_small(it.input().sframe) && is_small(it.input().eh_frame)).collect()
}

/// The addresses of all sections, all apart from each other.
struct Addresses(Vec<Vec<u64>>);

impl Addresses {
    fn random(objects: &[ElfObject], random: &mut Random) -> Self {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (object, sizes) in objects.iter().map(|object| &object.sizes).enumerate() {
            places.extend((0..sizes.len()).map(|section| (object, section)));
        }
        let mut all: Vec<_> = objects.iter().map(|object| vec![0; object.sizes.len()]).collect();
        let mut at = 0x1000;
        while !places.is_empty() {
            let (object, section) = places.swap_remove(random.below(places.len() as u64) as usize);
            all[object][section] = at;
            // Often the next section follows without a gap.
            at += objects[object].sizes[section] + [0, 0, 4, 16][random.below(4) as usize];
        }
        Self(all)
    }

    fn address(&self, key: Key) -> Address {
        let (object, place) = Place::from_key(key);
        Address(self.0[object][place.section].wrapping_add(place.offset))
    }
}

/// The options of a link.
#[derive(Clone, Copy, Debug)]
struct How {
    arch: Arch,
    options: Options,
    threads: usize,
    placed_keys: bool,
    has_extents: bool,
}

impl How {
    fn random(arch: Arch, random: &mut Random) -> Self {
        let mut any = |count: u64| random.below(count) as usize;
        let table = TableOptions::new()
            .with_layout(Layout::ALL[any(2)])
            .with_version([Version::V3, Version::V3, Version::V2][any(3)]);
        let prefer = [Prefer::Table, Prefer::Cfi, Prefer::TableOnly][any(3)];
        let options = Options::new().with_prefer(prefer).with_table(table);
        Self { arch, options, threads: 1 + any(3), placed_keys: any(3) != 0, has_extents: any(4) != 0 }
    }

    fn link(&self, objects: &[ElfObject], addresses: &Addresses) -> (Vec<u8>, Vec<Conflict>) {
        let pool = Threads(self.threads);
        let mut merger = Merger::new(self.arch, self.options).unwrap();
        let inputs: Vec<_> = objects.iter().map(ElfObject::input).collect();
        let live = |number: usize| {
            let object = &objects[number];
            let mut walk = object.walk();
            move |field: Field| {
                let place = walk.target(field)?;
                let live = Live::new(place.key(number));
                let room = object.sizes[place.section].saturating_sub(place.offset);
                Some(if self.has_extents { live.with_extent(room as u32) } else { live })
            }
        };
        merger.push_objects(&pool, &inputs, live, |_, _| ());
        let section = merger.finish_with(Finish::on(&pool).with_placed_keys(self.placed_keys));
        let mut bytes = vec![0; section.len()];
        let written = section.write(&mut bytes, TABLE, |key| addresses.address(key));
        let written = written.unwrap_or_else(|error| panic!("{self:?}: the link is refused: {error}"));
        (bytes, written.conflicts)
    }
}

/// Damages a table or CFI: a size, or any bytes.
fn damage(object: &mut ElfObject, arch: Arch, random: &mut Random) {
    let sections = object.bytes_mut();
    let [table, cfi] = sections;
    let (table, cfi) = (table.unwrap(), cfi.unwrap());
    let below = |random: &mut Random, count: usize| random.below(count.max(1) as u64) as usize;
    let size = [0x1000, 0x28, 0xffff, 0x7fff_ffff, random.below(1 << 12) as u32][below(random, 5)];
    match random.below(4) {
        0 => {
            let section = decoder::Section::parse(table, Address(0)).unwrap();
            let (count, version) = (section.num_functions(), section.version());
            if count == 0 {
                return;
            }
            let field = section.fde_offset(below(random, count)).0 + version.fde_size()
                - if version == Version::V3 { 8 } else { 16 };
            table[field..field + 4].copy_from_slice(&arch.endian().put_u32(size));
        }
        1 => {
            let frames = EhFrame::new(cfi, LittleEndian);
            let bases = BaseAddresses::default();
            let mut entries = frames.entries(&bases);
            let mut fdes = Vec::new();
            while let Ok(Some(entry)) = entries.next() {
                fdes.extend(match entry {
                    CieOrFde::Fde(fde) => Some(fde.offset()),
                    CieOrFde::Cie(_) => None,
                });
            }
            if let Some(&fde) = fdes.get(below(random, fdes.len())) {
                cfi[fde + 12..fde + 16].copy_from_slice(&arch.endian().put_u32(size));
            }
        }
        which => {
            let bytes = if which == 2 { table } else { cfi };
            for _ in 0..1 + random.below(3) {
                let at = below(random, bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
    }
}

/// Returns the CFAs that an object's table and CFI have for a PC, whatever sizes they claim. With `section` only its
/// functions count. `None` means that gimli cannot judge.
fn candidates(
    object: &ElfObject,
    addresses: &[u64],
    section: Option<usize>,
    pc: Address,
) -> Option<BTreeSet<(u16, i64)>> {
    let mut found = BTreeSet::new();
    let input = object.input();
    let from = |field| {
        let start = object.target(field)?;
        let is_asked = section.is_none_or(|section| section == start.section);
        let distance = pc.0.checked_sub(addresses[start.section].wrapping_add(start.offset));
        distance.filter(|_| is_asked)
    };
    for table in decoder::Section::concatenated(input.sframe.unwrap_or_default(), Address(0)) {
        let Ok(table) = table else { break };
        for (function, field) in table.functions().zip(table.start_fields()) {
            let Ok(function) = function else { continue };
            let Some(mut at) = from(Field::Sframe(field)) else { continue };
            if function.is_pc_mask() {
                at %= u64::from(function.rep_size()).max(1);
            }
            let rows = function.rows().map_while(Result::ok).filter(|row| u64::from(row.start.0) <= at);
            found.extend(rows.last().and_then(|row| cfa(&row)));
        }
    }
    let mut frames = EhFrame::new(input.eh_frame.unwrap_or_default(), LittleEndian);
    // No x86-64 object here has vendor instructions, so AArch64's meaning is fine for both.
    frames.set_vendor(Vendor::AArch64);
    let bases = BaseAddresses::default().set_eh_frame(0).set_text(0).set_got(0);
    let (mut entries, mut context) = (frames.entries(&bases), UnwindContext::new());
    loop {
        let entry = match entries.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            // gimli stops at an unknown augmentation.
            Err(_) => return None,
        };
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { return None };
        let Some(at) = from(Field::EhFrame(cfipack_format::SectionOffset(fde.offset() + 8))) else {
            continue;
        };
        let mut rows = match fde.rows(&frames, &bases, &mut context) {
            Ok(rows) => rows,
            // For example, a CIE restores a register that has no rule yet.
            Err(_) => return None,
        };
        let mut last = None;
        while let Ok(Some(row)) = rows.next_row() {
            if row.start_address().wrapping_sub(fde.initial_address()) > at {
                break;
            }
            last = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => Some((register.0, *offset)),
                // An expression may give a register plus an offset too. gimli does not evaluate it here.
                CfaRule::Expression(_) => return None,
            };
        }
        found.extend(last);
    }
    Some(found)
}

/// Returns the CFA of a row if it is a register plus an offset.
fn cfa(row: &Row) -> Option<(u16, i64)> {
    match row.cfa {
        Cfa::Register { register: Register(register), offset } => Some((register, offset)),
        Cfa::Undefined | Cfa::Memory { .. } | Cfa::Expression => None,
    }
}

#[test]
fn no_damaged_object_fails_a_link() {
    let (seed, count) = cases("links with a damaged object", LINKS);
    let mut random = Random::new(seed);
    let all = [("x86_64", Arch::Amd64), ("aarch64", Arch::Aarch64)].map(|(it, arch)| (objects(it), arch));
    let (mut same, mut own, mut named) = (0, 0, 0);
    for link in 0..count {
        let (objects, arch) = &all[link % all.len()];
        let chosen = (0..2 + random.below(4)).map(|_| random.below(objects.len() as u64) as usize);
        let mut objects: Vec<_> = chosen.map(|number| objects[number].clone()).collect();
        let addresses = Addresses::random(&objects, &mut random);
        let how = How::random(*arch, &mut random);
        let (whole, without) = how.link(&objects, &addresses);
        assert_eq!(without, [], "{how:?}");
        let bad = random.below(objects.len() as u64) as usize;
        damage(&mut objects[bad], *arch, &mut random);
        let (bytes, conflicts) = how.link(&objects, &addresses);
        assert!(
            conflicts.is_empty() || !(how.has_extents && how.placed_keys),
            "link {link}, {how:?}: {conflicts:?}"
        );
        let [whole, table] = [&whole, &bytes].map(|bytes| decoder::Section::parse(bytes, TABLE).unwrap());
        table.validate().unwrap();
        let omitted: BTreeSet<_> = conflicts
            .iter()
            .map(|conflict| Place::from_key(conflict.function))
            .map(|(it, place)| (it, place.section))
            .collect();
        named += conflicts.len();
        for (number, object) in objects.iter().enumerate() {
            for (section, size) in object.sizes.iter().enumerate() {
                for offset in 0..(*size).min(1 << 10) {
                    let pc = Address(addresses.0[number][section] + offset);
                    let found = table.lookup(pc).unwrap();
                    let context =
                        || format!("link {link} of seed {seed}, {how:?}: {pc:?} of object {number}");
                    let expected = whole.lookup(pc).unwrap();
                    // Without extents, a function that claims to be too large has PCs after its section. Only PCs
                    // without other rows are affected.
                    let is_spilled = !how.has_extents && expected.is_none();
                    if number != bad && !(is_spilled && found.is_some()) {
                        let is_named = found.is_none() && omitted.contains(&(number, section));
                        assert!(is_named || found == expected, "{}", context());
                        same += 1;
                    } else if let Some(cfa) = found.and_then(|row| cfa(&row)) {
                        let section = how.has_extents.then_some(section);
                        let Some(candidates) = candidates(&objects[bad], &addresses.0[bad], section, pc)
                        else {
                            continue;
                        };
                        assert!(candidates.contains(&cfa), "{}: {cfa:?} of {candidates:?}", context());
                        own += 1;
                    }
                }
            }
        }
    }
    println!(
        "{count} links, {same} PCs of other objects, {own} rows of damaged ones, {named} omitted by name"
    );
    assert!(same > 100 * count && own > 10 * count, "{same} {own}");
}
