//! Rebuilds tables of ld64.lld 23 from the objects that it linked.

use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_tests::corpora;
use cfipack_tests::linked::Linked;
use cfipack_tests::unwind_table::{Table, lay_out};

fn cases() -> impl Iterator<Item = (String, Linked)> {
    corpora::compact_unwind_links().into_iter().map(|link| {
        let linked = Linked::new(&link.object, &link.image);
        (link.name, linked)
    })
}

fn in_layout(linked: &Linked, layout: Layout) -> Vec<u8> {
    let options = Options::new().with_layout(layout).with_keep_dwarf_lsda(true);
    lay_out(linked.arch, options, &linked.entries, None, |number| linked.slots[number as usize - 1])
}

/// Returns whether lld keeps the number of a personality that the table does not have.
fn has_stray_personality(name: &str) -> bool {
    name.ends_with("9_persbit_in_obj")
}

#[test]
fn layout_lld_is_what_lld_links() {
    let mut wrong = Vec::new();
    for (name, linked) in cases() {
        let ours = in_layout(&linked, Layout::Lld);
        if ours != linked.table.clone().unwrap_or_default() {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{} differ: {wrong:?}", wrong.len());
}

#[test]
fn entries_of_a_table_make_the_table() {
    for (name, linked) in cases() {
        let Some(theirs) = &linked.table else { continue };
        if has_stray_personality(&name) {
            continue;
        }
        assert_eq!(&Table::read(theirs).lay_out(linked.arch, Layout::Lld), theirs, "{name}");
    }
}

#[test]
fn layout_small_is_at_most_65_percent_of_lld() {
    let (mut theirs, mut ours) = (0, 0);
    for (name, linked) in cases() {
        let (lld, small) = (in_layout(&linked, Layout::Lld), in_layout(&linked, Layout::Small));
        assert!(small.len() <= lld.len(), "{name}: {} bytes, lld {}", small.len(), lld.len());
        theirs += lld.len();
        ours += small.len();
        if !small.is_empty() && !has_stray_personality(&name) {
            let (a, b) = (Table::read(&lld), Table::read(&small));
            assert_eq!(a.entries, b.entries, "{name}");
            assert_eq!((a.end, a.slots), (b.end, b.slots), "{name}");
        }
    }
    println!("small {ours} bytes, lld {theirs}: {:.1} %", ours as f64 / theirs as f64 * 100.0);
    assert!(ours * 100 <= theirs * 65);
}
