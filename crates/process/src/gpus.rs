//! The GPUs of a program: emptied into its own memory before CRIU looks at it, and filled again when it goes on.

use std::fs;

use super::stall_timeout;
use savemark_base::error::{Error, Result};
use savemark_host::nvidia::checkpoint::{self, Checkpoints, State};

/// The processes of a program that use a GPU.
pub struct Gpus {
    processes: Vec<i32>,
    driver: Option<&'static Checkpoints>,
}

impl Gpus {
    /// Looks for them among `pids`.
    ///
    /// # Errors
    /// `Refused` if there are some, and the driver cannot save them.
    pub fn of(pids: &[i32]) -> Result<Self> {
        let mut found = Self { processes: Vec::new(), driver: None };
        for pid in pids.iter().copied() {
            let is_open = has_open(pid, DEVICE);
            // Nothing is open in a process that a killed save has left checkpointed.
            if !is_open && !has_library(pid) {
                continue;
            }
            let known = checkpoint::driver().and_then(|driver| driver.knows(pid).map(|()| driver));
            match known {
                Ok(driver) => {
                    found.processes.push(pid);
                    found.driver = Some(driver);
                }
                Err(error) if is_open => return Err(refused(pid, error)),
                // Many programs load the library and never call it.
                Err(_) => {}
            }
        }
        Ok(found)
    }

    /// Those of a checkpoint that is to be restored.
    ///
    /// # Errors
    /// `Refused` if the driver here cannot restore them.
    pub fn saved(processes: Vec<i32>) -> Result<Self> {
        let driver = if processes.is_empty() { None } else { Some(checkpoint::driver()?) };
        Ok(Self { processes, driver })
    }

    /// Their numbers.
    pub fn processes(&self) -> &[i32] {
        &self.processes
    }

    /// Moves all of them off their GPUs: all are locked before the first is moved, for they may wait for each other.
    ///
    /// # Errors
    /// What the driver says. Then, and after a success, [`put_back`](Self::put_back) lets them go on.
    pub fn take_off(&self) -> Result<()> {
        let Some(driver) = self.driver else { return Ok(()) };
        for pid in &self.processes {
            if driver.state(*pid)? == State::Running {
                driver.lock(*pid, stall_timeout())?;
            }
        }
        for pid in &self.processes {
            if driver.state(*pid)? != State::Checkpointed {
                driver.checkpoint(*pid)?;
            }
        }
        Ok(())
    }

    /// Moves back what was moved off, and unlocks. The processes run: it is their own thread that does it.
    ///
    /// # Errors
    /// What the driver says of the first that failed; the others are put back all the same.
    pub fn put_back(&self) -> Result<()> {
        let Some(driver) = self.driver else { return Ok(()) };
        let one = |pid: i32| -> Result<()> {
            let state = driver.state(pid)?;
            if state == State::Checkpointed {
                driver.restore(pid)?;
            }
            if state != State::Running { driver.unlock(pid) } else { Ok(()) }
        };
        let results: Vec<Result<()>> = self.processes.iter().map(|pid| one(*pid)).collect();
        results.into_iter().collect::<Result<Vec<()>>>().map(drop).map_err(|error| {
            error.hint(
                "the process waits for its GPU: `cuda-checkpoint --toggle --pid PID` may free it; dmesg may say more",
            )
        })
    }
}

/// How the files of the driver's devices begin.
const DEVICE: &str = "/dev/nvidia";

/// The process has a file open that begins like this.
fn has_open(pid: i32, start: &str) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|link| link.to_string_lossy().starts_with(start))
}

fn has_library(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| String::from_utf8_lossy(&maps).contains("/libcuda.so"))
}

fn refused(pid: i32, error: Error) -> Error {
    let hint = error.hint.clone().unwrap_or_default();
    let message = format!("process {pid} uses an NVIDIA GPU: {}", error.message);
    Error { source: error.source, ..Error::refused(message).hint(hint) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use savemark_base::error::Kind;

    #[test]
    fn an_open_device_is_seen_and_without_a_driver_it_is_refused_with_the_reason() {
        let us = std::process::id() as i32;
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = fs::canonicalize(file.path()).unwrap();
        assert!(has_open(us, path.to_str().unwrap()));
        assert!(!has_open(us, "/dev/there-is-no-such-device"));
        assert!(Gpus::of(&[us]).unwrap().processes().is_empty() || has_open(us, DEVICE));
        if fs::exists("/proc/driver/nvidia/version").unwrap() {
            return;
        }
        let error = Gpus::saved(vec![us]).err().unwrap();
        assert!(error.kind == Kind::Refused && error.message.contains("libcuda.so.1"), "{error}");
        let error = refused(7, error);
        assert!(error.message.starts_with("process 7 uses an NVIDIA GPU: processes with GPUs cannot be saved here"));
        assert!(error.hint.unwrap().contains("driver 570"));
    }
}
