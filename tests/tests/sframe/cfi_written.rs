//! Reads the CFI of every golden object and writes it again, as assemblers write records and instructions. The bytes
//! must be the same.

use std::collections::HashMap;

use cfipack_cfi::write::{Cie, InstructionWriter, Writer, WrittenCie};
use cfipack_cfi::{Function, Instruction, Instructions, Section};
use cfipack_container::File;
use cfipack_tests::corpora::{self, Golden};

/// In these cases an assembler writes a longer form, LLVM writes a negative offset as an unsigned number, or an offset
/// is no multiple of its factor.
const NOT_SHORTEST: [&str; 5] =
    ["x_cfa_m3", "x_cfa_m8", "x_escape_advance8", "x_escape_negative_offset", "x_escape_negative_offset_fp"];

#[test]
fn tables_of_assemblers() {
    for tool in ["gas247", "gas244", "llvm23"] {
        let mut functions = 0;
        for golden in corpora::sframe(tool) {
            let file = File::parse(&golden.object).unwrap();
            for section in file.call_frame_sections().unwrap() {
                functions += written_again(&golden, &section.cfi());
            }
        }
        assert!(functions > 100, "{tool}: only {functions} functions");
    }
}

/// Writes a section again and compares the bytes. Returns the number of functions.
fn written_again(golden: &Golden, section: &Section<'_>) -> usize {
    let mut writer = Writer::new(section.kind, section.arch, section.address);
    let mut cies: HashMap<usize, WrittenCie> = HashMap::new();
    let mut functions = 0;
    for function in cfipack_cfi::Functions::new(section) {
        let function = function.unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let cie = cies.entry(function.cie.offset.0).or_insert_with(|| {
            let instructions = assembled(golden, &function, function.cie.instructions);
            writer.cie(&cie_of(&function, instructions)).unwrap()
        });
        let instructions = assembled(golden, &function, function.instructions);
        // Only the last record of a section is padded to a pointer's size.
        writer.alignment = 1;
        writer
            .fde(cie, function.key.address(), function.size, function.lsda().unwrap(), instructions)
            .unwrap();
        writer.alignment = 4;
        functions += 1;
    }
    assert_eq!(writer.as_bytes(), section.bytes, "{}", golden.name);
    functions
}

fn cie_of<'i>(function: &Function<'i>, instructions: &'i [u8]) -> Cie<'i> {
    let cie = function.cie;
    let mut written = Cie::new(function.arch(), instructions)
        .with_augmentation(cie.augmentation)
        .with_alignment(cie.code_alignment, cie.data_alignment)
        .with_fde_encoding(cie.fde_encoding);
    (written.version, written.return_address) = (cie.version, cie.return_address);
    let personality = cie.personality.and_then(|it| Some((it.encoding, it.address?)));
    (written.personality, written.lsda_encoding) = (personality, cie.lsda_encoding);
    written
}

/// Decodes instructions and writes them again. The bytes must be the same.
fn assembled<'b>(golden: &Golden, function: &Function<'_>, bytes: &'b [u8]) -> &'b [u8] {
    let Golden { name, .. } = golden;
    if name.rsplit('/').next().is_some_and(|case| NOT_SHORTEST.contains(&case)) {
        return bytes;
    }
    let cie = function.cie;
    let mut writer = InstructionWriter::new(function.arch(), cie.code_alignment, cie.data_alignment);
    for instruction in Instructions::new(function, bytes) {
        match instruction {
            Err(_) | Ok(Instruction::SetLocation(_)) => return bytes,
            Ok(instruction) => {
                writer.put(instruction).unwrap_or_else(|error| panic!("{name}: {instruction:?}: {error}"));
            }
        }
    }
    assert_eq!(writer.as_bytes(), bytes, "{name}: {}", function.key.address());
    bytes
}
