//! Programs that have something which matters to a dump.

use super::*;
use std::os::unix::process::CommandExt;

/// A Python program that does something and then goes on; ended when dropped.
pub struct Odd(Child);

impl Odd {
    pub fn start(what: &str, place: &Path, setsid: bool) -> Self {
        Self::between(what, place, setsid, Stdio::null(), Stdio::null())
    }

    /// With these for its input and output.
    pub fn between(what: &str, place: &Path, setsid: bool, input: impl Into<Stdio>, output: impl Into<Stdio>) -> Self {
        let _ = fs::remove_file(place.join("ready"));
        let script = format!(
            "import os\nos.closerange(3,1024)\n{what}\nimport time\nopen('ready','w').close()\nwhile True: time.sleep(0.01)"
        );
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", &script]).current_dir(place);
        command.stdin(input).stdout(output).stderr(Stdio::null());
        if setsid {
            // SAFETY: setsid may be called between fork and exec.
            unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        }
        let child = command.spawn().unwrap();
        assert!(
            within(Duration::from_secs(60), || place.join("ready").exists()),
            "{what}: the program does not get ready"
        );
        Self(child)
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        let tree = tree::pids(self.pid()); // killed, its children would be somebody else's
        let _ = self.0.kill();
        let _ = self.0.wait();
        for pid in tree.into_iter().filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Saves it with no more than its number.
pub fn save_pid(storage: &dyn Storage, pid: i32, after: After) -> Result<(), Error> {
    let options = options(CodecName::None, 2);
    savemark_process::save(storage, &dump_of(pid, after), &options, &mut Pool::default(), &Control::default()).map(drop)
}
