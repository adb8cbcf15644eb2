//! Compares lookups through an index, in place, and by trying every row. The tables are random.

use cfipack_decoder::sframe::{self as decoder, Index, Section};
use cfipack_format::sframe::{Abi, FdeInfo, Flags, FreInfo, FreType, Version, WordSize};
use cfipack_format::{Address, Endian, Row};
use cfipack_testkit::random::Random;

use crate::table::{ADDRESS, Function, table};

/// Makes random tables and their parts.
trait Tables {
    fn one_in(&mut self, number: u64) -> bool;
    /// Returns an FRE of a DEFAULT or a FLEX function, or an outermost frame.
    fn fre(&mut self, start: u64, fre_type: FreType, flex: bool, abi: Abi) -> Vec<u8>;
    fn function(&mut self, start: u64, version: Version, abi: Abi) -> Function;
    /// Returns functions in order of their start: some with gaps, some with the same start, many close
    /// together. Only functions with the same start overlap.
    fn functions(&mut self, version: Version, abi: Abi) -> Vec<Function>;
    fn some_of(&mut self, pcs: Vec<Address>) -> Vec<Address>;
}

impl Tables for Random {
    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }

    fn fre(&mut self, start: u64, fre_type: FreType, flex: bool, abi: Abi) -> Vec<u8> {
        let endian = abi.arch().endian();
        let bytes = |value: i64, width| match endian {
            Endian::Little => value.to_le_bytes()[..width].to_vec(),
            Endian::Big => value.to_be_bytes()[8 - width..].to_vec(),
        };
        let size = self.pick(&[WordSize::B1, WordSize::B1, WordSize::B2, WordSize::B4]);
        let words: Vec<i64> = match (flex, self.one_in(16)) {
            (_, true) => vec![],
            (true, _) => vec![self.pick(&[0x19, 0x1b]), self.below(100) as i64 - 50],
            (false, _) => {
                let most = if abi == Abi::Amd64 { 2 } else { 3 };
                (0..=self.below(most)).map(|_| self.below(250) as i64 - 125).collect()
            }
        };
        let info = match words.len() {
            0 => FreInfo::OUTERMOST,
            count => FreInfo::new(!flex && self.one_in(2), count as u8, size, false),
        };
        let words = words.iter().flat_map(|&word| bytes(word, size.width()));
        [bytes(start as i64, fre_type.width()), vec![info.0]].into_iter().flatten().chain(words).collect()
    }

    fn function(&mut self, start: u64, version: Version, abi: Abi) -> Function {
        let most = self.pick(&[1, 20, 200, 5000, 300_000]);
        let size = if self.one_in(10) { 0 } else { self.below(most) };
        // Some functions are PC-mask functions. Version 1 does not store their repetition size.
        let rep_size = if version != Version::V1 && self.one_in(12) { 1 + self.below(40) } else { 0 };
        let last = if rep_size != 0 { rep_size } else { size };
        let flex = version == Version::V3 && self.one_in(8);
        let fre_type = FreType::for_start(last as u32).max(self.pick(&[FreType::Addr1, FreType::Addr2]));
        let most = self.pick(&[1, 4, 20, 400]);
        // Some starts are equal, and some are at the very end.
        let mut starts: Vec<_> = (0..self.below(most)).map(|_| self.below(last + 1)).collect();
        starts.sort_unstable();
        if !starts.is_empty() && !self.one_in(8) {
            starts[0] = 0;
        }
        let fres = starts.iter().map(|&start| self.fre(start, fre_type, flex, abi)).collect();
        let pc_mask = if rep_size != 0 { FdeInfo::PC_MASK.bits() } else { 0 };
        let signal = if self.one_in(6) { FdeInfo::SIGNAL.bits() } else { 0 };
        let info = fre_type as u8 | pc_mask | signal;
        Function { start, size: size as u32, info, info2: flex.into(), rep_size: rep_size as u8, fres }
    }

    fn functions(&mut self, version: Version, abi: Abi) -> Vec<Function> {
        let (mut start, mut end) = (ADDRESS + 0x10_0000, 0);
        let mut functions = Vec::new();
        for _ in 0..self.pick(&[1, 5, 150]) {
            if self.one_in(40) {
                start = end.max(start) + self.below(0x100_0000);
            }
            if self.one_in(40) {
                // These functions lie in one bucket.
                start = end.max(start);
                let row = self.fre(0, FreType::Addr1, false, abi);
                functions.extend((0..60).map(|i| Function::new(start + 2 * i, 1, &[&row])));
                start += 120;
            }
            functions.push(self.function(start, version, abi));
            end = end.max(start + u64::from(functions[functions.len() - 1].size));
            if !self.one_in(10) {
                start = end + self.pick(&[0, 0, 1, 15, 1000]);
            }
        }
        functions
    }

    fn some_of(&mut self, pcs: Vec<Address>) -> Vec<Address> {
        (0..pcs.len().min(500)).map(|_| self.pick(&pcs)).collect()
    }
}

