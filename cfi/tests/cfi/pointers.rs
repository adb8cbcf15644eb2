//! Encoded pointers: Linux Standard Base 5.0, section 10.5.1, "DWARF Exception Header Encoding".

use cfipack_cfi::{Error, Function, Section, SectionKind};
use cfipack_format::{Address, Arch, SectionOffset};
use gimli::{BaseAddresses, EhFrame, LittleEndian, UnwindSection};

use crate::eh_frame;

/// The address of the section.
const ADDRESS: u64 = 0x1_0000;

/// Reads the function of an FDE in a section at `address`. The CIE takes 20 bytes.
fn function<T>(
    address: u64,
    letters: &[u8],
    data: &[u8],
    fde: &[u8],
    check: impl FnOnce(&Function<'_>, &[u8]) -> T,
) -> T {
    let mut cie = [&[1][..], letters, &[0, 1, 0x78, 16], &[data.len() as u8], data].concat();
    cie.resize(12, 0);
    let bytes = eh_frame(&cie, fde);
    let section = Section::new(SectionKind::EhFrame, &bytes, Address(address), Arch::Amd64);
    check(&cfipack_cfi::Functions::new(&section).next().unwrap().unwrap(), &bytes)
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// `DW_EH_PE_funcrel`: the LSDA is relative to the function's start. The start itself cannot be.
#[test]
fn relative_to_the_function() {
    // start, size; length of the augmentation data, LSDA
    let fde = [&words([0x1234, 0x100]), &[4, 0x77, 0, 0, 0][..]].concat();
    function(ADDRESS, b"zRL", &[0x03, 0x43], &fde, |function, _| {
        assert_eq!((function.key.address(), function.size), (Address(0x1234), 0x100));
        assert_eq!(function.lsda().unwrap(), Some(Address(0x1234 + 0x77)));
    });
}

/// `DW_EH_PE_aligned`: an address at the next multiple of 8.
#[test]
fn aligned() {
    for (address, padding) in [(ADDRESS, 4), (ADDRESS + 3, 1), (ADDRESS + 4, 0), (ADDRESS + 5, 7)] {
        // The pointer follows the CIE, and the FDE's length and CIE pointer.
        assert_eq!((address + 20 + 8 + padding as u64) % 8, 0);
        let pointer = 0x12_3456_789a_u64.to_le_bytes();
        let fde = [&vec![0xee; padding][..], &pointer, &0x100_u64.to_le_bytes(), &[0]].concat();
        function(address, b"zR", &[0x50], &fde, |function, _| {
            assert_eq!(
                (function.key.address(), function.size),
                (Address(0x12_3456_789a), 0x100),
                "{padding}"
            );
        });
    }
}

/// A start with `DW_EH_PE_indirect` lies in a cell that only a running program has, so it is refused, and so is a
/// start that is relative to itself. Formats that the LSB does not define are refused too.
#[test]
fn starts_that_no_file_has() {
    // start, size; length of the augmentation data
    let fde = [&words([0x1234, 0, 0x100, 0]), &[0][..]].concat();
    for encoding in [0x43, 0x80, 0x8b, 0x90, 0x9b, 0xab, 0xbb, 0x1d, 0x1e] {
        let cie = [1, b'z', b'R', 0, 1, 0x78, 16, 1, encoding, 0, 0, 0];
        let bytes = eh_frame(&cie, &fde);
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(ADDRESS), Arch::Amd64);
        let found: Vec<_> =
            cfipack_cfi::Functions::new(&section).map(|function| function.map(|_| ())).collect();
        assert_eq!(found, [Err(Error::PointerEncoding { offset: SectionOffset(0), encoding })]);
    }
}

/// With `DW_EH_PE_sdata4` sizes are signed too, as in gimli.
#[test]
fn a_size_of_2_gigabytes() {
    for size in [0x7fff_ffff, 0x8000_0000] {
        let fde = [&words([0x1000, size]), &[0][..]].concat();
        function(ADDRESS, b"zR", &[0x1b], &fde, |function, bytes| {
            let theirs = EhFrame::new(bytes, LittleEndian);
            let bases = BaseAddresses::default().set_eh_frame(ADDRESS);
            let mut entries = theirs.entries(&bases);
            let fde = loop {
                if let gimli::CieOrFde::Fde(fde) = entries.next().unwrap().unwrap() {
                    break fde.parse(EhFrame::cie_from_offset).unwrap();
                }
            };
            assert_eq!((function.key.0, function.size), (fde.initial_address(), fde.len()));
        });
    }
}

/// Augmentation `L`: a PC-relative pointer, direct or indirect. A stored 0 always means no LSDA.
#[test]
fn language_specific_data() {
    let lsda = |encoding, value: u32| {
        let fde = [&words([0x1000, 0x100]), &[4][..], &value.to_le_bytes()].concat();
        function(ADDRESS, b"zRL", &[0x1b, encoding], &fde, |function, bytes| {
            (
                function.lsda().unwrap(),
                function.cie.lsda_encoding.is_indirect(),
                ADDRESS + bytes.len() as u64 - 4,
            )
        })
    };
    for (encoding, indirect) in [(0x1b, false), (0x9b, true)] {
        let (found, is_indirect, field) = lsda(encoding, 0x40);
        assert_eq!((found, is_indirect), (Some(Address(field + 0x40)), indirect));
        assert_eq!(lsda(encoding, 0).0, None);
    }
    assert_eq!(lsda(0xff, 0x40).0, None, "DW_EH_PE_omit");
}
