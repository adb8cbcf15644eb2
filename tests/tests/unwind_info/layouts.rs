//! Reads random tables in every layout with our reader and llvm-objdump.

use std::num::NonZeroU32;

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options, Warning};
use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::unwind_info::PageKind;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::reference::Tools;
use cfipack_tests::unwind_table::{Table, bytes_after_code, lay_out};
use cfipack_tests::{mach_object, random_entries};

fn options(layout: Layout) -> Options {
    Options::new().with_layout(layout).with_keep_dwarf_lsda(true).with_eh_frame_len(0x1234)
}

/// Returns whether a layout writes a section. Apple's linkers write one even if no code has unwind information.
fn is_written(layout: Layout, entries: &[Entry]) -> bool {
    !matches!(layout, Layout::Small | Layout::Lld | Layout::Zig)
        || entries.iter().any(|entry| entry.encoding.mode_number() != 0)
}

fn slot(personality: u32) -> ImageOffset {
    ImageOffset(0x4000 + 8 * personality)
}

fn is_dwarf(arch: Arch, encoding: Encoding) -> bool {
    encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number()
}

/// The expected answer for a PC: the encoding without its personality's number, the personality's slot, and the LSDA.
/// In DWARF mode the FDE has the last two, so the table need not have them.
type Answer = (Encoding, Option<ImageOffset>, Option<ImageOffset>);

fn expected(arch: Arch, entries: &[Entry], pc: ImageOffset) -> Answer {
    let entry = entries[entries.partition_point(|entry| entry.function.image_offset() <= pc) - 1];
    if is_dwarf(arch, entry.encoding) {
        return (entry.encoding, None, None);
    }
    let flags = if entry.lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
    let personality = entry.personality.map(|personality| slot(personality.get()));
    (entry.encoding.with_flags(flags), personality, entry.lsda.map(LsdaKey::image_offset))
}

fn found(arch: Arch, section: &Section<'_>, pc: ImageOffset) -> Answer {
    // If the last function has no information, a table in layout `lld` ends at its start.
    let Some(entry) = section.lookup(pc).unwrap() else { return (Encoding::NONE, None, None) };
    let encoding = entry.encoding.with_personality(0);
    if is_dwarf(arch, encoding) {
        return (Encoding(encoding.0 & !Flags::HAS_LSDA.bits()), None, None);
    }
    (encoding, section.personality(&entry).unwrap(), section.lsda(&entry).unwrap())
}

#[test]
fn every_pc_finds_its_entry() {
    let (seed, count) = cases("lookups in random tables of all layouts", 300);
    let mut random = Random::new(seed);
    for number in 0..count {
        let arch = random.pick(&[Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32]);
        let most = random.pick(&[4, 700, 5000]);
        let entries = random_entries::random(&mut random, arch, most);
        let end = entries.last().unwrap().function.image_offset().0 + entries.last().unwrap().length;
        for layout in Layout::ALL {
            let bytes = lay_out(arch, options(layout), &entries, None, slot);
            assert_eq!(bytes.is_empty(), !is_written(layout, &entries), "table {number}, {layout:?}");
            if bytes.is_empty() {
                continue;
            }
            let section = Section::parse(&bytes).unwrap();
            for _ in 0..200 {
                let last = entries.last().unwrap().function.image_offset().0;
                let pc = ImageOffset(random.between(0x1000, last.into()) as u32);
                let (expected, found) = (expected(arch, &entries, pc), found(arch, &section, pc));
                assert_eq!(found, expected, "table {number}, {layout:?}, {arch:?}, {pc}");
            }
            let table = Table::read(&bytes);
            let ends_in_code = entries.last().unwrap().encoding != Encoding::NONE;
            if layout != Layout::Lld || ends_in_code {
                let behind = bytes_after_code(layout);
                assert_eq!(table.end.0, end + behind, "table {number}, {layout:?}");
            }
            let lsdas = table.entries.iter().filter(|entry| entry.lsda.is_some()).count();
            assert_eq!(lsdas, entries.iter().filter(|entry| entry.lsda.is_some()).count());
        }
    }
}

