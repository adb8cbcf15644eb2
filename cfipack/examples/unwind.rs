//! Walks the stack of a process with `.sframe` tables, and prints the stack.
//!
//! ```sh
//! cargo run --example unwind            # starts itself as a child that waits, and prints the child's stack
//! cargo run --example unwind -- PID     # a process of this user
//! ```
//!
//! It uses the `.sframe` section of a mapped file. For a file without this section, it makes a table from the
//! call frame information. Linux on x86-64.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("--wait") => child::outer(),
        Some(pid) => profiler::print_stack(pid.parse()?)?,
        None => {
            let child = child::start()?;
            let printed = profiler::print_stack(child.id());
            child::end(child)?;
            printed?;
        }
    }
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    eprintln!("this example needs Linux on x86-64");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod child {
    //! A process with a stack to look at.

    use std::hint::black_box;
    use std::io::{self, Read as _};
    use std::process::{Child, Command, Stdio};

    /// Starts this program with `--wait`, and returns when it has reached [`inner`].
    pub fn start() -> io::Result<Child> {
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).arg("--wait").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdout.as_mut().expect("a pipe").read_exact(&mut [0])?;
        Ok(child)
    }

    /// Closes the child's standard input, which ends it.
    pub fn end(mut child: Child) -> io::Result<()> {
        drop(child.stdin.take());
        child.wait().map(drop)
    }

    #[inline(never)]
    pub fn outer() {
        black_box(middle(black_box(1)));
    }

    #[inline(never)]
    fn middle(depth: usize) -> usize {
        depth + inner(black_box(depth))
    }

    #[inline(never)]
    fn inner(depth: usize) -> usize {
        println!("ready");
        depth + io::stdin().read(&mut [0]).unwrap_or_default()
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod profiler {
    //! A small profiler.

    use std::collections::HashMap;
    use std::error::Error;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt as _;

    use cfipack::cfi::Functions;
    use cfipack::container;
    use cfipack::decoder::sframe::{Registers, Section, StepError, step};
    use cfipack::encoder::sframe::{Builder, Options};
    use cfipack::format::{Address, Arch};
    use nix::sys::{ptrace, wait};
    use nix::unistd::Pid;

    /// Longer stacks are cut.
    const DEPTH: usize = 100;

    /// A mapped file that contains code.
    struct Mapping {
        start: u64,
        end: u64,
        /// The offset in the file of `start`.
        offset: u64,
        path: String,
    }

    /// The data that a profiler keeps for a file.
    struct Image {
        bytes: Vec<u8>,
        /// A `.sframe` section, and its place among the file's addresses.
        table: (Vec<u8>, Address),
    }

    /// Stops a process, prints its stack, and lets it go on.
    pub fn print_stack(pid: u32) -> Result<(), Box<dyn Error>> {
        let process = Pid::from_raw(pid.try_into()?);
        ptrace::attach(process)?;
        wait::waitpid(process, None)?;
        let printed = walk(process);
        ptrace::detach(process, None)?;
        printed
    }

    fn walk(process: Pid) -> Result<(), Box<dyn Error>> {
        let mappings = mappings(&fs::read_to_string(format!("/proc/{process}/maps"))?);
        let stack = File::open(format!("/proc/{process}/mem"))?;
        let memory = |address: Address| {
            let mut word = [0; 8];
            stack.read_exact_at(&mut word, address.0).ok().map(|()| u64::from_le_bytes(word))
        };
        let mut images = HashMap::new();

        let stopped = ptrace::getregs(process)?;
        let mut registers = Registers { sp: stopped.rsp, fp: Some(stopped.rbp), lr: None, others: &[] };
        let (mut pc, mut is_exact) = (stopped.rip, true);
        for depth in 0..DEPTH {
            // A return address is the instruction after the call, which may belong to another function.
            let at = if is_exact { pc } else { pc - 1 };
            let Some(mapping) = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&at))
            else {
                println!("#{depth:<2} {pc:#018x} in no file");
                break;
            };
            if !images.contains_key(&mapping.path) {
                images.insert(mapping.path.clone(), Image::read(&mapping.path)?);
            }
            let image = &images[&mapping.path];
            let file = container::File::parse(&image.bytes)?;
            let in_file = Address(
                image.address_of(at - mapping.start + mapping.offset).ok_or("no segment holds the code")?,
            );
            let function = file.symbols()?.lookup(in_file).map_or("?".into(), |symbol| symbol.name);
            println!("#{depth:<2} {pc:#018x} {function} in {}", mapping.path);

            let section = Section::parse(&image.table.0, image.table.1)?;
            let Some(frame) = section.lookup_frame(in_file)? else {
                println!("    the table has no row for it");
                break;
            };
            match step(Arch::Amd64, &frame.row, &registers, memory) {
                Ok(caller) => {
                    (pc, is_exact) = (caller.pc.0, frame.is_signal_frame);
                    registers = caller.registers();
                }
                Err(StepError::Outermost) => break,
                Err(error) => {
                    println!("    {error}");
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the mappings of code, from lines of the kernel: `START-END FLAGS OFFSET DEVICE INODE PATH`.
    fn mappings(maps: &str) -> Vec<Mapping> {
        maps.lines().filter_map(mapping).collect()
    }

    fn mapping(line: &str) -> Option<Mapping> {
        let mut fields = line.split_ascii_whitespace();
        let (range, flags, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let path = fields.nth(2).filter(|path| path.starts_with('/'))?.to_string();
        let (start, end) = range.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        flags.contains('x').then_some(Mapping { start, end, offset, path })
    }

    impl Image {
        fn read(path: &str) -> Result<Self, Box<dyn Error>> {
            let bytes = fs::read(path)?;
            let table = table_of(&container::File::parse(&bytes)?)?;
            Ok(Self { bytes, table })
        }

        /// Returns the address that the file gives to the byte at an offset, by the loaded segment there.
        fn address_of(&self, offset: u64) -> Option<u64> {
            const LOAD: u32 = 1;
            // The ELF header has the offset, the size and the number of the program headers.
            let headers = self.number::<8>(32)? as usize;
            let (size, count) = (self.number::<2>(54)? as usize, self.number::<2>(56)? as usize);
            (0..count).map(|index| headers + index * size).find_map(|header| {
                let [start, address, length] = [8, 16, 32].map(|field| self.number::<8>(header + field));
                let within = offset.checked_sub(start?).filter(|within| Some(*within) < length)?;
                (self.number::<4>(header)? == u64::from(LOAD)).then_some(address? + within)
            })
        }

        /// Returns a little-endian number in the file.
        fn number<const N: usize>(&self, at: usize) -> Option<u64> {
            let mut bytes = [0; 8];
            bytes[..N].copy_from_slice(self.bytes.get(at..at + N)?);
            Some(u64::from_le_bytes(bytes))
        }
    }

    /// Returns the file's own `.sframe` section, or a table from its call frame information.
    fn table_of(file: &container::File<'_>) -> Result<(Vec<u8>, Address), Box<dyn Error>> {
        if let Some(section) = file.sframe_sections()?.into_iter().next() {
            return Ok((section.bytes.into_owned(), section.address));
        }
        let call_frame_sections = file.call_frame_sections()?;
        let mut builder = Builder::new(file.arch(), Options::default())?;
        for section in &call_frame_sections {
            builder.push_all(Functions::new(&section.cfi()), |_omitted| ());
        }
        let address = Address(0);
        Ok((builder.finish().into_bytes(address, |function| Address(function.0))?, address))
    }
}
