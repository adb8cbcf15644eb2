//! Writes a small recording as perf does for `--call-graph dwarf` on x86-64 (`perf.data`, version 2). Its processes map
//! one file, fork and run other programs. Samples have registers and stacks.

/// A bit for each recorded register in perf's numbers: the general registers and the instruction pointer.
const REGISTERS: u64 = 0xff_01ff;
/// `PERF_SAMPLE_IP`, `TID`, `TIME`, `CALLCHAIN`, `PERIOD`, `REGS_USER`, `STACK_USER`, `IDENTIFIER`.
const SAMPLE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8 | 1 << 12 | 1 << 13 | 1 << 16;
const PID: u32 = 100;
const CHILD: u32 = 101;
const ID: u64 = 7;

/// Number of samples in the recording.
pub const SAMPLES: usize = 4;

/// A file's code, as it is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    /// The file.
    pub path: &'a str,
    /// The first address, which is also the instruction pointer of samples.
    pub start: u64,
    /// Bytes of code.
    pub len: u64,
    /// The offset of the code in the file.
    pub offset: u64,
}

/// Writes the recording. `stack` has the words of each stack, from the stack pointer upwards.
pub fn written(mapped: &Mapped<'_>, stack: &[u64]) -> Vec<u8> {
    let mut records = Vec::new();
    for (time, build_id) in [(1, false), (2, true)] {
        records.extend(comm(time, PID, "program"));
        records.extend(mmap(time, PID, mapped, build_id));
    }
    records.extend(sample(3, PID, mapped.start, stack));
    // PERF_RECORD_FORK: pid, ppid, tid, ptid, time.
    let fork = [words([CHILD, PID, CHILD, PID]), 4_u64.to_le_bytes().to_vec()].concat();
    records.extend(record(7, 0, &[fork, trailer(CHILD, 4)].concat()));
    records.extend(sample(5, CHILD, mapped.start + 1, stack));
    let moved = Mapped { start: mapped.start + 16, offset: mapped.offset + 16, ..*mapped };
    records.extend(mmap(6, CHILD, &moved, false));
    records.extend(sample(7, CHILD, mapped.start + 17, stack));
    // PERF_RECORD_FINISHED_ROUND
    records.extend(record(68, 0, b""));
    records.extend(sample(8, PID, mapped.start + 2, stack));
    file(&records)
}

/// Makes the file: header, IDs, attributes of the event, records, and a section that the header lists.
fn file(records: &[u8]) -> Vec<u8> {
    let attributes = attributes();
    let (ids, entry) = (104, attributes.len() as u64 + 16);
    let (data, len) = (ids + 8 + entry, records.len() as u64);
    let mut bytes = b"PERFILE2".to_vec();
    // Sizes of header and attributes; attributes, records and old event types; HEADER_NRCPUS.
    let fields = [104, entry, ids + 8, entry, data, len, 0, 0, 1 << 7, 0, 0, 0];
    bytes.extend(fields.map(u64::to_le_bytes).as_flattened());
    bytes.extend(ID.to_le_bytes());
    bytes.extend(attributes);
    bytes.extend([ids, 8].map(u64::to_le_bytes).as_flattened());
    bytes.extend(records);
    bytes.extend([data + len + 16, 8].map(u64::to_le_bytes).as_flattened());
    bytes.extend(words([2, 2]));
    bytes
}

/// Makes a `struct perf_event_attr` of 128 bytes, for a clock's software event.
fn attributes() -> Vec<u8> {
    let mut bytes = words([1, 128]);
    // Config, period, what samples and reads contain; inherit, mmap, comm, task, sample_id_all, mmap2, comm_exec.
    let flags = 1 << 1 | 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24;
    bytes.extend([0, 250_000, SAMPLE, 4, flags].map(u64::to_le_bytes).as_flattened());
    bytes.resize(80, 0);
    bytes.extend(REGISTERS.to_le_bytes());
    bytes.extend(words([64]));
    bytes.resize(128, 0);
    bytes
}

/// Makes a record: type, `misc`, size, contents.
fn record(kind: u32, misc: u16, contents: &[u8]) -> Vec<u8> {
    let size = 8 + contents.len() as u16;
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), contents].concat()
}

/// Makes the trailer that `sample_id_all` adds to each record except samples: thread, time and ID.
fn trailer(tid: u32, time: u64) -> Vec<u8> {
    [words([tid, tid]), time.to_le_bytes().to_vec(), ID.to_le_bytes().to_vec()].concat()
}

/// Makes a `PERF_RECORD_COMM` of a thread that has started a program.
fn comm(time: u64, pid: u32, name: &str) -> Vec<u8> {
    record(3, 1 << 13, &[words([pid, pid]), padded(name), trailer(pid, time)].concat())
}

/// Makes a `PERF_RECORD_MMAP2`, with the file's build ID or its inode.
fn mmap(time: u64, pid: u32, mapped: &Mapped<'_>, build_id: bool) -> Vec<u8> {
    let place = [mapped.start, mapped.len, mapped.offset].map(u64::to_le_bytes).concat();
    let id = if build_id { [&[20, 0, 0, 0][..], &[0xab; 20]].concat() } else { vec![1; 24] };
    // PROT_READ and PROT_EXEC, MAP_PRIVATE.
    let contents = [words([pid, pid]), place, id, words([5, 2]), padded(mapped.path), trailer(pid, time)];
    record(10, if build_id { 1 << 14 } else { 0 }, &contents.concat())
}

/// Makes a `PERF_RECORD_SAMPLE` of a program in user mode.
fn sample(time: u64, pid: u32, pc: u64, stack: &[u64]) -> Vec<u8> {
    let head = [ID, pc, u64::from(pid) << 32 | u64::from(pid), time, 250_000];
    // PERF_CONTEXT_USER, and the frame's PC.
    let callchain = [2, -512_i64 as u64, pc];
    let mut registers = [0_u64; 17];
    // Frame pointer, stack pointer and instruction pointer.
    (registers[6], registers[7], registers[8]) = (0x7000_0010, 0x7000_0000, pc);
    let size = 8 * stack.len() as u64;
    let parts = [&head[..], &callchain, &[2], &registers, &[size], stack, &[size]].concat();
    record(9, 2, &parts.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
}

/// Returns a string with a terminating zero, padded to a multiple of 8 bytes.
fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
