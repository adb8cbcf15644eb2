//! Makes the table that `ld` should make, and compares it with ld's table.

use std::error::Error;

use cfipack_decoder::sframe as decoder;
use cfipack_encoder::sframe::Layout;
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch};
use cfipack_linker::sframe::{self as linker, Field, Merger, Options, Prefer, Section};
use cfipack_linker::stubs::{Code, Shape, StubKind, Stubs, recognise};

use super::link::Link;
use super::map::Map;
use super::object::Object;
use super::output::{Header, Linked, Relocation};

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Report {
    /// The functions of the table.
    pub functions: usize,
    /// The bytes of the table.
    pub bytes: usize,
    /// Known errors in `ld`'s table, and functions that neither table has.
    pub notes: Vec<String>,
    /// The first difference, or `None` if the tables are identical.
    pub difference: Option<String>,
}

/// A section of stubs for which `ld` has made rows.
struct Plt {
    name: &'static str,
    address: Address,
    shape: Shape<'static>,
    entries: u32,
}

/// Makes the table of a link, and compares it with the output's.
pub fn compare(map: &Map, objects: &[Object], linked: &Linked<'_>) -> Result<Report, Box<dyn Error>> {
    let mut report = Report::default();
    let link = Link::new(map, objects, linked);
    let plts = plts(map, linked, &mut report.notes)?;
    let section = merge(map, &link, objects, linked, &plts, &mut report.notes)?;
    (report.functions, report.bytes) = (section.num_fdes(), section.len());
    let (theirs, address) =
        linked.section(".sframe").map_or((&[][..], Address(0)), |header| (header.data, header.address));
    if section.is_empty() {
        (report.functions, report.bytes) = (0, 0);
        // Without functions, `ld` writes nothing, or zeros where the header would be.
        let is_nothing = theirs.iter().all(|&byte| byte == 0);
        report.difference = (!is_nothing).then(|| "ld has a table, and no function of it is known".into());
        return Ok(report);
    }
    // In relocatable output of one object, the section keeps its size.
    if map.has_no_tables() && theirs.iter().all(|&byte| byte == 0) {
        (report.functions, report.bytes) = (0, 0);
        report.notes.push("ld has discarded the tables of all objects (--discard-sframe)".into());
        return Ok(report);
    }
    let mut ours = vec![0; section.len()];
    if linked.is_relocatable {
        section.write_relocatable(&mut ours)?;
    } else {
        let stubs = |key| (0..).zip(&plts).find(|(number, _)| link.key_of_stubs(*number) == key);
        section.write(&mut ours, address, |key| {
            link.address(key).or_else(|| Some(stubs(key)?.1.address)).unwrap_or(Address(0))
        })?;
        excuse_plt_got(&mut ours, theirs, &plts, &mut report.notes);
        note_hidden(&link, &ours, address, &mut report.notes)?;
        note_relocations(linked, &ours, address, &mut report.notes)?;
    }
    report.difference = bytes_differ(&link, &ours, theirs, address)
        .or_else(|| linked.is_relocatable.then(|| relocations_differ(&link, &section, linked)).flatten());
    Ok(report)
}

/// Finds the PLTs for which `ld` has made rows, by the sections in the map.
fn plts(map: &Map, linked: &Linked<'_>, notes: &mut Vec<String>) -> Result<Vec<Plt>, Box<dyn Error>> {
    let names = [".plt", ".plt.sec", ".plt.got"].into_iter();
    let sections = names.filter_map(|name| Some((name, linked.section(name)?)));
    let has_table = map.plt_tables.iter().filter(|&&bytes| bytes != 0);
    sections
        .zip(has_table)
        .map(|((name, section), _)| {
            let (shape, mut entries, empty) =
                filled(linked.arch, section).ok_or_else(|| format!("{name} has stubs of unknown code"))?;
            if empty != 0 {
                notes.push(format!("{empty} entries of {name} are zeros, with rows as if they were stubs"));
            }
            // `ld` has one row for all entries, including that of a TLS descriptor.
            let trailer = shape.trailer().size();
            if trailer != 0 {
                notes.push(format!("ld's rows of the TLS descriptor's stub in {name} are those of an entry"));
            }
            entries += trailer / shape.entry().size().max(1);
            Ok(Plt { name, address: section.address, shape: shape.with_trailer(Code::NONE), entries })
        })
        .collect()
}

