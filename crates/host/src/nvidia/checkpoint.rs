//! The driver's checkpoint calls: what another process has on its GPUs moves into that process's own memory, and back.
//!
//! They are in driver 570 (CUDA 12.8) and newer. The process is locked first (its CUDA calls wait), then its memory and
//! state are taken off the GPUs; a restore puts them back, and unlocking lets it go on.

use std::ffi::{c_char, c_int, c_uint};
use std::sync::OnceLock;
use std::time::Duration;

use super::cuda::{NAMES, VARIABLE, text_of};
use super::library::{Library, functions};
use savemark_base::error::{Error, Result};

type Code = c_int;
/// 64 bytes that the header reserves.
type Reserved = [u64; 8];

/// As in cuda.h.
#[repr(C)]
struct LockArguments {
    timeout_ms: c_uint,
    reserved: c_uint,
    more: [u64; 7],
}

functions! {
    /// As in cuda.h. They take the number of a process.
    struct Functions {
        init = c"cuInit": unsafe extern "C" fn(c_uint) -> Code,
        error_string = c"cuGetErrorString": unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
        restore_thread = c"cuCheckpointProcessGetRestoreThreadId": unsafe extern "C" fn(c_int, *mut c_int) -> Code,
        state = c"cuCheckpointProcessGetState": unsafe extern "C" fn(c_int, *mut c_int) -> Code,
        lock = c"cuCheckpointProcessLock": unsafe extern "C" fn(c_int, *mut LockArguments) -> Code,
        checkpoint = c"cuCheckpointProcessCheckpoint": unsafe extern "C" fn(c_int, *mut Reserved) -> Code,
        restore = c"cuCheckpointProcessRestore": unsafe extern "C" fn(c_int, *mut Reserved) -> Code,
        unlock = c"cuCheckpointProcessUnlock": unsafe extern "C" fn(c_int, *mut Reserved) -> Code,
    }
}

/// What the driver says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It may use its GPUs.
    Running,
    /// Its CUDA calls wait.
    Locked,
    /// It has nothing on a GPU: all is in its own memory.
    Checkpointed,
    /// The driver could not go on with it.
    Failed,
}

/// A driver that has these calls.
pub struct Checkpoints {
    calls: Functions,
    /// How the library was found.
    pub library: String,
}

/// The driver, loaded and initialised at the first call.
///
/// # Errors
/// `Refused`, with the reason.
pub fn driver() -> Result<&'static Checkpoints> {
    static DRIVER: OnceLock<std::result::Result<Checkpoints, String>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(|why| {
        Error::refused(format!("processes with GPUs cannot be saved here: {why}"))
            .hint("NVIDIA's driver 570 or newer has the calls for it; for tensors there is savemark.save")
    })
}

fn load() -> std::result::Result<Checkpoints, String> {
    let library = Library::open(&NAMES, VARIABLE)?;
    let calls = Functions::of(&library)?;
    // SAFETY: the first call of the driver's API, with the flags that it defines (none).
    match unsafe { (calls.init)(0) } {
        0 => Ok(Checkpoints { calls, library: library.name.clone() }),
        code => Err(format!("CUDA cannot start the driver: {} (error {code})", text_of(calls.error_string, code))),
    }
}

impl Checkpoints {
    /// Whether the process has ever started CUDA.
    ///
    /// # Errors
    /// What the driver says of a process that it does not know.
    pub fn knows(&self, pid: i32) -> Result<()> {
        let mut thread = 0;
        // SAFETY: an address for the answer.
        self.call("find CUDA in", pid, unsafe { (self.calls.restore_thread)(pid, &raw mut thread) })
    }

    /// How far a checkpoint of the process has come.
    ///
    /// # Errors
    /// As of all calls here: what the driver says.
    pub fn state(&self, pid: i32) -> Result<State> {
        let mut state = 0;
        // SAFETY: an address for the answer.
        self.call("ask for the state of", pid, unsafe { (self.calls.state)(pid, &raw mut state) })?;
        Ok(match state {
            0 => State::Running,
            1 => State::Locked,
            2 => State::Checkpointed,
            _ => State::Failed,
        })
    }

    /// Waits until what it does on its GPUs is done, and keeps it from doing more.
    ///
    /// # Errors
    /// What the driver says; after `most` that it took too long.
    pub fn lock(&self, pid: i32, most: Duration) -> Result<()> {
        let timeout_ms = most.as_millis().try_into().unwrap_or(c_uint::MAX);
        let mut arguments = LockArguments { timeout_ms, reserved: 0, more: [0; 7] };
        // SAFETY: the structure of the header, for the length of the call.
        self.call("lock", pid, unsafe { (self.calls.lock)(pid, &raw mut arguments) })
    }

    /// Moves what it has on its GPUs into its own memory.
    ///
    /// # Errors
    /// What the driver says.
    pub fn checkpoint(&self, pid: i32) -> Result<()> {
        self.reserved("checkpoint", pid, self.calls.checkpoint)
    }

    /// Moves it back.
    ///
    /// # Errors
    /// What the driver says.
    pub fn restore(&self, pid: i32) -> Result<()> {
        self.reserved("restore", pid, self.calls.restore)
    }

    /// Lets it use its GPUs again.
    ///
    /// # Errors
    /// What the driver says.
    pub fn unlock(&self, pid: i32) -> Result<()> {
        self.reserved("unlock", pid, self.calls.unlock)
    }

    fn reserved(&self, what: &str, pid: i32, call: unsafe extern "C" fn(c_int, *mut Reserved) -> Code) -> Result<()> {
        let mut arguments: Reserved = [0; 8];
        // SAFETY: as many zeros as the header reserves, for the length of the call.
        self.call(what, pid, unsafe { call(pid, &raw mut arguments) })
    }

    fn call(&self, what: &str, pid: i32, code: Code) -> Result<()> {
        match code {
            0 => Ok(()),
            code => {
                let why = text_of(self.calls.error_string, code);
                Err(Error::failed(format!("the GPU's driver cannot {what} process {pid}: {why} (error {code})")).hint(
                    "drivers cannot save managed memory (UVM), CUDA IPC, MPS, MIG, NCCL between processes and children \
                     forked without exec; for tensors there is savemark.save",
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layouts_are_those_of_the_header() {
        assert_eq!((size_of::<LockArguments>(), size_of::<Reserved>()), (64, 64));
        assert_eq!(std::mem::offset_of!(LockArguments, more), 8);
    }
}