#[test]
fn small_is_never_larger() {
    let (seed, count) = cases("layout small against the others, random tables", 300);
    let mut random = Random::new(seed);
    let mut sizes = [0; Layout::ALL.len()];
    for number in 0..count {
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        let most = random.pick(&[4, 700, 5000, 20_000]);
        let entries = random_entries::random(&mut random, arch, most);
        let all = Layout::ALL.map(|layout| lay_out(arch, options(layout), &entries, None, slot));
        let all_sizes @ [small, ..] = all.each_ref().map(Vec::len);
        let [own_pages, ..] = all.each_ref().map(|bytes| largest_page(bytes));
        for (layout, bytes) in Layout::ALL.into_iter().zip(&all) {
            // A page of ld64 can be larger than 4096 bytes.
            let has_room = layout == Layout::Ld64 && largest_page(bytes) > 4096;
            assert!(small <= bytes.len() || has_room, "table {number}, {layout:?}: {all_sizes:?}");
        }
        assert!(own_pages <= 4096, "table {number}: a page of {own_pages} bytes");
        for (sum, size) in sizes.iter_mut().zip(all_sizes) {
            *sum += size;
        }
    }
    println!("{:?}: {sizes:?}", Layout::ALL.map(Layout::name));
}

/// Returns the bytes of a table's largest page, or 0 if there is no page.
fn largest_page(bytes: &[u8]) -> usize {
    let pages = if bytes.is_empty() { Vec::new() } else { Table::read(bytes).pages };
    let sizes = pages.into_iter().map(|(kind, count, locals)| match kind {
        PageKind::Compressed => 12 + 4 * (count + locals),
        PageKind::Regular => 8 + 8 * count,
    });
    sizes.max().unwrap_or(0)
}

/// Entries may have any values. Every layout takes them, and our reader reads every layout.
#[test]
fn anything_can_be_pushed() {
    let (seed, count) = cases("entries of any numbers", 300);
    let mut random = Random::new(seed);
    for number in 0..count {
        let arch = random.pick(&[Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32]);
        let mask = random.pick(&[u32::MAX, 0xff, 0xf000_000f]);
        let entries = (0..random.below(1500)).map(|_| {
            let mut any = || random.next() as u32 & if random.chance(50) { mask } else { u32::MAX };
            Entry {
                function: ImageOffset(any()).into(),
                length: any(),
                encoding: Encoding(any()),
                personality: NonZeroU32::new(any() % 4),
                lsda: LsdaKey::at(ImageOffset(any())),
                fde: NonZeroU32::new(any() & 0xff_ffff),
            }
        });
        let entries: Vec<_> = entries.collect();
        let mut sizes = Vec::new();
        for layout in Layout::ALL {
            let bytes = lay_out(arch, options(layout), &entries, None, slot);
            sizes.push(bytes.len());
            if let Ok(section) = Section::parse(&bytes) {
                let starts: Vec<_> = section.entries().map(|entry| entry.unwrap().start).collect();
                // Apple's linker keeps an empty entry before a function at the same address.
                let may_share = matches!(layout, Layout::LdPrime | Layout::LdPrime27);
                let ascend = starts.is_sorted_by(|a, b| a < b || may_share && a == b);
                assert!(ascend, "table {number}, {layout:?}");
            }
        }
        assert_eq!(sizes[..3].iter().min(), Some(&sizes[0]), "table {number}: {sizes:?}");
    }
}

