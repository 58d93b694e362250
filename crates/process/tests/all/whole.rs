//! What hangs together inside of a program does so afterwards: children, what is under way in pipes and sockets, places in
//! files, files that are deleted, memory that is shared, handlers of signals.

use super::odd::{Odd, save_pid};
use super::*;

const PROGRAM: &str = r#"
import mmap, os, signal, socket, threading, time
reader, writer = os.pipe()
os.write(writer, b"p" * 50000)
near, far = socket.socketpair()
near.send(b"pair")
shared = mmap.mmap(-1, 4096)
words = open("words", "w+"); words.write("one two three"); words.flush(); words.seek(4)
log = open("log", "a"); log.write("before "); log.flush()
gone = open("gone", "w+"); gone.write("deleted"); gone.flush(); os.remove("gone"); gone.seek(0)
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append("usr1"))
ask, asked = os.pipe()
child = os.fork()
if child == 0:
    os.read(ask, 1)
    shared[0] = 42
    os.write(writer, b"child")
    os._exit(7)
def finish():
    while not os.path.exists("go"): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGUSR1)
    os.write(asked, b"x")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    time.sleep(0.1)
    log.write("after"); log.flush()
    facts = [len(os.read(reader, 50000)), os.read(reader, 9), far.recv(9), words.read(4), gone.read(), shared[0], status, heard]
    open("result.new", "w").write(repr(facts)); os.rename("result.new", "result")
threading.Thread(target=finish).start()
"#;

#[test]
fn what_hangs_together_in_a_program_does_so_afterwards() {
    if !criu() {
        return;
    }
    let (place, target) = (disk(), disk());
    let storage = uring(target.path());
    let odd = Odd::start(PROGRAM, place.path(), true);
    let processes = tree::pids(odd.pid());
    assert_eq!(processes.len(), 2);
    save_pid(&*storage, odd.pid(), After::Kill).unwrap();
    assert!(processes.iter().all(|pid| matches!(tree::state(*pid), None | Some('Z'))));
    restore(&*storage).unwrap();
    assert_eq!(tree::pids(odd.pid()), processes);
    fs::write(place.path().join("go"), "").unwrap();
    let result = || fs::read_to_string(place.path().join("result")).unwrap_or_default();
    assert!(within(Duration::from_secs(60), || !result().is_empty()), "it does not finish");
    assert_eq!(result(), "[50000, b'child', b'pair', 'two ', 'deleted', 42, 7, ['usr1']]");
    assert_eq!(fs::read_to_string(place.path().join("log")).unwrap(), "before after");
}
