//! Where the ranks of one node meet: in memory that they share, without a message and without a system call if all are on time.
//!
//! A rank writes what it has to say, counts itself as here, and looks for a moment whether all are; then it sleeps until it is
//! woken. The last one to come opens the door for all; on several nodes the node's first rank does, when it has met those of the
//! others. What is rare is not said here: a rank that has failed, ranks at different places and more numbers than there is room
//! for make all of them meet [`Met::Apart`], by messages.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::thread::futex::{self, Flags};

use super::START;
use super::shared::{Address, Shared};
use crate::error::Result;
use crate::measure::clock;

/// Numbers that a rank can say.
const ROOM: usize = 64;
/// For so long it is looked whether all are here: longer than waking up takes, too short to disturb who still measures.
const SPIN_NS: u64 = 100_000;
/// Who sleeps looks again after so long whether it is to wait any longer.
const SLICE: Duration = Duration::from_millis(100);

/// The second meeting at the start of a phase, at which nothing is said: the ranks leave it together.
pub const LEAVING: &str = "leaving";

/// How a meeting ended.
#[derive(Debug)]
pub enum Met {
    /// All have come: the numbers of all, rank after rank.
    All(Vec<u64>),
    /// All have come, and know that they must tell each other more than can be said here.
    Apart,
    /// Somebody did not come in this time.
    Late(Duration),
    /// This rank was told to wait no longer.
    Left,
    /// The other nodes could not be met.
    Lost(crate::Error),
}

/// Meets the other nodes for all ranks of this one: takes the place, what those of this node said, and whether they must meet
/// apart; returns the numbers of all nodes, or none where all must meet apart.
pub type Beyond = dyn Fn(&str, &[u64], bool) -> Result<Option<Vec<u64>>> + Send + Sync;

/// A trial's use of the hall.
pub struct Visit {
    /// Ranks of this node that run it: those with the first seats.
    pub seats: usize,
    /// A meeting is waited for as long as this …
    pub patience: Duration,
    /// … and so many times the time since the last one.
    pub times: f64,
    /// Meets the other nodes, where there are any; called by the rank with the first seat alone.
    pub beyond: Option<Box<Beyond>>,
}

/// Where a rank stands.
#[derive(Debug, Default)]
struct Stand {
    place: String,
    met_ns: u64,
    left_ns: Vec<(String, u64)>,
}

/// The memory, seen from one rank.
pub struct Hall {
    shared: Shared,
    seats: usize,
    ranks: usize,
    seat: usize,
    /// Each rank has a processor: one that looks takes it from none of the others.
    spins: bool,
    stand: Mutex<Stand>,
    gone: AtomicBool,
}

/// Alone in its line of the processors' caches.
#[repr(align(128))]
struct Line(AtomicU32);

/// What is said: whether to meet apart, the place, how many numbers, and these.
struct Board<'a>(&'a [AtomicU64]);

const APART: usize = 0;
const PLACE: usize = 1;
const COUNT: usize = 2;
const HEAD: usize = 8;
const LINES: usize = 2 * size_of::<Line>();

impl Hall {
    /// For `seats` ranks of this node, of `ranks` in all; its maker has the first seat. `cores` are those that they may run on.
    pub fn make(seats: usize, ranks: usize, cores: usize) -> io::Result<Self> {
        Ok(Self::with(Shared::make(bytes(seats, ranks))?, 0, seats, ranks, cores))
    }

    /// The same hall from another seat.
    pub fn join(address: &Address, seat: usize, seats: usize, ranks: usize, cores: usize) -> io::Result<Self> {
        assert!(seat < seats, "as many seats as ranks");
        Ok(Self::with(Shared::open(address, bytes(seats, ranks))?, seat, seats, ranks, cores))
    }

    fn with(shared: Shared, seat: usize, seats: usize, ranks: usize, cores: usize) -> Self {
        let spins = seats <= cores;
        Self { shared, seats, ranks, seat, spins, stand: Mutex::default(), gone: AtomicBool::new(false) }
    }

    /// How the other ranks find it.
    pub fn address(&self) -> &Address {
        self.shared.address()
    }

    /// A trial begins; nobody is at a meeting.
    pub fn begin(&self) {
        let stand = Stand { met_ns: clock::now(), ..Stand::default() };
        *self.stand() = stand;
    }

    /// Where this rank was seen last: at a meeting or behind it; empty before the first.
    pub fn place(&self) -> String {
        self.stand().place.clone()
    }

    /// Says where this rank is, apart from meetings.
    pub fn say(&self, place: &str) {
        place.clone_into(&mut self.stand().place);
    }

    /// How long ago this rank met the others.
    pub fn since_met(&self) -> Duration {
        Duration::from_nanos(clock::now().saturating_sub(self.stand().met_ns))
    }

    /// When this rank left the start of each phase, by [`clock::now`].
    pub fn left_ns(&self) -> Vec<(String, u64)> {
        self.stand().left_ns.clone()
    }

    /// This rank waits for nobody any more.
    pub fn leave(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Meets the others `at` a place that all come to. `apart`: what this rank has to say cannot be said here.
    pub fn meet(&self, visit: &Visit, at: &str, numbers: &[u64], apart: bool) -> Met {
        self.say(&format!("waiting at {at}"));
        let mut met = self.round(visit, at, numbers, apart);
        if let (Some(phase), Met::All(_)) = (at.strip_prefix(START), &met) {
            // Some were woken for that, others were awake: all are now, and leave together.
            match self.round(visit, LEAVING, &[], false) {
                Met::All(_) => self.stand().left_ns.push((phase.to_string(), clock::now())),
                other => met = other,
            }
        }
        if let Met::All(_) = met {
            let mut stand = self.stand();
            stand.place = format!("behind {at}");
            stand.met_ns = clock::now();
        }
        met
    }

    fn stand(&self) -> MutexGuard<'_, Stand> {
        self.stand.lock().expect("no panic while held")
    }