#[test]
fn neither_the_order_of_pushing_nor_shards_matter() {
    let (seed, count) = cases("random tables pushed in any order", 40);
    let mut random = Random::new(seed);
    for number in 0..count {
        let entries = random_entries::random(&mut random, Arch::Amd64, 2000);
        let mut shuffled = entries.clone();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.below(at as u64 + 1) as usize);
        }
        for layout in Layout::ALL {
            let sorted = lay_out(Arch::Amd64, options(layout), &entries, None, slot);
            assert!(lay_out(Arch::Amd64, options(layout), &shuffled, None, slot) == sorted, "table {number}");
            let mut shards = Builder::new(Arch::Amd64, options(layout)).unwrap();
            for shard in entries.chunks(100) {
                let mut builder = Builder::new(Arch::Amd64, options(layout)).unwrap();
                shard.iter().for_each(|&entry| builder.push(entry));
                shards.absorb(builder).unwrap();
            }
            let placed = shards.finish().place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
            let mut bytes = vec![0; placed.len()];
            placed.write(&mut bytes, |personality| slot(personality.get())).unwrap();
            assert!(bytes == sorted, "table {number}");
        }
    }
}

#[test]
fn functions_may_move() {
    let entries = random_entries::random(&mut Random::new(1), Arch::Amd64, 3000);
    let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
    let far = |offset: ImageOffset| ImageOffset(offset.0 ^ 0x40);
    for &entry in &entries {
        let lsda = entry.lsda.and_then(|lsda| LsdaKey::at(far(lsda.image_offset())));
        builder.push(Entry { function: far(entry.function.image_offset()).into(), lsda, ..entry });
    }
    let section = builder.finish();
    let placed = section.place(None, |key| far(key.image_offset()), |key| far(key.image_offset())).unwrap();
    let mut bytes = vec![0; placed.len()];
    placed.write(&mut bytes, |personality| slot(personality.get())).unwrap();
    assert!(bytes == lay_out(Arch::Amd64, Options::default(), &entries, None, slot));
    assert!(placed.write(&mut [0; 3], |_| ImageOffset(0)).is_err());
}

#[test]
#[ignore = "needs the reference tools"]
fn llvm_objdump_prints_what_we_print() {
    let what = "tables of all layouts read by llvm-objdump 23";
    let tools = Tools::find();
    let (seed, count) = cases(what, 20);
    let mut random = Random::new(seed);
    for number in 0..count {
        let arch = random.pick(&[Arch::Amd64, Arch::Aarch64]);
        let most = random.pick(&[4, 3000]);
        let entries = random_entries::random(&mut random, arch, most);
        for layout in Layout::ALL {
            let bytes = lay_out(arch, options(layout), &entries, None, slot);
            if bytes.is_empty() {
                continue;
            }
            tools.write("f", mach_object::image_with_table(arch, &bytes));
            let theirs = tools.run_well(&["llvm-objdump-23", "--unwind-info", "f"]);
            // llvm-objdump reads at most 4096 bytes of a page. A page of ld64 can have a word more.
            let is_long = |&(_, entries, encodings): &(PageKind, usize, usize)| entries + encodings > 1021;
            if layout == Layout::Ld64 && Table::read(&bytes).pages.iter().any(is_long) {
                assert!(theirs.contains("warning: attempt to read past end of buffer"), "table {number}");
                continue;
            }
            let mut ours = String::new();
            Section::parse(&bytes).unwrap().dump(&mut ours).unwrap();
            assert!(
                !ours.is_empty() && theirs.ends_with(&ours),
                "table {number}, {layout:?}\n{theirs}\n{ours}"
            );
        }
    }
}

