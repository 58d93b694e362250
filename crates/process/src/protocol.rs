//! What CRIU says to the peer of `--stream`: a length (u32, little endian), a protobuf of one field, and a pipe's end.

use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::pipe::fcntl_setpipe_size;

use super::limits::NAME_BYTES;

/// A name, its field and its length: what is longer is not CRIU.
const MESSAGE_BYTES: usize = NAME_BYTES + 16;
/// Field 1 with a length, and field 1 with a number.
const FIELD_BYTES: u8 = 1 << 3 | 2;
const FIELD_NUMBER: u8 = 1 << 3;

/// The name of the image that CRIU is about to write, or wants to read; `None` when it has ended.
pub fn request(socket: &mut UnixStream) -> io::Result<Option<String>> {
    let mut header = [0; 4];
    if socket.read(&mut header[..1])? == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut header[1..])?;
    let len = u32::from_le_bytes(header) as usize;
    if len > MESSAGE_BYTES {
        return Err(wrong("a message is too long"));
    }
    let mut message = vec![0; len];
    socket.read_exact(&mut message)?;
    name(&message).map(Some).ok_or_else(|| wrong("a message is no request"))
}

/// The file name in a request.
fn name(message: &[u8]) -> Option<String> {
    let (field, rest) = message.split_first()?;
    let (len, start) = varint(rest)?;
    let text = rest.get(start..)?.get(..usize::try_from(len).ok()?).filter(|_| *field == FIELD_BYTES)?;
    String::from_utf8(text.to_vec()).ok()
}

/// A number of a protobuf, and how many bytes it took.
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Answers a request to read: whether there is such an image.
pub fn reply(socket: &mut UnixStream, exists: bool) -> io::Result<()> {
    socket.write_all(&[2, 0, 0, 0, FIELD_NUMBER, exists.into()])
}

/// Receives our end of the pipe that follows a request: as large as the kernel lets it be, and never waited for.
pub fn pipe(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut dummy = [0];
    recvmsg(socket, &mut [IoSliceMut::new(&mut dummy)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut ends = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(ends) => Some(ends),
        _ => None,
    });
    let end = ends.next().and_then(|mut ends| ends.next()).ok_or_else(|| wrong("a pipe is missing"))?;
    if FileType::from_raw_mode(fstat(&end)?.st_mode) != FileType::Fifo {
        return Err(wrong("something else came in the place of a pipe"));
    }
    fcntl_setfl(&end, fcntl_getfl(&end)? | OFlags::NONBLOCK)?;
    // A wish: many users share a limit, and a small pipe only costs time.
    let most = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").ok().and_then(|text| text.trim().parse().ok());
    let _ = fcntl_setpipe_size(&end, most.unwrap_or(1 << 20));
    Ok(end)
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("CRIU's streaming protocol is not as expected: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_anything_else_is_refused() {
        let (mut criu, mut us) = UnixStream::pair().unwrap();
        criu.write_all(&[13, 0, 0, 0, 0x0a, 11]).unwrap();
        criu.write_all(b"pages-1.img").unwrap();
        assert_eq!(request(&mut us).unwrap().as_deref(), Some("pages-1.img"));
        reply(&mut us, true).unwrap();
        let mut answer = [0; 6];
        criu.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [2, 0, 0, 0, 8, 1]);
        criu.write_all(&[2, 0, 0, 0, 0x08, 1]).unwrap();
        assert!(request(&mut us).unwrap_err().to_string().contains("no request"));
        criu.write_all(&[255, 255, 255, 0]).unwrap();
        assert!(request(&mut us).unwrap_err().to_string().contains("too long"));
        drop(criu);
        assert_eq!(request(&mut us).unwrap(), None);
    }

    #[test]
    fn a_name_that_ends_before_its_length_is_refused() {
        assert_eq!(name(&[0x0a, 5, b'a']), None);
        assert_eq!(name(&[0x0a, 0xff, 0xff, 0xff]), None);
        assert_eq!(name(&[]), None);
        assert_eq!(name(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, b'a']), None);
    }

    #[test]
    fn only_a_pipe_is_taken_for_one() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        let (criu, us) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [std::os::fd::AsFd::as_fd(&file)];
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&criu, &[io::IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        assert!(pipe(&us).unwrap_err().to_string().contains("place of a pipe"));
    }

    #[test]
    fn fuzz_requests() {
        use savemark_testing::mutate::fuzz;
        let request = |name: &str| {
            let message = [&[0x0a, name.len() as u8], name.as_bytes()].concat();
            [&(message.len() as u32).to_le_bytes(), &*message].concat()
        };
        let samples: Vec<Vec<u8>> = ["pages-1.img", "core-1234.img", "inventory.img"].map(request).to_vec();
        fuzz(
            "criu-requests",
            |chance| chance.bytes(&samples),
            |bytes| {
                let (mut criu, mut us) = UnixStream::pair().unwrap();
                criu.write_all(&bytes[..bytes.len().min(1 << 16)]).unwrap();
                drop(criu);
                while let Ok(Some(name)) = request_of(&mut us) {
                    assert!(name.len() <= MESSAGE_BYTES);
                }
            },
        );
    }

    fn request_of(socket: &mut UnixStream) -> io::Result<Option<String>> {
        super::request(socket)
    }
}