/// Returns the shape of a section's stubs, how many there are, and how many of them are zeros. Zeros are stubs of
/// symbols that are undefined and need not be defined (`--unresolved-symbols`).
fn filled(arch: Arch, section: &Header<'_>) -> Option<(Shape<'static>, u32, u32)> {
    if let Some(found) = recognise(arch, section.data) {
        return Some((found.shape, found.entries, 0));
    }
    let kinds = StubKind::ALL.into_iter().filter(|kind| kind.arch() == arch).map(StubKind::shape);
    // Stubs that only jump have 8 bytes.
    let mut forms = kinds.flat_map(|shape| [shape.entry().size(), 8].map(|size| (shape, size)));
    forms.find_map(|(shape, size)| {
        let (header, entries) =
            section.data.split_at_checked((shape.header().size() + shape.gap()) as usize)?;
        let is_filled = |entry: &&[u8]| entry.iter().any(|&byte| byte != 0);
        let filled: Vec<_> = entries.chunks(size as usize).filter(is_filled).collect();
        let empty = entries.len().div_ceil(size as usize) - filled.len();
        // If all stubs are zeros, the section header has their size.
        let zeros = (header.is_empty() && filled.is_empty() && section.entry_size == u64::from(size))
            .then(|| (shape.with_entry_size(size), 0));
        let (mut found, count) = zeros.or_else(|| {
            recognise(arch, &[header, &filled.concat()].concat()).map(|found| (found.shape, found.entries))
        })?;
        // If there is only a header, it is the header of the first shape that has it.
        if filled.is_empty() && found.header() == shape.header() {
            found = shape.with_entry_size(size);
        }
        (found.entry().size() == size).then_some((found, count + empty as u32, empty as u32))
    })
}

/// Merges the table of the objects, and of PLTs after them.
fn merge<'o>(
    map: &Map,
    link: &Link<'_>,
    objects: &'o [Object],
    linked: &Linked<'_>,
    plts: &[Plt],
    notes: &mut Vec<String>,
) -> Result<Section<'o>, Box<dyn Error>> {
    let options = Options::new().with_prefer(Prefer::TableOnly);
    let mut table = options.table;
    table.layout = Layout::Gnu;
    let mut merger = Merger::new(linked.arch, options.with_table(table))?;
    let is_discarded = |object: &Object| {
        map.discarded.iter().any(|input| input.name == ".sframe" && input.file == object.file)
    };
    for object in objects.iter().filter(|object| is_discarded(object)) {
        notes.push(format!("{}: the linker script discards .sframe", object.file));
    }
    for object in objects {
        notes.extend(object.ignored.map(|why| format!("{}: ld ignores .sframe, which {why}", object.file)));
    }
    let inputs = link.order.iter().map(|&number| {
        let object = linker::Object::new();
        let table = objects[number].sframe.as_ref().filter(|_| !is_discarded(&objects[number]));
        table.map_or(object, |bytes| object.with_sframe(bytes))
    });
    let inputs: Vec<_> = inputs.collect();
    let live = |input: usize| {
        move |field| match field {
            Field::Sframe(at) => link.live(link.order[input], at.0),
            _ => None,
        }
    };
    let sum = merger.push_objects(&Threads(2), &inputs, live, |input, note| {
        notes.push(format!("{}: {note}", objects[link.order[input]].file));
    });
    // `ld` adds rows of its own only if there are others.
    if sum.functions() != 0 {
        for (number, Plt { shape, entries, .. }) in plts.iter().enumerate() {
            let stubs = Stubs::keyed(link.key_of_stubs(number), *shape).with_entries(*entries);
            merger.push_stubs(&stubs)?;
        }
    }
    Ok(merger.finish())
}

/// For `.plt.got`, whose stubs only jump, `ld` 2.47 writes a row of stubs that have pushed something: the CFA is sp +
/// 16 instead of sp + 8. It is the last byte of ld's table. We change ours accordingly, with a note.
fn excuse_plt_got(ours: &mut [u8], theirs: &[u8], plts: &[Plt], notes: &mut Vec<String>) {
    if plts.last().is_some_and(|plt| plt.name == ".plt.got")
        && theirs.len() == ours.len()
        && let (Some(our), Some(16)) = (ours.last_mut(), theirs.last())
        && *our == 8
    {
        *our = 16;
        notes.push("ld's row of .plt.got is wrong: CFA=sp+16 instead of sp+8".into());
    }
}

