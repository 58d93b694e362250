//! Power loss: a recording of what reaches the device, then many devices as a failure would leave them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::syncfs;
use savemark_base::{Error, Result};
use savemark_engine::workload::iterate::Lasts;
use savemark_engine::workload::iterate::save_observer::SaveObserver;
use serde::Serialize;

use crate::Job;
use crate::disk::Filesystem;
use crate::fuse::{self, Disk};
use crate::image::Image;
use crate::log::{self, Entry, Mark};
use crate::points::{self, Point};
use crate::process::{self, Mounted, ROOM, fork, mount};
use crate::random::Random;
use crate::subject::{Found, Judge, Subject, make_root, root};
use crate::verdict::{Moment, Tally};

/// What power losses left of one subject on one filesystem.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Crashes that were played.
    pub points: u64,
    /// Of them, those right after a flush, all that followed lost.
    pub boundaries: u64,
    /// What reached the device in the recordings.
    pub writes: u64,
    /// See [`Self::writes`].
    pub flushes: u64,
    /// What was found.
    pub tally: Tally,
}

/// Records twice and plays the failures of each. In the second recording something else on the machine syncs the filesystem now
/// and then, as the kernel's own flusher does; of what is never flushed, nothing else would reach the device.
pub fn run(job: &Job) -> Result<Report> {
    let mut report = Report::default();
    let saves = job.subject.saves();
    let judge = job.subject.judge(saves)?;
    let mut random = Random::new(job.seed);
    for second in [false, true] {
        let disturbed = second || job.subject.lasts() == Lasts::Unknown;
        let recording = record(job, saves, disturbed, random.draw())?;
        let left = job.points as usize - report.points as usize;
        let count = if second { left } else { left / 2 };
        let chosen = match job.lag {
            0 => points::choose(&recording.log, count, &mut random),
            lag => points::lagging(&recording.log, count, lag as usize, &mut random),
        };
        report.writes += recording.log.iter().filter(|entry| matches!(entry, Entry::Write { .. })).count() as u64;
        report.flushes += recording.log.iter().filter(|entry| **entry == Entry::Flush).count() as u64;
        report.points += chosen.len() as u64;
        report.boundaries += chosen.iter().filter(|point| point.at == point.flushed).count() as u64;
        play(job, &recording, &chosen, &judge, &mut report.tally)?;
    }
    Ok(report)
}

/// A fresh filesystem, and what was done to it.
struct Recording {
    base: Image,
    log: Vec<Entry>,
}

fn in_room(name: &str) -> PathBuf {
    Path::new(ROOM).join(name)
}

fn directory(name: &str) -> Result<PathBuf> {
    let path = in_room(name);
    std::fs::create_dir_all(&path).map_err(|e| Error::io("make the directory", &path, e))?;
    Ok(path)
}

/// Lets the subject save on a filesystem whose device writes everything down.
fn record(job: &Job, saves: u64, disturbed: bool, seed: u64) -> Result<Recording> {
    let (image, at, served, log) = (in_room("image"), directory("at")?, directory("served")?, in_room("log"));
    job.filesystem.make(&image)?;
    let base = Image::read(&image)?;
    let device = serve(&base, &served, &log)?;
    let mounted = job.filesystem.mount(&served.join(fuse::DISK), &at)?;
    make_root(&at)?;
    let marks = MarkFile::open(&served.join(fuse::MARK), disturbed.then_some(seed))?;
    fork(|| save_disturbed(job.subject, &at, saves, &marks, disturbed.then_some(seed)))?.wait()?;
    marks.say(Mark::End)?;
    drop(marks);
    mounted.unmount()?;
    device.finish()?;
    let wrong = |e| Error::io("read the recording", &log, e);
    let log = log::read(File::open(&log).map_err(wrong)?).map_err(wrong)?;
    Ok(Recording { base, log })
}

/// Of `linux/prctl.h`.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

/// A child that serves the device, and its mount.
struct Device {
    mount: Mounted,
    child: crate::process::Child,
}

impl Device {
    fn finish(self) -> Result<()> {
        self.mount.unmount()?;
        self.child.wait()
    }
}

/// Starts to serve `base` at `at`; a child of its own, so that its end is an end of the device for those who wait for it.
fn serve(base: &Image, at: &Path, log: &Path) -> Result<Device> {
    let fuse = Path::new("/dev/fuse");
    let channel = OpenOptions::new().read(true).write(true).open(fuse).map_err(|e| Error::io("open", fuse, e))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", channel.as_raw_fd());
    mount("savemark", at, "fuse.savemark", &options)?;
    let mount = Mounted(at.to_path_buf());
    let child = fork(|| {
        process::leave_room(at)?;
        // Memory for us must not wait for pages that only we can write out. Refused on old kernels: it is a precaution.
        // SAFETY: a call with no memory of ours.
        unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
        let wrong = |e| Error::io("record to", log, e);
        let writer = log::Writer::new(File::create(log).map_err(wrong)?);
        let mut recorder = Recorder { image: base.clone(), log: writer };
        fuse::serve(&channel, &mut recorder).and_then(|()| recorder.log.finish()).map_err(wrong)
    })?;
    Ok(Device { mount, child })
}

