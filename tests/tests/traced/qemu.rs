//! Runs a program of another architecture in qemu-user one instruction at a time, by gdb's remote protocol.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

/// How often we try to connect, every 10 ms: qemu may take 10 seconds to open its socket.
const ATTEMPTS: usize = 1000;

/// A program, stopped.
#[derive(Debug)]
pub struct Qemu {
    child: Child,
    socket: PathBuf,
    stream: UnixStream,
}

impl Qemu {
    /// Starts the program, which stops before its first instruction. `socket` is the name of a file that qemu creates.
    pub fn start(qemu: &str, program: &Path, socket: &Path) -> io::Result<Self> {
        let _ = fs::remove_file(socket);
        let mut command = Command::new(qemu);
        command.arg("-g").arg(socket).arg(program).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        for _ in 0..ATTEMPTS {
            if let Ok(stream) = UnixStream::connect(socket) {
                let mut qemu = Self { child, socket: socket.to_path_buf(), stream };
                // qemu refuses to write registers unless it was asked this before.
                qemu.ask("qXfer:features:read:target.xml:0,ffb");
                return Ok(qemu);
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("{qemu} opens no socket")))
    }

    /// Returns the bytes of all registers in gdb's order, in the target's byte order.
    pub fn registers(&mut self) -> Vec<u8> {
        bytes(&self.ask("g"))
    }

    /// Sets a register, by gdb's number.
    pub fn set_register(&mut self, number: usize, value: &[u8]) {
        let answer = self.ask(&format!("P{number:x}={}", hexadecimal(value)));
        assert_eq!(answer, "OK", "register {number}");
    }

    /// Reads memory, or returns `None` if a part of it is missing.
    pub fn read(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let answer = self.ask(&format!("m{address:x},{len:x}"));
        (answer.len() == 2 * len).then(|| bytes(&answer))
    }

    /// Runs an instruction. An error is the signal that it ended with, in gdb's notation.
    pub fn step(&mut self) -> Result<(), String> {
        let answer = self.ask("s");
        if answer.starts_with("T05") { Ok(()) } else { Err(answer) }
    }

    /// Sends a packet and returns the contents of the answer.
    fn ask(&mut self, packet: &str) -> String {
        let sum = packet.bytes().fold(0, u8::wrapping_add);
        self.stream.write_all(format!("${packet}#{sum:02x}").as_bytes()).expect("qemu reads");
        let mut byte = || {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("qemu answers");
            byte[0]
        };
        // The answer follows an acknowledgement.
        while byte() != b'$' {}
        let contents: Vec<_> = std::iter::from_fn(|| Some(byte()).filter(|byte| *byte != b'#')).collect();
        // A local socket loses nothing, so the checksum is ignored.
        byte();
        byte();
        self.stream.write_all(b"+").expect("qemu reads");
        String::from_utf8(contents).expect("the protocol is text")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.socket);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Parses hexadecimal digits. An unknown register is `xx`.
fn bytes(digits: &str) -> Vec<u8> {
    let (pairs, _) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(|pair| byte(pair).unwrap_or(0)).collect()
}
