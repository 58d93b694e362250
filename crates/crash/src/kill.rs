//! SIGKILL at random moments: the kernel and its cache live on.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use savemark_base::{Error, Result};
use savemark_engine::workload::iterate::save_observer::SaveObserver;
use serde::Serialize;

use crate::Job;
use crate::process::{ROOM, fork};
use crate::random::Random;
use crate::subject::{make_root, root};
use crate::verdict::{Moment, SETTLED, Tally};

/// What kills left of one subject.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Kills.
    pub points: u64,
    /// Of them, those in the middle of a save.
    pub in_save: u64,
    /// What was found.
    pub tally: Tally,
}

/// Saves of a child: more than it gets to in the time that it is given.
const SAVES: u64 = 200;

/// Kills children of random age, each in a directory of its own.
pub fn run(job: &Job) -> Result<Report> {
    let (image, at) = (Path::new(ROOM).join("image"), Path::new(ROOM).join("at"));
    std::fs::create_dir_all(&at).map_err(|e| Error::io("make the directory", &at, e))?;
    job.filesystem.make(&image)?;
    let mounted = job.filesystem.mount(&image, &at)?;
    let judge = job.subject.judge(SAVES)?;
    let (mut report, mut random) = (Report::default(), Random::new(job.seed));
    let shared = Shared::new()?;
    let mut whole_life = Duration::from_millis(50);
    for _ in 0..job.points {
        make_root(&at)?;
        shared.reset();
        let child = fork(|| job.subject.run(&root(&at), SAVES, &shared))?;
        while shared.moment().returned < SETTLED && !child.has_ended() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let start = Instant::now();
        let age = whole_life.mul_f64(random.below(1000) as f64 / 1000.0);
        while start.elapsed() < age && !child.has_ended() {
            std::thread::sleep(Duration::from_micros(50));
        }
        if child.has_ended() {
            // Too late: the next ones get less time.
            child.wait()?;
            whole_life = whole_life.min(start.elapsed());
        } else {
            child.kill();
        }
        let moment = shared.moment();
        report.points += 1;
        report.in_save += u64::from(moment.begun != moment.returned);
        let place = || format!("killed {} µs after the first saves", age.as_micros());
        report.tally.add(job.subject, moment, &judge.look(&root(&at)), place);
        std::fs::remove_dir_all(root(&at)).map_err(|e| Error::io("remove", &at, e))?;
    }
    mounted.unmount()?;
    Ok(report)
}

/// Memory that a child and its parent both see, and that outlives the child.
struct Shared(*const [AtomicU64; 2]);

// SAFETY: atomics.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Result<Self> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: fresh memory, which is never unmapped.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 16, access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Error::io("share memory with", Path::new("a child"), error));
        }
        Ok(Self(memory.cast()))
    }

    fn reset(&self) {
        self.iter().for_each(|number| number.store(0, Ordering::SeqCst));
    }

    fn moment(&self) -> Moment {
        // A save that begins meanwhile has begun all the same.
        let returned = self[1].load(Ordering::SeqCst);
        Moment { begun: self[0].load(Ordering::SeqCst), returned }
    }
}

impl std::ops::Deref for Shared {
    type Target = [AtomicU64; 2];
    fn deref(&self) -> &Self::Target {
        // SAFETY: it is there for as long as the process is.
        unsafe { &*self.0 }
    }
}

impl SaveObserver for Shared {
    fn begins(&self, generation: u64) -> Result<()> {
        self[0].store(generation, Ordering::SeqCst);
        Ok(())
    }

    fn returned(&self, generation: u64) -> Result<()> {
        self[1].store(generation, Ordering::SeqCst);
        Ok(())
    }
}