/// Returns the expected row and whether the frame is a signal frame, by trying all functions and all rows.
fn expected(functions: &[decoder::Function<'_>], pc: Address) -> Option<(Row, bool)> {
    let has =
        |f: &&decoder::Function<'_>| pc >= f.start() && pc.distance_from(f.start()) < i64::from(f.size());
    let function = functions.iter().filter(has).max_by_key(|f| (f.start(), f.index()))?;
    let offset = pc.distance_from(function.start()) as u32;
    let offset = if function.is_pc_mask() { offset % u32::from(function.rep_size()) } else { offset };
    let rows = function.rows().map(|row| row.expect("a sound row"));
    let row = rows.take_while(|row| row.start.0 <= offset).last()?;
    Some((row, function.is_signal_frame()))
}

/// Returns the starts and ends of rows and functions, and the PCs next to them.
fn pcs(functions: &[decoder::Function<'_>]) -> Vec<Address> {
    let mut pcs = Vec::new();
    for function in functions {
        let starts = function.fres().flatten().map(|fre| fre.start.0);
        for offset in starts.chain([0, function.size() / 2, function.size()]) {
            pcs.extend([-1, 0, 1].map(|around| function.start().offset(i64::from(offset) + around)));
        }
    }
    pcs
}

const VERSIONS: [Version; 3] = [Version::V1, Version::V2, Version::V3];
const ABIS: [Abi; 3] = [Abi::Amd64, Abi::Aarch64Be, Abi::S390x];

#[test]
fn random_tables() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (version, abi) = (random.pick(&VERSIONS), random.pick(&ABIS));
        let mut functions = random.functions(version, abi);
        let mut flags = Flags::FDE_SORTED;
        if random.one_in(3) {
            flags = Flags::empty();
            functions.sort_by_key(|function| std::cmp::Reverse(function.start));
        }
        if random.one_in(2) {
            flags |= Flags::START_PCREL & version.known_flags();
        }
        let bytes = table(version, abi, flags, &functions);
        let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
        let mut memory = vec![u32::MAX; Index::len_for(&section)];
        let index = Index::build(&section, &mut memory).unwrap();
        let all: Vec<_> = section.functions().map(Result::unwrap).collect();
        for pc in random.some_of(pcs(&all)) {
            let context = format!("seed {seed}: {version:?} {abi:?} {flags:?} {pc:?}");
            let (in_place, indexed) = (section.lookup_frame(pc), index.lookup_frame(pc));
            assert_eq!(index.lookup(pc), indexed.map(|frame| frame.map(|frame| frame.row)), "{context}");
            assert_eq!(section.lookup(pc), in_place.map(|frame| frame.map(|frame| frame.row)), "{context}");
            if abi == Abi::S390x && version == Version::V2 {
                // On s390x, version 2 has words that are registers, and some register numbers are invalid.
                assert_eq!(in_place, indexed, "{context}");
                continue;
            }
            let answer = indexed.map(|found| found.map(|frame| (frame.row, frame.is_signal_frame)));
            assert_eq!(answer, Ok(expected(&all, pc)), "{context}");
            assert_eq!(in_place, indexed, "{context}");
            let places = [index.find(pc), section.find(pc)].map(|f| f.unwrap().map(|f| f.index()));
            assert_eq!(places[0], places[1], "{context}");
        }
    }
}

#[test]
fn functions_further_apart_than_an_index_counts() {
    // Some starts do not fit into 32 bits, and their low 32 bits are close to other starts.
    let starts = [0x1000, 0x9000_0000, 0xffff_f000, 0x1_0000_0ff0, 0x1_0000_1000, 0x5_0000_1000u64];
    let row = |i: usize| vec![0, 0x03, i as u8 + 1];
    let functions: Vec<_> = starts
        .iter()
        .enumerate()
        .map(|(i, &start)| Function::new(ADDRESS + start, 0x20, &[&row(i)]))
        .collect();
    for flags in [Flags::FDE_SORTED, Flags::empty()] {
        let bytes = table(Version::V3, Abi::Amd64, flags, &functions);
        let section = Section::parse(&bytes, Address(ADDRESS)).unwrap();
        let mut memory = vec![u32::MAX; Index::len_for(&section)];
        let index = Index::build(&section, &mut memory).unwrap();
        let apart = [0x1000, 0x1_0000_0000, 0x5_0000_0fff].map(|start| Address(ADDRESS + start + 0x20));
        let all: Vec<_> = section.functions().map(Result::unwrap).collect();
        for pc in pcs(&all).into_iter().chain(apart) {
            let found = index.lookup_frame(pc).unwrap().map(|frame| (frame.row, frame.is_signal_frame));
            assert_eq!(found, expected(&all, pc), "{pc:?}");
        }
    }
}