    fn round(&self, visit: &Visit, at: &str, numbers: &[u64], apart: bool) -> Met {
        let [came, turn] = self.door();
        // It does not turn before this rank has come.
        let now = turn.load(Acquire);
        let side = now as usize & 1;
        self.seat(side, self.seat).write(at, numbers, apart);
        let all = visit.seats as u32;
        let last = came.fetch_add(1, AcqRel) + 1 == all;
        let opens = if visit.beyond.is_some() { self.seat == 0 } else { last };
        if opens {
            if let Err(met) = self.until(visit, came, |count| count == all) {
                return met;
            }
            let (numbers, apart) = self.said(side, visit.seats);
            let answer = match &visit.beyond {
                Some(beyond) => beyond(at, &numbers, apart),
                None => Ok((!apart).then_some(numbers)),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => return Met::Lost(error),
            };
            let fits = answer.as_ref().is_some_and(|numbers| numbers.len() <= self.ranks * ROOM);
            self.answer(side).write("", answer.as_deref().unwrap_or_default(), !fits);
            came.store(0, Relaxed);
            turn.store(now.wrapping_add(1), Release);
            wake(turn);
        } else {
            if last {
                wake(came);
            }
            if let Err(met) = self.until(visit, turn, |turned| turned != now) {
                return met;
            }
        }
        let answer = self.answer(side);
        if answer.apart() { Met::Apart } else { Met::All(answer.numbers().collect()) }
    }

    /// What those with the first seats said, and whether they must meet apart.
    fn said(&self, side: usize, seats: usize) -> (Vec<u64>, bool) {
        let boards: Vec<Board> = (0..seats).map(|seat| self.seat(side, seat)).collect();
        let apart = boards.iter().any(|board| board.apart() || board.place() != boards[0].place());
        (if apart { Vec::new() } else { boards.iter().flat_map(Board::numbers).collect() }, apart)
    }

    /// Waits until `done` is true of `word`, which somebody changes and then wakes who waits for it.
    fn until(&self, visit: &Visit, word: &AtomicU32, done: impl Fn(u32) -> bool) -> std::result::Result<(), Met> {
        let began = clock::now();
        while self.spins && clock::now() - began < SPIN_NS {
            for _ in 0..16 {
                if done(word.load(Acquire)) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        let limit = visit.patience + self.since_met().mul_f64(visit.times);
        loop {
            let now = word.load(Acquire);
            if done(now) {
                return Ok(());
            }
            if self.gone.load(Relaxed) {
                return Err(Met::Left);
            }
            if clock::now() - began > limit.as_nanos() as u64 {
                return Err(Met::Late(limit));
            }
            let slice = SLICE.try_into().expect("a tenth of a second");
            // Whatever ends the sleep: it is looked again.
            let _ = futex::wait(word, Flags::empty(), now, Some(&slice));
        }
    }

    /// How many have come, and how often the door was opened.
    fn door(&self) -> [&AtomicU32; 2] {
        // SAFETY: all have the same layout, made of atomics.
        let lines: &[Line] = unsafe { self.shared.at(0, 2) };
        [&lines[0].0, &lines[1].0]
    }

    /// What a rank says; two sides in turns, for a quick one writes the next while a slow one reads.
    fn seat(&self, side: usize, seat: usize) -> Board<'_> {
        self.board((side * self.seats + seat) * (HEAD + ROOM), HEAD + ROOM)
    }

    /// What all of them are told.
    fn answer(&self, side: usize) -> Board<'_> {
        let len = HEAD + self.ranks * ROOM;
        self.board(2 * self.seats * (HEAD + ROOM) + side * len, len)
    }

    fn board(&self, first: usize, len: usize) -> Board<'_> {
        // SAFETY: all have the same layout, made of atomics.
        Board(unsafe { self.shared.at(LINES + first * size_of::<AtomicU64>(), len) })
    }
}

impl Board<'_> {
    fn write(&self, place: &str, numbers: &[u64], apart: bool) {
        let fits = numbers.len() <= self.0.len() - HEAD;
        let mut hash = DefaultHasher::new();
        place.hash(&mut hash);
        self.0[APART].store(u64::from(apart || !fits), Relaxed);
        self.0[PLACE].store(hash.finish(), Relaxed);
        self.0[COUNT].store(if fits { numbers.len() as u64 } else { 0 }, Relaxed);
        for (word, number) in self.0[HEAD..].iter().zip(numbers) {
            word.store(*number, Relaxed);
        }
    }

    fn apart(&self) -> bool {
        self.0[APART].load(Relaxed) != 0
    }

    fn place(&self) -> u64 {
        self.0[PLACE].load(Relaxed)
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        let count = self.0[COUNT].load(Relaxed) as usize;
        self.0[HEAD..].iter().take(count).map(|word| word.load(Relaxed))
    }
}

fn bytes(seats: usize, ranks: usize) -> usize {
    LINES + 2 * size_of::<AtomicU64>() * (seats * (HEAD + ROOM) + HEAD + ranks * ROOM)
}

fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, Flags::empty(), i32::MAX as u32);
}

#[cfg(test)]
mod tests;
