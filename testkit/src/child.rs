//! Runs a child process one instruction at a time.

// This crate needs `unsafe` only here: ptrace has no safe interface.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr::null_mut;

use crate::process::{Process, Stopped};

/// A child, stopped before its next instruction.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    memory: File,
    /// A signal to deliver with the next step.
    signal: libc::c_int,
}

impl Child {
    /// Starts a program and discards its output. The child stops before its first instruction.
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec the closure calls one async-signal-safe function.
        unsafe {
            command.pre_exec(|| {
                match libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        let pid = command.spawn()?.id() as libc::pid_t;
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let mut child = Self { pid, memory, signal: 0 };
        if child.wait() { Ok(child) } else { Err(io::Error::other("the child ended before it began")) }
    }

    /// Runs one instruction. Returns `false` if the child has ended.
    pub fn step(&mut self) -> bool {
        self.go_on(libc::PTRACE_SINGLESTEP)
    }

    /// Runs up to the next [breakpoint](Self::write). Returns `false` if the child has ended.
    pub fn resume(&mut self) -> bool {
        self.go_on(libc::PTRACE_CONT)
    }

    /// Overwrites memory, even code. To set a breakpoint, write `int3`: the child stops with its PC one byte after it.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, address).expect("a traced process can be written to");
    }

    /// Sets the address of the next instruction.
    pub fn set_pc(&self, pc: u64) {
        let mut r = self.user_registers();
        r.rip = pc;
        // SAFETY: the child is stopped, and `r` is what the request reads.
        let result = unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid, null_mut::<u8>(), &raw mut r) };
        assert_eq!(result, 0, "ptrace: {}", io::Error::last_os_error());
    }

    fn go_on(&mut self, request: libc::c_uint) -> bool {
        // SAFETY: the child is stopped, and the request passes no pointers that are looked through.
        let result = unsafe { libc::ptrace(request, self.pid, null_mut::<u8>(), self.signal) };
        assert_eq!(result, 0, "ptrace: {}", io::Error::last_os_error());
        self.wait()
    }

    fn wait(&mut self) -> bool {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(waited, self.pid, "waitpid: {}", io::Error::last_os_error());
        if !libc::WIFSTOPPED(status) {
            assert!(
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                "the child failed: {status:#x}"
            );
            return false;
        }
        self.signal = match libc::WSTOPSIG(status) {
            libc::SIGTRAP => 0,
            signal => signal,
        };
        true
    }

    /// Reads all registers.
    pub fn registers(&self) -> Stopped {
        let r = self.user_registers();
        let numbered = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15, r.rip,
        ];
        let mut registers = [None; 160];
        for (register, value) in registers.iter_mut().zip(numbered) {
            *register = Some(value);
        }
        Stopped { pc: r.rip, registers }
    }

    fn user_registers(&self) -> libc::user_regs_struct {
        // SAFETY: all-zero bytes are a value of this type, which holds integers only.
        let mut r: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the child is stopped, and `r` is what the request fills.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, null_mut::<u8>(), &raw mut r) };
        assert_eq!(result, 0, "ptrace: {}", io::Error::last_os_error());
        r
    }
}

impl Process for Child {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.memory.read_at(&mut buffer[done..], address + done as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        done
    }

    fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("the child is there")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: plain calls; they fail if the child has ended, which does not matter.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, null_mut(), 0);
        }
    }
}
