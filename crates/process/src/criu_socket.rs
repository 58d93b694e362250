//! The one connection with CRIU: it asks for images by name, and sends a pipe for each.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::folder::Folder;
use super::{protocol, stall_timeout};
use savemark_base::error::{Error, Result};

/// What CRIU has said.
pub enum Heard {
    /// That it is there.
    Hello,
    /// The name of an image; its pipe follows.
    Image(String),
    /// That there are no more images.
    Bye,
}

/// A listener, then a connection, then a listener that nobody comes to.
pub struct CriuSocket {
    action: &'static str,
    listener: UnixListener,
    socket: Option<UnixStream>,
}

impl CriuSocket {
    /// Listens where `criu ACTION --stream --images-dir FOLDER` looks for its peer.
    pub fn listen(action: &'static str, folder: &Folder) -> Result<Self> {
        let name = if action == "dump" { "streamer-capture.sock" } else { "streamer-serve.sock" };
        let path = folder.path().join(name);
        let listener = UnixListener::bind(&path).map_err(|e| Error::io("listen at", &path, e))?;
        Ok(Self { action, listener, socket: None })
    }

    /// Whether CRIU is connected.
    pub fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Takes what is there to be heard.
    pub fn hear(&mut self) -> Result<Heard> {
        let Some(socket) = &mut self.socket else {
            let (socket, _) = self.listener.accept().map_err(|e| self.lost(e))?;
            socket.set_read_timeout(Some(stall_timeout())).map_err(|e| self.lost(e))?;
            self.socket = Some(socket);
            return Ok(Heard::Hello);
        };
        match protocol::request(socket) {
            Ok(Some(name)) => Ok(Heard::Image(name)),
            Ok(None) => {
                self.close();
                Ok(Heard::Bye)
            }
            Err(e) => Err(self.lost(e)),
        }
    }

    /// Answers whether there is the image that was asked for.
    pub fn reply(&mut self, exists: bool) -> Result<()> {
        let sent = self.socket.as_mut().map_or(Ok(()), |socket| protocol::reply(socket, exists));
        sent.map_err(|e| self.lost(e))
    }

    /// Takes the pipe of the image that was asked for.
    pub fn pipe(&self) -> Result<OwnedFd> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected.into());
        socket.and_then(protocol::pipe).map_err(|e| self.lost(e))
    }

    /// Hangs up: an image that is under way fails.
    pub fn close(&mut self) {
        self.socket = None;
    }

    /// The error of a connection or pipe that broke.
    pub fn lost(&self, source: impl Into<io::Error>) -> Error {
        let message = format!("the connection with criu {} broke", self.action);
        Error { source: Some(source.into()), ..Error::failed(message) }
    }
}

/// Readable when there is something to [hear](CriuSocket::hear).
impl AsFd for CriuSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().map_or(self.listener.as_fd(), AsFd::as_fd)
    }
}
