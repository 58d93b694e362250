//! The UNIX sockets of a network namespace and who is connected with whom, as the kernel's sock_diag tells them (/proc does
//! not tell peers).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A UNIX socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// Its number, as in `socket:[N]`.
    pub ino: u32,
    /// Keeps messages apart, and is connected to a name.
    pub is_datagram: bool,
    /// The socket at its other end; 0 while nobody has accepted the connection.
    pub peer: Option<u32>,
    /// A path, or `@` and an abstract name.
    pub name: Option<String>,
    /// Sockets that wait for it to accept them.
    pub waiting: Vec<u32>,
}

/// From linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const BY_FAMILY: u16 = 20;
const DUMP_REQUEST: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const DATAGRAM: u8 = 2;
/// Name, peer, and what waits for a listener.
const SHOW: u32 = 1 | 4 | 8;
const NAME: u16 = 0;
const PEER: u16 = 2;
const WAITING: u16 = 3;

/// Those in the network namespace of the process `pid`.
pub fn sockets_of(pid: i32) -> io::Result<Vec<Socket>> {
    let (own, theirs) = ("/proc/self/ns/net".to_string(), format!("/proc/{pid}/ns/net"));
    if fs::read_link(own)? == fs::read_link(&theirs)? {
        return sockets();
    }
    let network = File::open(theirs)?;
    // A thread that has changed its namespace is not used for anything else.
    let asked = std::thread::Builder::new().spawn(move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
        sockets()
    })?;
    asked.join().map_err(|_| io::Error::other("a thread panicked"))?
}

fn sockets() -> io::Result<Vec<Socket>> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    rustix::io::write(&kernel, &request())?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let len = rustix::io::read(&kernel, &mut buffer[..])?;
        if read(&buffer[..len], &mut found)? {
            return Ok(found);
        }
    }
}

/// A header (length, type, flags, sequence, sender), then family, protocol, padding, states, number, show, cookie.
fn request() -> [u8; HEADER + 24] {
    let mut bytes = [0; HEADER + 24];
    bytes[0..4].copy_from_slice(&((HEADER + 24) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP_REQUEST.to_ne_bytes());
    bytes[HEADER] = libc::AF_UNIX as u8;
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes[HEADER + 12..HEADER + 16].copy_from_slice(&SHOW.to_ne_bytes());
    bytes
}

/// Takes the sockets out of what came; `true` after the last one.
fn read(mut bytes: &[u8], found: &mut Vec<Socket>) -> io::Result<bool> {
    while bytes.len() >= HEADER {
        let len = (number32(bytes, 0) as usize).clamp(HEADER, bytes.len());
        let (kind, body) = (number16(bytes, 4), &bytes[HEADER..len]);
        match kind {
            DONE => return Ok(true),
            ERROR => return Err(io::Error::from_raw_os_error(-(number32(body, 0) as i32))),
            BY_FAMILY if body.len() >= MESSAGE => found.push(socket(body)),
            _ => {}
        }
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(false)
}

/// Family, type, state, padding, number, cookie; then attributes: length, type, value.
fn socket(body: &[u8]) -> Socket {
    let mut socket = Socket { ino: number32(body, 4), is_datagram: body[1] == DATAGRAM, ..Default::default() };
    let mut rest = &body[MESSAGE..];
    while rest.len() >= 4 {
        let len = (number16(rest, 0) as usize).clamp(4, rest.len());
        let value = &rest[4..len];
        match number16(rest, 2) {
            NAME => socket.name = Some(name(value)),
            PEER => socket.peer = Some(number32(value, 0)),
            WAITING => socket.waiting = (0..value.len() / 4).map(|index| number32(value, index * 4)).collect(),
            _ => {}
        }
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    socket
}

fn name(bytes: &[u8]) -> String {
    match bytes.split_first() {
        Some((0, rest)) => format!("@{}", String::from_utf8_lossy(rest)),
        _ => String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string(),
    }
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).map_or(0, |part| u16::from_ne_bytes(part.try_into().expect("two bytes")))
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |part| u32::from_ne_bytes(part.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    fn ino(socket: &impl AsRawFd) -> u32 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let text = link.to_str().unwrap();
        text.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix("]")).unwrap().parse().unwrap()
    }

    fn told(socket: &impl AsRawFd) -> Socket {
        let number = ino(socket);
        sockets_of(std::process::id() as i32).unwrap().into_iter().find(|socket| socket.ino == number).unwrap()
    }

    #[test]
    fn the_kernel_tells_peers_and_names_and_who_waits() {
        let (one, two) = UnixStream::pair().unwrap();
        assert_eq!(told(&one).peer, Some(ino(&two)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listener");
        let listener = UnixListener::bind(&path).unwrap();
        let waiting = UnixStream::connect(&path).unwrap();
        assert_eq!((told(&waiting).peer, told(&listener).waiting), (Some(0), vec![ino(&waiting)]));
        assert_eq!(told(&listener).name.as_deref(), path.to_str());
        let (path, client) = (folder.path().join("datagrams"), UnixDatagram::unbound().unwrap());
        let server = UnixDatagram::bind(&path).unwrap();
        assert_eq!(told(&client).peer, None);
        client.connect(&path).unwrap();
        assert_eq!((told(&client).peer, told(&client).is_datagram), (Some(ino(&server)), true));
    }

    #[test]
    fn abstract_names_and_messages_that_are_cut_off_are_read() {
        assert_eq!((name(b"\0bus"), name(b"/run/x\0")), ("@bus".into(), "/run/x".into()));
        let mut found = Vec::new();
        assert!(!read(&[40, 0, 0, 0, 20, 0, 0, 0], &mut found).unwrap());
        let mut error = vec![20, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        error.extend((-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&error, &mut found).unwrap_err().raw_os_error(), Some(libc::EPERM));
        assert!(found.is_empty());
    }
}