#[test]
fn a_fourth_personality_falls_back_to_dwarf() {
    for layout in Layout::ALL {
        let mut builder = Builder::new(Arch::Aarch64, options(layout)).unwrap();
        // Personality 1 is used once, personality 2 twice, and so on.
        let users = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5];
        for (number, personality) in (0..).zip(users) {
            let mut entry = Entry::new(ImageOffset(0x100 * number + 0x100), 0x100, Encoding(0x0400_0000));
            entry.personality = NonZeroU32::new(personality);
            entry.lsda = LsdaKey::at(ImageOffset(0x8000 + number));
            entry.fde = NonZeroU32::new(if number == 2 { 0x1234_5678 } else { 0x20 * number + 0x18 });
            builder.push(entry);
        }
        let section = builder.finish();
        let moved = section.warnings().iter().filter_map(|warning| match *warning {
            Warning::FourthPersonality { function, personality, .. } => Some((function.0, personality.get())),
            _ => None,
        });
        assert_eq!(moved.collect::<Vec<_>>(), [(0x100, 1), (0x200, 2), (0x300, 2)]);
        let unreachable =
            Warning::FdeOutOfReach { function: Key(0x300), fde: NonZeroU32::new(0x1234_5678).unwrap() };
        assert_eq!(section.warnings().iter().filter(|&&warning| warning == unreachable).count(), 1);
        let placed = section.place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |personality| slot(personality.get())).unwrap();
        let table = Table::read(&bytes);
        assert_eq!(table.slots, [slot(3), slot(4), slot(5)], "{layout:?}");
        let encodings: Vec<_> = table.entries.iter().map(|entry| entry.encoding.0 & 0x0fff_ffff).collect();
        assert_eq!(encodings[..4], [0x0300_0018, 0x0300_0038, 0x0300_0000, 0x0400_0000], "{layout:?}");
    }
}

#[test]
fn nothing_shadows_a_function() {
    let real = Entry::new(ImageOffset(0x1000), 0x20, Encoding(0x0100_0000));
    let none = Entry::new(ImageOffset(0x1000), 0, Encoding::NONE);
    let before = Entry::new(ImageOffset(0xf00), 0x100, Encoding(0x0201_0000));
    for entries in [[before, real, none], [before, none, real]] {
        for layout in Layout::ALL {
            let table = Table::read(&lay_out(Arch::Amd64, options(layout), &entries, None, slot));
            let behind = bytes_after_code(layout);
            let real = Entry { length: real.length + behind, ..real };
            // Apple's linker writes the empty entry first, where no reader finds it.
            let is_kept = matches!(layout, Layout::LdPrime | Layout::LdPrime27) && entries[1] == none;
            let expected = if is_kept { vec![before, none, real] } else { vec![before, real] };
            assert_eq!((table.entries, table.end.0), (expected, 0x1020 + behind), "{layout:?}");
        }
    }
}

/// Readers never use these records; see `Options::keep_dwarf_lsda`.
#[test]
fn dead_lsda_records_are_omitted() {
    let mut dwarf = Entry::new(ImageOffset(0x1000), 0x20, Encoding::dwarf(Arch::Amd64, 0x18));
    dwarf.lsda = LsdaKey::new(0x9000);
    let compact = Entry { encoding: Encoding(0x0100_0000), function: Key(0x1020), ..dwarf };
    let records = |options: Options| {
        let bytes = lay_out(Arch::Amd64, options, &[dwarf, compact], None, slot);
        let section = Section::parse(&bytes).unwrap();
        let records: Vec<_> = section.all_lsdas().unwrap().map(|lsda| lsda.function.0).collect();
        let flags: Vec<_> = section.entries().map(|entry| entry.unwrap().encoding.has_lsda()).collect();
        (records, flags, bytes.len())
    };
    let (both, one) = (vec![0x1000, 0x1020], vec![0x1020]);
    for layout in Layout::ALL {
        let (keep, omit) = (
            Options::new().with_layout(layout).with_keep_dwarf_lsda(true),
            Options::new().with_layout(layout).with_omit_dwarf_lsda(true),
        );
        let plain = Options::new().with_layout(layout);
        let is_reached = matches!(layout, Layout::LdPrime | Layout::LdPrime27 | Layout::Zig);
        let (kept, omitted, plain) = (records(keep), records(omit), records(plain));
        assert_eq!((&kept.0, &kept.1), (&both, &vec![is_reached, true]), "{layout:?}");
        assert_eq!((&omitted.0, &omitted.1), (&one, &vec![false, true]), "{layout:?}");
        assert_eq!(plain, if layout == Layout::Small { omitted } else { kept }, "{layout:?}");
    }
}
