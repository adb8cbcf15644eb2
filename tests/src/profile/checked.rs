//! Checks of what linux-perf-data takes on trust: sizes in a recording that it allocates, or calculates with.

use std::error::Error;
use std::ops::Range;

use linux_perf_data::linux_perf_event_reader::{RawEventRecord, RecordType, SampleFormat};

/// Bytes of the header of a recording, and of a record.
const HEADER: usize = 104;
const RECORD: usize = 8;

/// Prepares a recording to be read: its events' attributes, IDs and records must lie in the file.
///
/// The header lists more, such as build IDs and the names of the machine and the events, in sections with sizes of their
/// own; a profiler needs none of them, and they are removed from the header. IDs then are found where each attribute
/// names them, as in the first recordings.
pub fn prepare(recording: &mut [u8]) -> Result<(), Box<dyn Error>> {
    if recording.len() < HEADER || !recording.starts_with(b"PERFILE2") {
        return Err("not a recording of perf for a little-endian machine, or one for a pipe".into());
    }
    let attribute_size = word(recording, 16);
    let attributes = range(recording, 24).ok_or("offset 0x18: the attributes leave the file")?;
    let records = range(recording, 40).ok_or("offset 0x28: the records leave the file")?;
    // 64 bytes of attributes at least, and where the IDs are.
    if !(64 + 16..=4096).contains(&attribute_size) {
        return Err(format!("offset 0x10: {attribute_size} bytes of attributes for an event").into());
    }
    // The IDs of an event: two fields at the end of its attributes.
    let mut room = recording.len();
    let events = attributes.len() / attribute_size as usize;
    for event in 1..=events {
        let ids = attributes.start + event * attribute_size as usize - 16;
        // The attributes state their size, and the IDs are looked for after them.
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

/// Refuses bytes after a record that its header does not count, as a trace of the processor has them.
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
        // A file's build ID, instead of its inode.
        RecordType::MMAP2 if record.misc & MMAP_BUILD_ID != 0 => body.get(32).is_none_or(|&len| len <= 20),
        // Where the callchain is depends on how many there are.
        RecordType::SAMPLE if record.parse_info.sample_format.contains(SampleFormat::READ) => {
            return Err("samples with counts of events (`-e '{...}:S'`) are not supported".into());
        }
        RecordType::SAMPLE => callchain_at(record).is_none_or(|at| {
            let rest = body.get(at..).unwrap_or_default();
            rest.first_chunk().is_none_or(|&len| u64::from_le_bytes(len) <= (rest.len() / 8) as u64)
        }),
        _ => true,
    };
    match is_sound {
        true => Ok(()),
        false => Err(format!("{:?}: a length beyond the record", record.record_type).into()),
    }
}

/// Where the length of a sample's callchain lies, which follows fields of 8 bytes.
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

/// The range of the file that an offset and a size give.
fn range(recording: &[u8], at: usize) -> Option<Range<usize>> {
    let start = usize::try_from(word(recording, at)).ok()?;
    let end = start.checked_add(usize::try_from(word(recording, at + 8)).ok()?)?;
    (end <= recording.len()).then_some(start..end)
}

/// A number of 8 bytes; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&field| u64::from_le_bytes(field))
}
