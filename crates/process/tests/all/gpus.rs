//! Programs with GPUs, against a library that behaves as the header of CUDA says: this shows that the calls are made in the
//! right order around a real dump and restore, not that a GPU was there.
//!
//! A process counts as one that uses a GPU if it has mapped a libcuda and the driver knows it.

use super::odd::Odd;
use super::*;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// It writes each call down, and fails the one that the file `fail` names, with a code of CUDA.
const FAKE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int states[4096][2];
static int *state_of(int pid) {
  for (int i = 0; ; i++) { if (!states[i][0]) states[i][0] = pid; if (states[i][0] == pid) return &states[i][1]; }
}
static int said(const char *call, int pid) {
  char path[4096], fails[64] = "";
  snprintf(path, sizeof path, "%s/calls", getenv("SAVEMARK_TEST_CUDA"));
  FILE *file = fopen(path, "a"); fprintf(file, "%s %d\n", call, pid); fclose(file);
  snprintf(path, sizeof path, "%s/fail", getenv("SAVEMARK_TEST_CUDA"));
  if ((file = fopen(path, "r"))) { fscanf(file, "%63s", fails); fclose(file); }
  return strcmp(fails, call) ? 0 : 801;
}
int cuInit(unsigned flags) { return flags; }
int cuGetErrorString(int code, const char **text) { *text = code == 801 ? "operation not supported" : "invalid"; return 0; }
int cuCheckpointProcessGetRestoreThreadId(int pid, int *thread) { *thread = pid; return said("know", pid); }
int cuCheckpointProcessGetState(int pid, int *state) { *state = *state_of(pid); return 0; }
int cuCheckpointProcessLock(int pid, unsigned *arguments) {
  if (!arguments[0] || arguments[1] || *state_of(pid) != 0) return 1;
  int code = said("lock", pid); if (!code) *state_of(pid) = 1; return code;
}
static int moved(const char *call, int pid, unsigned long *reserved, int from, int to) {
  for (int i = 0; i < 8; i++) if (reserved[i]) return 1;
  if (*state_of(pid) != from) return 1;
  int code = said(call, pid); if (!code) *state_of(pid) = to; return code;
}
int cuCheckpointProcessCheckpoint(int pid, unsigned long *r) { return moved("checkpoint", pid, r, 1, 2); }
int cuCheckpointProcessRestore(int pid, unsigned long *r) { return moved("restore", pid, r, 2, 1); }
int cuCheckpointProcessUnlock(int pid, unsigned long *r) { return moved("unlock", pid, r, 1, 0); }
"#;

/// The library, once for this process; tests with it take turns, for it has one list of calls.
struct Cuda {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Cuda {
    fn start() -> Option<Self> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let folder = FOLDER.get_or_init(|| {
            let folder = disk().keep();
            fs::write(folder.join("fake.c"), FAKE).unwrap();
            let mut command = Command::new("cc");
            command.args(["-shared", "-fPIC", "-w", "-o"]).arg(folder.join("libcuda.so.1")).arg(folder.join("fake.c"));
            if !command.status().is_ok_and(|status| status.success()) {
                let required =
                    std::env::var("SAVEMARK_REQUIRE").is_ok_and(|list| list.split(',').any(|word| word == "cc"));
                assert!(!required, "SAVEMARK_REQUIRE asks for cc, and it cannot make a library");
                eprintln!("skipped: cc: it cannot make a library");
                return None;
            }
            // SAFETY: every test with a GPU comes here first, and no other reads these variables.
            unsafe {
                std::env::set_var("SAVEMARK_LIBCUDA", folder.join("libcuda.so.1"));
                std::env::set_var("SAVEMARK_TEST_CUDA", &folder);
            }
            Some(folder)
        });
        let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let cuda = Self { folder: folder.clone()?, _turn: turn };
        let _ = fs::remove_file(cuda.folder.join("fail"));
        cuda.calls();
        Some(cuda)
    }

    /// A program of two processes that both use it.
    fn program(&self, place: &Path) -> Odd {
        let library = self.folder.join("libcuda.so.1");
        let what =
            format!("import ctypes,os,time\nctypes.CDLL({library:?})\nif os.fork()==0:\n while True: time.sleep(0.01)");
        Odd::start(&what, place, true)
    }

    /// The calls since the last time, without the questions, `0` and `1` for the processes.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        let _ = fs::remove_file(self.folder.join("calls"));
        let lines = text.lines().filter(|line| !line.starts_with("know")).map(str::to_string);
        lines.collect()
    }

    fn fail(&self, call: &str) {
        fs::write(self.folder.join("fail"), call).unwrap();
    }
}

fn of(calls: &[&str], pids: &[i32]) -> Vec<String> {
    calls
        .iter()
        .map(|call| call.split_once(' ').unwrap())
        .map(|(call, index)| format!("{call} {}", pids[index.parse::<usize>().unwrap()]))
        .collect()
}

fn is_running(pids: &[i32]) -> bool {
    within(Duration::from_secs(60), || pids.iter().all(|pid| matches!(tree::state(*pid), Some('S' | 'R'))))
}