/// The device.
struct Recorder {
    image: Image,
    log: log::Writer<File>,
}

impl Disk for Recorder {
    fn bytes(&self) -> u64 {
        self.image.bytes()
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        self.image.fill(offset, data);
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.image.write(offset, data);
        self.log.write(offset, data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.log.flush()
    }

    fn mark(&mut self, data: &[u8]) -> std::io::Result<()> {
        Mark::from_bytes(data).map_or(Err(std::io::ErrorKind::InvalidData.into()), |mark| self.log.mark(mark))
    }
}

/// Tells the recording what the subject does.
struct MarkFile {
    file: Mutex<File>,
    /// Where saves keep a random distance, so that they meet the other syncs at all of their stages.
    pause: Option<Mutex<Random>>,
}

impl MarkFile {
    fn open(path: &Path, pause: Option<u64>) -> Result<Self> {
        let file = OpenOptions::new().write(true).open(path).map_err(|e| Error::io("open", path, e))?;
        Ok(Self { file: Mutex::new(file), pause: pause.map(|seed| Mutex::new(Random::new(seed))) })
    }

    fn say(&self, mark: Mark) -> Result<()> {
        let mut file = self.file.lock().expect("no panic while held");
        file.write_all(&mark.to_bytes()).map_err(|e| Error::io("say to", Path::new("the recording"), e))
    }
}

impl SaveObserver for MarkFile {
    fn begins(&self, generation: u64) -> Result<()> {
        self.say(Mark::Begins(generation))
    }

    fn returned(&self, generation: u64) -> Result<()> {
        self.say(Mark::Returned(generation))?;
        if let Some(random) = &self.pause {
            let pause = random.lock().expect("no panic while held").below(2000);
            std::thread::sleep(Duration::from_micros(pause as u64));
        }
        Ok(())
    }
}

/// The subject at work, with `disturb` while another thread syncs the filesystem at random times.
fn save_disturbed(
    subject: Subject,
    at: &Path,
    saves: u64,
    observer: &dyn SaveObserver,
    disturb: Option<u64>,
) -> Result<()> {
    let Some(seed) = disturb else { return subject.run(&root(at), saves, observer) };
    let ended = AtomicBool::new(false);
    let wrong = |e| Error::io("sync", at, e);
    let filesystem = File::open(at).map_err(wrong)?;
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut random = Random::new(!seed);
            while !ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(random.below(1500) as u64));
                syncfs(&filesystem).map_err(|e| wrong(e.into()))?;
            }
            Ok(())
        });
        let done = subject.run(&root(at), saves, observer);
        ended.store(true, Ordering::Relaxed);
        let synced = other.join().unwrap_or_else(|_| Err(Error::failed("the syncing thread panicked")));
        done.and(synced)
    })
}

/// Makes the device of each point, mounts it, so that the filesystem recovers, and looks.
fn play(job: &Job, recording: &Recording, chosen: &[Point], judge: &Judge, tally: &mut Tally) -> Result<()> {
    let (path, at) = (in_room("image"), directory("at")?);
    let (mut medium, mut applied) = (recording.base.clone(), 0);
    for point in chosen {
        // Points come by place, but those of a lagging disk may reach back.
        if point.flushed < applied {
            (medium, applied) = (recording.base.clone(), 0);
        }
        points::apply(&recording.log[applied..point.flushed], &mut medium);
        applied = point.flushed;
        let mut image = medium.clone();
        point.apply(&recording.log, &mut image);
        image.save(&path)?;
        let found = look(job.filesystem, &path, &at, judge)?;
        let moment = Moment { begun: point.begun, returned: point.returned };
        tally.add(job.subject, moment, &found, || {
            let (kept, of) = (point.kept.len(), point.at - point.flushed);
            format!("{} after entry {}, {kept} pieces kept of {of} unflushed entries", job.filesystem.name(), point.at)
        });
    }
    Ok(())
}

/// A filesystem that cannot be mounted any more has lost what was in it.
fn look(filesystem: Filesystem, image: &Path, at: &Path, judge: &Judge) -> Result<Found> {
    match filesystem.mount(image, at) {
        Err(error) => Ok(Found::Nothing(error.to_string())),
        Ok(mounted) => {
            let found = judge.look(&root(at));
            mounted.unmount().map(|()| found)
        }
    }
}
