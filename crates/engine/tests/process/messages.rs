//! What a program can have that CRIU cannot save, provoked one by one: the message, the fix, and the program that goes on.

use super::*;
use std::os::unix::process::CommandExt;

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
        "unix",
        "import socket\ns=socket.socket(socket.AF_UNIX); s.connect('peer'); s.send(b'x'); s.recv(1)",
        "UNIX socket",
        "both",
    ),
    (
        "terminal",
        "import os,pty,time\nm,s=pty.openpty()\nif os.fork()==0:\n os.setsid()\n if os.fork()==0:\n  os.close(s)\n  time.sleep(9)\n os._exit(0)\nos.close(m); os.wait()",
        "terminal",
        "setsid",
    ),
];

/// A Python program that does something and then goes on; ended when dropped.
struct Odd(Child);

impl Odd {
    fn start(what: &str, place: &Path, setsid: bool) -> Self {
        let _ = fs::remove_file(place.join("ready"));
        let script = format!("{what}\nimport time\nopen('ready','w').close()\nwhile True: time.sleep(0.01)");
        let mut command = Command::new("python3");
        command.args(["-I", "-S", "-c", &script]).current_dir(place);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if setsid {
            // SAFETY: setsid may be called between fork and exec.
            unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        }
        let child = command.spawn().unwrap();
        assert!(
            within(Duration::from_secs(20), || place.join("ready").exists()),
            "{what}: the program does not get ready"
        );
        Self(child)
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn save_pid(storage: &dyn Storage, pid: i32, after: After) -> Result<(), Error> {
    let options = options(CodecName::None, 2);
    process::save(storage, &dump_of(pid, after), &options, &mut Pool::default(), &Control::default()).map(drop)
}

#[test]
fn what_cannot_be_saved_is_said_with_its_fix_and_goes_on() {
    if !criu() {
        return;
    }
    for (name, what, message, fix) in CASES {
        let (place, target) = (disk(), disk());
        let peer = std::os::unix::net::UnixListener::bind(place.path().join("peer")).unwrap();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = peer.accept().ok()?;
            io::Write::write_all(&mut stream, b"y").ok().map(|()| stream)
        });
        let odd = Odd::start(what, place.path(), true);
        let error = save_pid(&*uring(target.path()), odd.pid(), After::Kill).expect_err(name);
        let hint = error.hint.clone().unwrap();
        assert!(error.message.contains(message), "{name}: {error} ({hint})");
        assert!(hint.contains(fix), "{name}: {error} ({hint})");
        let log = PathBuf::from(hint.rsplit("log: ").next().unwrap());
        assert!(fs::read_to_string(&log).unwrap().contains("Error"), "{name}: {log:?}");
        fs::remove_dir_all(log.parent().unwrap()).unwrap();
        assert!(within(Duration::from_secs(2), || matches!(tree::state(odd.pid()), Some('S' | 'R'))), "{name}");
        assert!(uring(target.path()).list().unwrap().is_empty(), "{name}");
        // Whoever waits for a connection gets one.
        let _ = std::os::unix::net::UnixStream::connect(place.path().join("peer"));
        drop(answering.join());
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