fn try_save(storage: &dyn Storage, pid: i32, after: After) -> Result<savemark_base::record::Phase, Error> {
    let (dump, options) = (dump_of(pid, after), options(CodecName::None, 2));
    savemark_process::save(storage, &dump, &options, &mut Pool::default(), &Control::default()).map(|(_, phase)| phase)
}

const OFF: [&str; 4] = ["lock 0", "lock 1", "checkpoint 0", "checkpoint 1"];
const BACK: [&str; 4] = ["restore 0", "unlock 0", "restore 1", "unlock 1"];

#[test]
fn a_gpu_is_emptied_before_the_dump_and_filled_again_when_the_program_goes_on() {
    let Some(cuda) = criu().then(Cuda::start).flatten() else { return };
    let (place, target) = (disk(), disk());
    let storage = uring(target.path());
    let odd = cuda.program(place.path());
    let pids = tree::pids(odd.pid());
    // It runs on.
    let phase = try_save(&*storage, odd.pid(), After::Run).unwrap();
    assert_eq!(cuda.calls(), of(&[OFF, BACK].concat(), &pids));
    let names: Vec<_> = phase.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["gpu", "freeze", "dump", "transfer", "flush", "commit"]);
    assert!(is_running(&pids));
    // The storage fails.
    let failing = Failing::new(Arc::clone(&storage), 1 << 20);
    try_save(&failing, odd.pid(), After::Kill).unwrap_err();
    assert_eq!(cuda.calls(), of(&[OFF, BACK].concat(), &pids));
    assert!(is_running(&pids));
    // It is killed, and restored with nothing on the GPUs, which are filled before it is told of.
    try_save(&*storage, odd.pid(), After::Kill).unwrap();
    assert_eq!(cuda.calls(), of(&OFF, &pids));
    let restored = restore(&*storage).unwrap();
    assert_eq!((restored.table.gpus, cuda.calls()), (pids.clone(), of(&BACK, &pids)));
    assert!(is_running(&pids));
}

#[test]
fn a_call_that_fails_leaves_the_program_as_it_was_and_is_said() {
    let Some(cuda) = criu().then(Cuda::start).flatten() else { return };
    let (place, target) = (disk(), disk());
    let storage = uring(target.path());
    let odd = cuda.program(place.path());
    let pids = tree::pids(odd.pid());
    let told = |error: Error| format!("{error} ({})", error.hint.clone().unwrap_or_default());
    for (call, calls) in
        [("lock", vec!["lock 0"]), ("checkpoint", vec!["lock 0", "lock 1", "checkpoint 0", "unlock 0", "unlock 1"])]
    {
        cuda.fail(call);
        let said = told(try_save(&*storage, odd.pid(), After::Kill).unwrap_err());
        assert!(said.contains(&format!("cannot {call} process {}: operation not supported", pids[0])), "{said}");
        assert!(said.contains("UVM") && said.contains("savemark.save"), "{said}");
        assert_eq!(cuda.calls(), of(&calls, &pids), "{call}");
        assert!(is_running(&pids) && storage.list().unwrap().is_empty());
    }
    // It was saved, and does not go on.
    cuda.fail("unlock");
    let said = told(try_save(&*storage, odd.pid(), After::Run).unwrap_err());
    assert!(said.contains("cannot unlock process") && said.contains("cuda-checkpoint"), "{said}");
    assert_eq!(cuda.calls(), of(&[OFF, BACK].concat(), &pids));
    cuda.fail("nothing");
    try_save(&*storage, odd.pid(), After::Run).unwrap();
    assert_eq!(cuda.calls(), of(&[&OFF[2..], &BACK[..]].concat(), &pids), "locked already");
    // What cannot be put back is said beside the reason of the failure.
    cuda.fail("restore");
    let failing = Failing::new(Arc::clone(&storage), 1 << 20);
    let said = told(try_save(&failing, odd.pid(), After::Kill).unwrap_err());
    assert!(said.contains("No space") && said.contains("does not go on: the GPU's driver cannot restore"), "{said}");
    assert!(said.contains("cuda-checkpoint"), "{said}");
    assert_eq!(cuda.calls(), of(&[&OFF[..], &["restore 0", "restore 1"]].concat(), &pids));
    // The next save takes it from there.
    cuda.fail("nothing");
    try_save(&*storage, odd.pid(), After::Kill).unwrap();
    assert_eq!(cuda.calls(), Vec::<String>::new());
    // A restore that cannot fill the GPUs leaves no program that waits for ever.
    cuda.fail("restore");
    let said = told(restore(&*storage).unwrap_err());
    assert!(said.contains("cannot restore process"), "{said}");
    assert!(pids.iter().all(|pid| matches!(tree::state(*pid), None | Some('Z'))));
    cuda.fail("nothing");
    tree::wait_gone(&pids, Duration::from_secs(60)).unwrap();
    restore(&*storage).unwrap();
    assert!(is_running(&pids));
}
