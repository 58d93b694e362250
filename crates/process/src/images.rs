//! CRIU without a stream: its images as files, on the storage itself or in memory. What the stream is compared with.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::criu::{Criu, Ended, Running};
use super::folder::Folder;
use super::gpus::Gpus;
use super::guard::Guard;
use super::options::{After, DumpOptions};
use super::peers;
use super::stall_timeout;
use super::stats;
use super::tree::Tree;
use savemark_base::error::{Error, Result};
use savemark_base::record::CriuStats;
use savemark_host::threads;
use savemark_measure::control::Control;

/// How a dump or a restore ended.
#[derive(Clone, Debug)]
pub struct Done {
    /// CRIU's end.
    pub ended: Ended,
    /// CRIU's own account.
    pub stats: CriuStats,
}

/// A program whose images are written: stopped, and let go on unless [`Dumped::kill`] is called.
pub struct Dumped {
    tree: Tree,
    _guard: Guard,
    killed: bool,
    /// How that went.
    pub done: Done,
}

impl Dumped {
    /// Its images are safe: kills it.
    pub fn kill(mut self) -> Result<()> {
        self.killed = true;
        self.tree.kill()
    }
}

impl Drop for Dumped {
    fn drop(&mut self) {
        if !self.killed {
            self.tree.go_on();
        }
    }
}

/// Writes the images of `pid` into the directory `images`.
pub fn dump(criu: &Criu, pid: i32, images: &Path, control: &Control) -> Result<Dumped> {
    let (tree, folder) = (Tree::of(pid)?, Arc::new(Folder::new()?));
    peers::check(&tree, &DumpOptions { cut_pipes: true, ..DumpOptions::new(pid, After::Kill) })?;
    if let Some(pid) = Gpus::of(&tree.pids())?.processes().first() {
        return Err(Error::refused(format!("process {pid} uses a GPU, which only the mode `stream` saves"))
            .hint("leave --mode out"));
    }
    let mut guard = Guard::go_on(tree.root, tree.stopped(), &folder)?;
    let words = ["--tree".to_string(), pid.to_string(), "--leave-stopped".to_string()];
    let mut running = criu.start("dump", &folder, Some(images), &words)?;
    guard.watch(running.pid())?;
    let ended = finish(&mut running, tree.memory_bytes(), control).inspect_err(|_| tree.go_on())?;
    let stats = stats::read(folder.path(), "stats-dump").unwrap_or_default();
    Ok(Dumped { tree, _guard: guard, killed: false, done: Done { ended, stats } })
}

/// Restores the program `root` from the images in a directory; it is stopped until all of it is there, or with `lazy`
/// until it can run: its memory follows when it is touched.
pub fn restore(criu: &Criu, root: i32, images: &Path, lazy: bool, control: &Control) -> Result<Done> {
    let folder = Arc::new(Folder::new()?);
    let pid_file = folder.path().join("pid");
    let mut guard = Guard::kill(&pid_file, &folder)?;
    let mut words = ["--restore-detached", "--leave-stopped", "--pidfile"].map(str::to_string).to_vec();
    words.push(pid_file.to_string_lossy().into_owned());
    let pages = match lazy {
        true => Some(serve_pages(criu, &folder, images)?),
        false => None,
    };
    words.extend(lazy.then(|| "--lazy-pages".to_string()));
    let mut running = criu.start("restore", &folder, Some(images), &words)?;
    guard.watch(running.pid())?;
    let ended = finish(&mut running, bytes_in(images)?, control);
    let ended = ended.inspect_err(|_| Tree::restored(root, Vec::new()).pids().into_iter().for_each(end))?;
    if let Some(mut pages) = pages {
        // It ends when every page is there; nobody waits for that here.
        let waited_for = threads::start_one(move || (pages.wait(Duration::from_secs(3600)), folder));
        waited_for.inspect_err(|_| Tree::restored(root, Vec::new()).pids().into_iter().for_each(end))?;
        Tree::restored(root, Vec::new()).go_on();
        return Ok(Done { ended, stats: CriuStats::default() });
    }
    Tree::restored(root, Vec::new()).go_on();
    let stats = stats::read(folder.path(), "stats-restore").unwrap_or_default();
    Ok(Done { ended, stats })
}

fn end(pid: i32) {
    super::tree::signal(pid, rustix::process::Signal::KILL);
}

/// Starts the process that hands out pages, and waits until it listens.
fn serve_pages(criu: &Criu, folder: &Arc<Folder>, images: &Path) -> Result<Running> {
    let mut pages = criu.start("lazy-pages", folder, Some(images), &[])?;
    let socket = folder.path().join("lazy-pages.socket");
    for _ in 0..500 {
        if socket.exists() {
            return Ok(pages);
        }
        if pages.wait(Duration::from_millis(10)).is_some() {
            return Err(pages.failed());
        }
    }
    pages.stop();
    Err(Error::failed("criu lazy-pages does not listen"))
}

/// As long as a slow disk needs for so many bytes: CRIU spins for ever over an image that ends too early.
fn finish(running: &mut Running, bytes: u64, control: &Control) -> Result<Ended> {
    let most = stall_timeout() + Duration::from_secs(bytes >> 24);
    running.finish(most, || control.check()).inspect_err(|_| running.stop())
}

/// Bytes of the files in a directory.
pub fn bytes_in(images: &Path) -> Result<u64> {
    let wrong = |e| Error::io("list", images, e);
    let entries = fs::read_dir(images).map_err(wrong)?;
    entries.map(|entry| Ok(entry.map_err(wrong)?.metadata().map_err(wrong)?.size())).sum()
}
