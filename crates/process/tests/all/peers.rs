//! Programs with ties to processes outside: refused before anything happens to them, because no restore brings them back.

use super::odd::{Odd, save_pid};
use super::*;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

const CONNECT: &str = "import socket\ns=socket.socket(socket.AF_UNIX); s.connect('peer')";
const DATAGRAM: &str = "import socket\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM); s.connect('peer')";

/// It is refused with these words, goes on, and leaves nothing.
fn refused(odd: &Odd, words: &[&str]) {
    let target = disk();
    let error = save_pid(&*uring(target.path()), odd.pid(), After::Kill).expect_err(words[0]);
    let told = format!("{error} ({})", error.hint.as_deref().unwrap_or_default());
    assert_eq!(error.kind, Why::Refused, "{told}");
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(within(Duration::from_secs(60), || matches!(tree::state(odd.pid()), Some('S' | 'R'))), "{told}");
    assert!(uring(target.path()).list().unwrap().is_empty(), "{told}");
}

#[test]
fn connections_and_pipes_out_of_the_program_are_refused() {
    if !criu() {
        return;
    }
    let us = format!("process {}", std::process::id());
    let place = disk();
    let peer = place.path().join("peer");
    // Accepted, and not yet.
    let listener = UnixListener::bind(&peer).unwrap();
    let odd = Odd::start(CONNECT, place.path(), true);
    refused(&odd, &["UNIX socket", "about to be connected", &us, "save the process above both"]);
    let accepted = listener.accept().unwrap();
    refused(&odd, &["is connected through a UNIX socket", &us]);
    drop((odd, accepted, listener));
    // One end of a pair, as parents make them.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let odd = Odd::between("", place.path(), true, OwnedFd::from(theirs), Stdio::null());
    refused(&odd, &["UNIX socket", &us]);
    drop((odd, ours));
    // Pipes, each way.
    let (reader, writer) = io::pipe().unwrap();
    let odd = Odd::between("", place.path(), true, Stdio::null(), writer);
    refused(&odd, &["a pipe open to write (descriptor 1)", &us, ">log", "--cut-pipes"]);
    drop((odd, reader));
    let (reader, writer) = io::pipe().unwrap();
    let odd = Odd::between("", place.path(), true, reader, Stdio::null());
    refused(&odd, &["a pipe open to read (descriptor 0)", &us, "/dev/null"]);
    // The other end is nobody's any more.
    drop(writer);
    save_pid(&*uring(disk().path()), odd.pid(), After::Run).unwrap();
}

#[test]
fn who_may_lose_its_pipe_is_saved_and_goes_on() {
    if !criu() {
        return;
    }
    let (place, target) = (disk(), disk());
    let (reader, writer) = io::pipe().unwrap();
    let what = "import os,threading\ndef read(): open('end','w').write(str(len(os.read(0,1))))\nthreading.Thread(target=read).start()";
    let odd = Odd::between(what, place.path(), true, reader, Stdio::null());
    let dump = DumpOptions { cut_pipes: true, ..dump_of(odd.pid(), After::Kill) };
    let storage = uring(target.path());
    savemark_process::save(&*storage, &dump, &options(CodecName::None, 2), &mut Pool::default(), &Control::default())
        .unwrap();
    restore(&*storage).unwrap();
    let end = || fs::read_to_string(place.path().join("end")).unwrap_or_default();
    assert!(within(Duration::from_secs(60), || end() == "0"), "the pipe is not at its end: {:?}", end());
    drop(writer);
}

#[test]
fn a_datagram_socket_with_a_name_may_be_connected_again() {
    if !criu() {
        return;
    }
    let (place, target) = (disk(), disk());
    let server = UnixDatagram::bind(place.path().join("peer")).unwrap();
    let what = format!(
        "{DATAGRAM}\nimport os,threading,time\ndef send():\n while not os.path.exists('go'): time.sleep(.01)\n s.send(b'again')\nthreading.Thread(target=send).start()"
    );
    let odd = Odd::start(&what, place.path(), true);
    refused(&odd, &["UNIX socket", "peer", "--ext-unix-sk"]);
    let dump = DumpOptions { criu_options: vec!["--ext-unix-sk".into()], ..dump_of(odd.pid(), After::Kill) };
    let storage = uring(target.path());
    savemark_process::save(&*storage, &dump, &options(CodecName::None, 2), &mut Pool::default(), &Control::default())
        .unwrap();
    restore(&*storage).unwrap();
    fs::write(place.path().join("go"), "").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(server.recv(&mut buffer).unwrap(), 5);
    drop(odd);
}

/// The program meets somebody when savemark has looked already: CRIU is a script that first lets it do so.
#[test]
fn who_connects_while_the_dump_begins_is_found_before_the_kill() {
    if !criu() {
        return;
    }
    let place = disk();
    let _listener = UnixListener::bind(place.path().join("peer")).unwrap();
    let what = "import os,socket,threading,time\ns=socket.socket(socket.AF_UNIX)\ndef meet():\n while not os.path.exists('meet'): time.sleep(.01)\n s.connect('peer'); os.rename('meet','met')\nthreading.Thread(target=meet).start()";
    let odd = Odd::start(what, place.path(), true);
    let path = std::env::var_os("SAVEMARK_CRIU").map_or("criu".into(), |path| path.to_string_lossy().into_owned());
    let script = format!(
        "case $1 in dump) touch {0}/meet; while [ ! -e {0}/met ]; do sleep 0.01; done ;; esac\nexec {path} \"$@\"",
        place.path().display()
    );
    let said = stuck::told(Some(&script), &odd.pid().to_string(), place.path());
    assert!(said.starts_with("refused") && said.contains("about to be connected"), "{said}");
    assert!(within(Duration::from_secs(60), || matches!(tree::state(odd.pid()), Some('S' | 'R'))));
}
