//! What a program can have that CRIU cannot save, provoked one by one: the message, the fix, and the program that goes on.

use super::odd::{Odd, save_pid};
use super::*;

/// Name, what a Python program does, a part of the message, a part of the fix.
#[rustfmt::skip]
const CASES: &[(&str, &str, &str, &str)] = &[
    (
        "tcp",
        "import socket\nl=socket.create_server(('127.0.0.1',0)); a=socket.create_connection(l.getsockname()); b,_=l.accept()",
        "TCP connection",
        "--tcp-close",
    ),
    ("lock", "import fcntl\nf=open('lock','w'); fcntl.flock(f,fcntl.LOCK_EX)", "file locks", "--file-locks"),
    ("link", "import os\nf=open('a','w'); os.link('a','b'); os.remove('a')", "deleted", "--link-remap"),
    ("ghost", "import os\nf=open('c','w'); f.truncate(8<<20); os.pwrite(f.fileno(),b'x'*(4<<20),0); os.remove('c')", "deleted", "--ghost-limit"),
    ("ring", "import ctypes\np=ctypes.create_string_buffer(256); assert ctypes.CDLL(None).syscall(425,8,p)>=0", "io_uring", "plain reads"),
    ("fault", "import ctypes\nassert ctypes.CDLL(None).syscall(323,0)>=0", "userfaultfd", "without"),
    ("device", "f=open('/dev/loop-control')", "device", "close it"),
    (
        "terminal",
        "import os,pty,time\nm,s=pty.openpty()\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  os.close(s)\n  time.sleep(9)\n os._exit(0)\nos.close(m); os.wait()",
        "terminal",
        "setsid",
    ),
];

#[test]
fn what_cannot_be_saved_is_said_with_its_fix_and_goes_on() {
    if !criu() {
        return;
    }
    for (name, what, message, fix) in CASES {
        let (place, target) = (disk(), disk());
        let odd = Odd::start(what, place.path(), true);
        let error = save_pid(&*uring(target.path()), odd.pid(), After::Kill).expect_err(name);
        let hint = error.hint.clone().unwrap();
        assert!(error.message.contains(message), "{name}: {error} ({hint})");
        assert!(hint.contains(fix), "{name}: {error} ({hint})");
        let log = PathBuf::from(hint.rsplit("log: ").next().unwrap());
        assert!(fs::read_to_string(&log).unwrap().contains("Error"), "{name}: {log:?}");
        fs::remove_dir_all(log.parent().unwrap()).unwrap();
        assert!(within(Duration::from_secs(60), || matches!(tree::state(odd.pid()), Some('S' | 'R'))), "{name}");
        assert!(uring(target.path()).list().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn who_is_missing_is_named() {
    if !criu() {
        return;
    }
    let target = disk();
    let storage = uring(target.path());
    let error = save_pid(&*storage, i32::MAX, After::Kill).unwrap_err();
    assert!(error.kind == Why::Usage && error.message.contains("no process"), "{error}");
    let error = save_pid(&*storage, std::process::id() as i32, After::Kill).unwrap_err();
    assert!(error.kind == Why::Refused && error.message.contains("savemark itself"), "{error}");
    // Not the leader of its session: in that of the tests.
    let place = disk();
    let odd = Odd::start("", place.path(), false);
    let error = save_pid(&*storage, odd.pid(), After::Kill).unwrap_err();
    assert!(error.hint.as_ref().unwrap().contains("setsid"), "{error} {:?}", error.hint);
    // A file that was open is gone when the program comes back, or is another.
    let odd = Odd::start("f=open('open','w'); f.write('x'*9000); f.flush()", place.path(), true);
    save_pid(&*storage, odd.pid(), After::Kill).unwrap();
    fs::write(place.path().join("open"), "another").unwrap();
    let error = restore(&*storage).unwrap_err();
    assert!(error.message.contains("another size"), "{error}");
    fs::remove_file(place.path().join("open")).unwrap();
    let error = restore(&*storage).unwrap_err();
    assert!(
        error.message.contains("missing") && error.hint.as_ref().unwrap().contains("put the file back"),
        "{}",
        error.message
    );
    let log = PathBuf::from(error.hint.unwrap().rsplit("log: ").next().unwrap());
    fs::remove_dir_all(log.parent().unwrap()).unwrap();
    assert_eq!(tree::state(odd.pid()), None, "what failed to be restored is left");
}