/// `ld` sorts functions without code after others with the same start. A binary search then finds the functions without
/// code.
fn note_hidden(
    link: &Link<'_>,
    bytes: &[u8],
    address: Address,
    notes: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let section = decoder::Section::parse(bytes, address)?;
    let functions = section.functions().collect::<Result<Vec<_>, _>>()?;
    for pair in functions.windows(2) {
        let is_hidden = pair[0].start() == pair[1].start() && pair[0].size() != 0 && pair[1].size() == 0;
        if is_hidden {
            let name = link.name_at(pair[0].start()).unwrap_or_default();
            notes.push(format!("ld's table hides {name} behind a function without code at the same address"));
        }
    }
    Ok(())
}

/// `ld --emit-relocs` numbers the relocations of fields before it sorts the fields.
fn note_relocations(
    linked: &Linked<'_>,
    bytes: &[u8],
    address: Address,
    notes: &mut Vec<String>,
) -> Result<(), Box<dyn Error>> {
    let section = decoder::Section::parse(bytes, address)?;
    let starts = section.functions().map(|function| Ok(function?.start().0));
    let starts = starts.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let is_wrong = |relocation: &&Relocation| {
        let field = relocation.field.wrapping_sub(address.0);
        // The header has 28 bytes, and the index 16 for each function.
        let start = field.checked_sub(28).and_then(|offset| starts.get(offset as usize / 16));
        start != Some(&relocation.offset)
    };
    let (count, wrong) = (linked.relocations.len(), linked.relocations.iter().filter(is_wrong).count());
    if wrong != 0 {
        notes.push(format!(
            "{wrong} of {count} relocations (--emit-relocs) lead to another function than their fields"
        ));
    }
    Ok(())
}

fn bytes_differ(link: &Link<'_>, ours: &[u8], theirs: &[u8], address: Address) -> Option<String> {
    let first = ours.iter().zip(theirs).position(|(our, their)| our != their);
    let mut text = match first {
        Some(at) => format!("byte {at:#x}: ld has {:#04x}, expected {:#04x}", theirs[at], ours[at]),
        None if ours.len() == theirs.len() => return None,
        None => format!("ld has {} bytes, expected {}", theirs.len(), ours.len()),
    };
    // The same difference in the words of `readelf --sframe`.
    let dump = |bytes| {
        let (mut text, section) = (String::new(), decoder::Section::parse(bytes, address).ok()?);
        section.dump(&mut text, ".sframe").ok()?;
        Some(text)
    };
    let (Some(our_text), Some(their_text)) = (dump(ours), dump(theirs)) else { return Some(text) };
    let mut function = "";
    for (our, their) in our_text.lines().zip(their_text.lines().chain(std::iter::repeat("nothing"))) {
        if our.trim_start().starts_with("func idx") {
            function = our.trim();
        }
        if our != their {
            text += &format!("\n  {function}\n  ld has    {}\n  expected  {}", their.trim(), our.trim());
            break;
        }
    }
    let pc = function.split_once("pc = 0x").and_then(|(_, rest)| rest.split_once(','));
    let pc = pc.and_then(|(pc, _)| u64::from_str_radix(pc, 16).ok());
    let place = pc.and_then(|pc| link.name_at(Address(pc)));
    text += &place.map_or(String::new(), |place| format!("\n  which is {place}"));
    Some(text)
}

/// Describes the first relocation that leads to another function than its entry, if any.
fn relocations_differ(link: &Link<'_>, section: &Section<'_>, linked: &Linked<'_>) -> Option<String> {
    let mut theirs = linked.relocations.iter();
    for our in section.relocations() {
        let their = theirs.next();
        let place = link.place(our.function).zip(our.kind.elf_type(linked.arch));
        let expected = place.map(|((section, offset), r_type)| Relocation {
            field: our.offset.0 as u64,
            r_type: r_type.number,
            section,
            offset: offset + our.addend,
        });
        if their != expected.as_ref() {
            let name = link.name(our.function);
            return Some(format!("relocation: ld has {their:x?}, expected {expected:x?} for {name}"));
        }
    }
    theirs.next().map(|more| format!("relocation: ld has {more:x?}, expected none"))
}
