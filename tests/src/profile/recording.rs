//! Reads what `perf record --call-graph dwarf` writes: samples with registers and the top of the stack, and the files
//! that were mapped at the time.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::rc::Rc;

use linux_perf_data::linux_perf_event_reader::{CpuMode, EventRecord, Mmap2Record, SampleRecord};
use linux_perf_data::{PerfFileReader, PerfFileRecord};

use super::checked;

/// perf's numbers of the registers that are 0 to 15 in DWARF on x86-64, and of the instruction pointer.
const REGISTERS: [u64; 16] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23];
const INSTRUCTION_POINTER: u64 = 8;

/// The most mappings, for all processes and times. Without a limit, a recording could ask for the square of its size.
const MAPPINGS: usize = 1 << 22;

/// The DWARF number of the frame pointer.
pub const FP: usize = 6;
/// The DWARF number of the stack pointer.
pub const SP: usize = 7;

/// A recording.
#[derive(Default)]
pub struct Recording {
    /// Samples, in the order in which they were taken.
    pub samples: Vec<Sample>,
    /// The mappings of each process at each time.
    pub spaces: Vec<Space>,
    /// Number of samples of kernel threads, which have no user stack.
    pub without_stack: usize,
    /// Number of mappings in all spaces.
    mappings: usize,
}

/// A moment in a thread's life.
pub struct Sample {
    /// The index in [`Recording::spaces`].
    pub space: usize,
    /// The thread's name.
    pub command: Rc<str>,
    /// Whether the kernel was interrupted. The registers are those with which the thread entered the kernel.
    pub in_kernel: bool,
    /// The instruction pointer.
    pub pc: u64,
    /// Registers by DWARF number.
    pub registers: [u64; 16],
    /// The stack from the stack pointer upwards, as far as perf copied it.
    pub stack: Vec<u8>,
}

/// The executable mappings of a process, ascending and without overlaps.
#[derive(Clone, Default)]
pub struct Space {
    /// The mappings.
    pub mappings: Vec<Mapping>,
}

/// A mapped part of a file.
#[derive(Clone, PartialEq)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// The offset of `start` in the file.
    pub offset: u64,
    /// The path as the kernel gives it. `[vdso]` and `//anon` (memory without a file) occur too.
    pub path: Rc<str>,
}

impl Sample {
    /// Returns the pointer at an address of the stack, if it was recorded.
    #[inline]
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.wrapping_sub(self.registers[SP])).ok()?;
        self.stack.get(at..)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
    }
}

