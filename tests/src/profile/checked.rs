//! Checks sizes in a recording that linux-perf-data allocates, or calculates with, unchecked.

use std::error::Error;
use std::ops::Range;

use linux_perf_data::linux_perf_event_reader::{RawEventRecord, RecordType, SampleFormat};

/// Bytes of a recording's header, and of a record's header.
const HEADER: usize = 104;
const RECORD: usize = 8;

/// Prepares a recording for reading: attributes, IDs and records of its events must be inside the file.
///
/// The header lists more sections with their own sizes, such as build IDs and the names of machine and events. A
/// profiler does not need them, so they are removed from the header. IDs are then found through the attributes, as in
/// the first version of the format.
pub fn prepare(recording: &mut [u8]) -> Result<(), Box<dyn Error>> {
    if recording.len() < HEADER || !recording.starts_with(b"PERFILE2") {
        return Err("not a recording of perf for a little-endian machine, or one for a pipe".into());
    }
    let attribute_size = word(recording, 16);
    let attributes = range(recording, 24).ok_or("offset 0x18: the attributes leave the file")?;
    let records = range(recording, 40).ok_or("offset 0x28: the records leave the file")?;
    // An entry has at least 64 bytes of attributes, and the place of the IDs.
    if !(64 + 16..=4096).contains(&attribute_size) {
        return Err(format!("offset 0x10: {attribute_size} bytes of attributes for an event").into());
    }
    // Two fields at the end of an event's attributes give the place of its IDs.
    let mut room = recording.len();
    let events = attributes.len() / attribute_size as usize;
    for event in 1..=events {
        let ids = attributes.start + event * attribute_size as usize - 16;
        // Attributes state their size. The place of the IDs is expected after them.
        let start = ids + 16 - attribute_size as usize;
        let size = word(recording, start) >> 32;
        if size != attribute_size - 16 {
            return Err(format!(
                "offset {:#x}: attributes of {size} bytes among those of {attribute_size}",
                start + 4
            )
            .into());
        }
        let left = range(recording, ids).and_then(|range| room.checked_sub(range.len()));
        room = left.ok_or_else(|| format!("offset {ids:#x}: an event's IDs leave the file"))?;
    }
    check_records(&recording[records.clone()]).map_err(|(offset, error)| {
        let offset = records.start + offset;
        format!("offset {offset:#x}: {error}")
    })?;
    recording[16..24].copy_from_slice(&(attribute_size - 16).to_le_bytes());
    recording.copy_within(24..40, 56);
    recording[72..HEADER].fill(0);
    Ok(())
}

/// Refuses a record after which there are bytes that its header does not count, such as a processor trace.
fn check_records(records: &[u8]) -> Result<(), (usize, String)> {
    const AUXTRACE: u32 = 71;
    let mut at = 0;
    while let Some(header) = records.get(at..).and_then(|rest| rest.first_chunk::<RECORD>()) {
        let [kind @ .., _, _, low, high] = *header;
        let size = usize::from(u16::from_le_bytes([low, high]));
        if u32::from_le_bytes(kind) == AUXTRACE || size < RECORD {
            return Err((at, format!("a record of type {} and {size} bytes", u32::from_le_bytes(kind))));
        }
        at += size;
    }
    Ok(())
}

/// Checks lengths in a record.
pub fn check(record: &RawEventRecord<'_>) -> Result<(), Box<dyn Error>> {
    const MMAP_BUILD_ID: u16 = 1 << 14;
    let body = record.data.as_slice();
    let is_sound = match record.record_type {
        // The record has a file's build ID instead of its inode.
        RecordType::MMAP2 if record.misc & MMAP_BUILD_ID != 0 => body.get(32).is_none_or(|&len| len <= 20),
        // The place of the callchain depends on how many values there are.
        RecordType::SAMPLE if record.parse_info.sample_format.contains(SampleFormat::READ) => {
            return Err("samples with counts of events (`-e '{...}:S'`) are not supported".into());
        }
        RecordType::SAMPLE => callchain_at(record).is_none_or(|at| {
            let rest = body.get(at..).unwrap_or_default();
            rest.first_chunk().is_none_or(|&len| u64::from_le_bytes(len) <= (rest.len() / 8) as u64)
        }),
        _ => true,
    };
    if !is_sound {
        return Err(format!("{:?}: a length beyond the record", record.record_type).into());
    }
    Ok(())
}

/// Returns where the length of a sample's callchain is. Fields of 8 bytes precede it.
fn callchain_at(record: &RawEventRecord<'_>) -> Option<usize> {
    let before = SampleFormat::IDENTIFIER
        | SampleFormat::IP
        | SampleFormat::TID
        | SampleFormat::TIME
        | SampleFormat::ADDR
        | SampleFormat::ID
        | SampleFormat::STREAM_ID
        | SampleFormat::CPU
        | SampleFormat::PERIOD;
    let format = record.parse_info.sample_format;
    let fields = format.intersection(before).bits().count_ones() as usize;
    format.contains(SampleFormat::CALLCHAIN).then_some(8 * fields)
}

/// Returns a range of the file by offset and size, if it is inside.
fn range(recording: &[u8], at: usize) -> Option<Range<usize>> {
    let start = usize::try_from(word(recording, at)).ok()?;
    let end = start.checked_add(usize::try_from(word(recording, at + 8)).ok()?)?;
    (end <= recording.len()).then_some(start..end)
}

/// Returns a number of 8 bytes, or 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&field| u64::from_le_bytes(field))
}
