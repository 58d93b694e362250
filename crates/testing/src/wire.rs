//! An HTTP server of a few lines, on loopback: it answers what a test says, byte for byte, and keeps what it was sent.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request: its line and headers, and how many came before it.
pub struct Request {
    pub head: String,
    pub number: usize,
}

/// What is sent back.
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

enum Body {
    Text(String),
    /// Until the client hangs up; with this length, or with none (in chunks).
    Endless(Option<u64>),
    Silent,
}

impl Answer {
    pub fn new(status: u16, body: &str) -> Self {
        Self { status, headers: Vec::new(), body: Body::Text(body.to_string()) }
    }
    pub fn endless(status: u16, length: Option<u64>) -> Self {
        Self { status, headers: Vec::new(), body: Body::Endless(length) }
    }
    /// Nothing, until the client hangs up.
    pub fn silent() -> Self {
        Self { status: 0, headers: Vec::new(), body: Body::Silent }
    }
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    fn send(&self, to: &mut TcpStream) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} as asked for\r\n", self.status);
        self.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        match &self.body {
            Body::Silent => std::io::copy(to, &mut std::io::sink()).map(drop),
            Body::Text(text) => to.write_all(format!("{head}Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes()),
            Body::Endless(Some(length)) => {
                to.write_all(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes())?;
                loop {
                    to.write_all(&[b'x'; 1 << 16])?;
                }
            }
            Body::Endless(None) => {
                to.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes())?;
                let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
                loop {
                    to.write_all(chunk.as_bytes())?;
                }
            }
        }
    }
}

/// The server; it ends with the process.
pub struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, requests) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let (answer, kept) = (Arc::new(answer), Arc::clone(&requests));
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                std::thread::spawn(move || serve(socket, &*answer, &kept));
            }
        });
        Self { port, requests }
    }
    pub fn port(&self) -> u16 {
        self.port
    }
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    /// Lines and headers of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(mut socket: TcpStream, answer: &dyn Fn(&Request) -> Answer, kept: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some((name, value)) =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            {
                let _ = name;
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line;
        }
        if std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).is_err() {
            return;
        }
        let number = {
            let mut kept = kept.lock().unwrap();
            kept.push(head.clone());
            kept.len() - 1
        };
        if answer(&Request { head, number }).send(&mut socket).is_err() {
            return;
        }
    }
}