impl Recording {
    /// Reads the file of a recording.
    pub fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        Self::parse(fs::read(path)?)
    }

    /// Reads the bytes of a recording.
    pub fn parse(mut bytes: Vec<u8>) -> Result<Self, Box<dyn Error>> {
        checked::prepare(&mut bytes)?;
        let file = PerfFileReader::parse_file(Cursor::new(bytes))?;
        let PerfFileReader { mut perf_file, mut record_iter } = file;
        let mut recording = Self::default();
        let mut processes = Processes::default();
        while let Some(record) = record_iter.next_record(&mut perf_file)? {
            if let PerfFileRecord::EventRecord { record, .. } = record {
                checked::check(&record)?;
                recording.add(record.parse()?, &mut processes);
            }
            if recording.mappings > MAPPINGS {
                return Err(format!("more than {MAPPINGS} mappings").into());
            }
        }
        Ok(recording)
    }

    /// Returns the paths of everything that was mapped.
    pub fn paths(&self) -> BTreeSet<Rc<str>> {
        self.spaces.iter().flat_map(|space| &space.mappings).map(|mapping| mapping.path.clone()).collect()
    }

    fn add(&mut self, record: EventRecord<'_>, processes: &mut Processes) {
        match record {
            EventRecord::Comm(record) => {
                let name = String::from_utf8_lossy(&record.name.as_slice()).into();
                processes.commands.insert(record.tid, name);
                if record.is_execve {
                    self.enter(Space::default(), record.pid, processes);
                }
            }
            EventRecord::Fork(record) => {
                if let Some(command) = processes.commands.get(&record.ptid).cloned() {
                    processes.commands.insert(record.tid, command);
                }
                if record.pid != record.ppid {
                    let parent = self.space_of(record.ppid, processes);
                    self.enter(self.spaces[parent].clone(), record.pid, processes);
                }
            }
            EventRecord::Mmap2(record) => self.map(&record, processes),
            EventRecord::Sample(record) => match self.sample(&record, processes) {
                Some(sample) => self.samples.push(sample),
                None => self.without_stack += 1,
            },
            _ => {}
        }
    }

    /// Returns the current space of a process.
    fn space_of(&mut self, pid: i32, processes: &mut Processes) -> usize {
        *processes.spaces.entry(pid).or_insert_with(|| {
            self.spaces.push(Space::default());
            self.spaces.len() - 1
        })
    }

    fn enter(&mut self, space: Space, pid: i32, processes: &mut Processes) {
        self.mappings += space.mappings.len();
        processes.spaces.insert(pid, self.spaces.len());
        self.spaces.push(space);
    }

    fn map(&mut self, record: &Mmap2Record<'_>, processes: &mut Processes) {
        const EXECUTE: u32 = 4;
        if record.protection & EXECUTE == 0 {
            return;
        }
        let path = record.path.as_slice();
        let mapping = Mapping {
            start: record.address,
            end: record.address.saturating_add(record.length),
            offset: record.page_offset,
            path: String::from_utf8_lossy(&path).into(),
        };
        let current = self.space_of(record.pid, processes);
        let overlapped = self.spaces[current].overlapped(&mapping);
        if overlapped == [mapping.clone()] || mapping.start == mapping.end {
            return;
        }
        // Earlier samples keep the mappings of their time.
        if !overlapped.is_empty() {
            self.enter(self.spaces[current].without(&mapping), record.pid, processes);
        }
        let current = self.space_of(record.pid, processes);
        self.spaces[current].insert(mapping);
        self.mappings += 1;
    }

    /// Returns `None` if the thread has no user registers.
    fn sample(&mut self, record: &SampleRecord<'_>, processes: &mut Processes) -> Option<Sample> {
        let registers = record.user_regs.as_ref()?;
        let (stack, len) = record.user_stack.as_ref()?;
        let mut values = [0; 16];
        for (value, number) in values.iter_mut().zip(REGISTERS) {
            *value = registers.get(number)?;
        }
        let mut stack = stack.as_slice().into_owned();
        stack.truncate(usize::try_from(*len).ok()?);
        let command = processes.commands.get(&record.tid?).cloned();
        Some(Sample {
            space: self.space_of(record.pid?, processes),
            command: command.unwrap_or_else(|| "?".into()),
            in_kernel: record.cpu_mode == CpuMode::Kernel,
            pc: registers.get(INSTRUCTION_POINTER)?,
            registers: values,
            stack,
        })
    }
}

/// The processes at one time of the recording.
#[derive(Default)]
struct Processes {
    /// Space of each process.
    spaces: HashMap<i32, usize>,
    /// Name of each thread.
    commands: HashMap<i32, Rc<str>>,
}

impl Space {
    /// Returns the mappings that overlap with a new one.
    fn overlapped(&self, new: &Mapping) -> &[Mapping] {
        let first = self.mappings.partition_point(|other| other.end <= new.start);
        let end = self.mappings.partition_point(|other| other.start < new.end);
        self.mappings.get(first..end).unwrap_or_default()
    }

    /// Removes what a new mapping covers. If an old mapping extends beyond it, that part stays.
    fn without(&self, new: &Mapping) -> Self {
        let mut mappings = Vec::new();
        for old in &self.mappings {
            let before = Mapping { end: old.end.min(new.start), ..old.clone() };
            let start = old.start.max(new.end);
            let after = Mapping { start, offset: old.offset.wrapping_add(start - old.start), ..old.clone() };
            mappings.extend([before, after].into_iter().filter(|rest| rest.start < rest.end));
        }
        mappings.dedup();
        Self { mappings }
    }

    fn insert(&mut self, mapping: Mapping) {
        let place = self.mappings.partition_point(|other| other.start < mapping.start);
        self.mappings.insert(place, mapping);
    }
}
