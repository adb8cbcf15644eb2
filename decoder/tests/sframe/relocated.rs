//! Tables of relocatable objects. Their relocations decide which address a start is relative to.

use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_format::sframe::{Abi, Flags, Version};

use crate::table::{ADDRESS, Function, table};

/// The sizes of the header and of an FDE (SFrame 2 and 3, "SFrame Header", "SFrame FDE").
const HEADER: usize = 28;
const VERSIONS: [(Version, usize); 2] = [(Version::V2, 20), (Version::V3, 16)];

/// Two functions of 0x20 bytes, 0x1000 and 0x1100 bytes from the origin that the header states.
fn functions() -> [Function; 2] {
    [0x1000, 0x1100].map(|start| Function::new(ADDRESS + start, 0x20, &[&[0, 3, 8]]))
}

/// Returns the starts, and checks that lookups agree with them.
fn starts(section: &Section<'_>) -> [u64; 2] {
    let starts = [0, 1].map(|index| section.function(index).unwrap().unwrap().start());
    for start in starts {
        assert!(
            section.lookup(start).unwrap().is_some() && section.lookup(start.offset(0x1f)).unwrap().is_some()
        );
        assert_eq!(section.lookup(start.offset(0x20)).unwrap(), None);
    }
    starts.map(|start| start.0)
}

/// Without the flag, starts are relative to the section. They are relative to their fields only if every
/// relocation subtracts its field's address, as gas up to 2.44 writes it.
#[test]
fn every_start_has_to_be_relative_to_its_field() {
    for (version, size) in VERSIONS {
        let bytes = table(version, Abi::Amd64, Flags::FDE_SORTED, &functions());
        let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
        let fields = [HEADER, HEADER + size];
        let as_stored = [ADDRESS + 0x1000, ADDRESS + 0x1100];
        for relative in [&[][..], &fields[..1], &fields[1..]] {
            let relocated = section.relocated(|field| relative.contains(&field.0));
            assert_eq!(starts(&relocated), as_stored, "{version:?}: {relative:?}");
        }
        let relocated = section.relocated(|field| fields.contains(&field.0));
        assert_eq!(starts(&relocated), [ADDRESS + 0x1000 + 28, ADDRESS + 0x1100 + 28 + size as u64]);
        assert_eq!(relocated.header(), section.header());
    }
}

/// With the flag in the header, the relocations do not matter.
#[test]
fn the_flag_holds() {
    for (version, size) in VERSIONS {
        let bytes = table(version, Abi::Amd64, Flags::FDE_SORTED | Flags::START_PCREL, &functions());
        let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
        let second = HEADER + size;
        for relocated in [section.relocated(|_| false), section.relocated(|field| field.0 != second)] {
            assert_eq!(starts(&relocated), [ADDRESS + 0x1000, ADDRESS + 0x1100]);
        }
    }
}
