//! The barrier of the ranks of one node: in memory that they share, without a message, and without a system call if all are on
//! time.
//!
//! A rank writes its numbers, counts itself as arrived, polls for a moment whether all are, and then sleeps until it is woken. The
//! last to arrive ends the round for all; on several nodes the node's first rank does, when it has met those of the others. The rare
//! cases go by messages: a rank that has failed, ranks at different barriers, and more numbers than there is room for make all of
//! them return [`BarrierOutcome::Apart`].

mod rank_slot;
mod wait;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use self::rank_slot::{HEAD, RankSlot};
use self::wait::{Wait, Word};
use super::START;
use super::shared::{Address, Shared};
use savemark_base::clock;
use savemark_base::error::Result;

/// Numbers that a rank can say.
const ROOM: usize = 64;

/// The second meeting at the start of a phase, at which nothing is said: the ranks leave it together.
pub const LEAVING: &str = "leaving";

/// How a meeting ended.
#[derive(Debug)]
pub enum BarrierOutcome {
    /// All have come: the numbers of all, rank after rank.
    All(Vec<u64>),
    /// All have come, and know that they must tell each other more than can be said here.
    Apart,
    /// Somebody did not come in this time.
    Late(Duration),
    /// This rank was told to wait no longer.
    Left,
    /// The other nodes could not be met.
    Lost(savemark_base::Error),
}

/// Meets the other nodes for all ranks of this one: takes the place, what those of this node said, and whether they must meet
/// apart; returns the numbers of all nodes, or none where all must meet apart.
pub type Beyond = dyn Fn(&str, &[u64], bool) -> Result<Option<Vec<u64>>> + Send + Sync;

/// A trial's use of the barrier.
pub struct BarrierUse {
    /// Ranks of this node that run it: those with the first seats.
    pub seats: usize,
    /// A meeting is waited for as long as this …
    pub stall_timeout: Duration,
    /// … and so many times the time since the last one.
    pub times: f64,
    /// Meets the other nodes, where there are any; called by the rank with the first seat alone.
    pub beyond: Option<Box<Beyond>>,
}

/// Where a rank stands.
#[derive(Debug, Default)]
struct RankPosition {
    /// What it does there: `waiting at `, for example.
    does: &'static str,
    place: String,
    met_ns: u64,
    left_ns: Vec<(String, u64)>,
}

impl RankPosition {
    /// Called around each meeting, so nothing is made for it.
    fn does(&mut self, does: &'static str, place: &str) {
        self.does = does;
        place.clone_into(&mut self.place);
    }
}

/// The memory, seen from one rank.
pub struct NodeBarrier {
    shared: Shared,
    seats: usize,
    ranks: usize,
    seat: usize,
    wait: Wait,
    position: Mutex<RankPosition>,
    gone: AtomicBool,
}

/// Bytes before the slots: how many have arrived, and how many rounds have ended.
const WORDS: usize = 2 * size_of::<Word>();

impl NodeBarrier {
    /// For `seats` ranks of this node, of `ranks` in all; its maker has the first seat. `cores` are those that they may run on.
    pub fn make(seats: usize, ranks: usize, cores: usize) -> io::Result<Self> {
        Ok(Self::with(Shared::make(bytes(seats, ranks))?, 0, seats, ranks, cores))
    }

    /// The same barrier from another seat.
    pub fn join(address: &Address, seat: usize, seats: usize, ranks: usize, cores: usize) -> io::Result<Self> {
        assert!(seat < seats, "as many seats as ranks");
        Ok(Self::with(Shared::open(address, bytes(seats, ranks))?, seat, seats, ranks, cores))
    }

    fn with(shared: Shared, seat: usize, seats: usize, ranks: usize, cores: usize) -> Self {
        let wait = Wait::new(seats <= cores);
        Self { shared, seats, ranks, seat, wait, position: Mutex::default(), gone: AtomicBool::new(false) }
    }

    /// How the other ranks find it.
    pub fn address(&self) -> &Address {
        self.shared.address()
    }

    /// A trial begins; nobody is at a meeting.
    pub fn begin(&self) {
        let position = RankPosition { met_ns: clock::now(), ..RankPosition::default() };
        *self.position() = position;
    }

    /// Where this rank was seen last: at a meeting or behind it; empty before the first.
    pub fn place(&self) -> String {
        let position = self.position();
        format!("{}{}", position.does, position.place)
    }

    /// Says where this rank is, apart from meetings.
    pub fn say(&self, place: &str) {
        self.position().does("", place);
    }

    /// How long ago this rank met the others.
    pub fn since_met(&self) -> Duration {
        Duration::from_nanos(clock::now().saturating_sub(self.position().met_ns))
    }

    /// When this rank left the start of each phase, by [`clock::now`].
    pub fn left_ns(&self) -> Vec<(String, u64)> {
        self.position().left_ns.clone()
    }

    /// This rank waits for nobody any more.
    pub fn leave(&self) {
        self.gone.store(true, Relaxed);
    }

    /// Meets the others `at` a place that all come to. `apart`: what this rank has to say cannot be said here.
    pub fn meet(&self, visit: &BarrierUse, at: &str, numbers: &[u64], apart: bool) -> BarrierOutcome {
        self.position().does("waiting at ", at);
        let mut met = self.round(visit, at, numbers, apart);
        if let (Some(phase), BarrierOutcome::All(_)) = (at.strip_prefix(START), &met) {
            // Some were woken for that, others were awake: all are now, and leave together.
            match self.round(visit, LEAVING, &[], false) {
                BarrierOutcome::All(_) => self.position().left_ns.push((phase.to_string(), clock::now())),
                other => met = other,
            }
        }
        if let BarrierOutcome::All(_) = met {
            let mut position = self.position();
            position.does("behind ", at);
            position.met_ns = clock::now();
        }
        met
    }

    fn position(&self) -> MutexGuard<'_, RankPosition> {
        self.position.lock().expect("no panic while held")
    }

    fn round(&self, visit: &BarrierUse, at: &str, numbers: &[u64], apart: bool) -> BarrierOutcome {
        let [arrived, round] = self.words();
        // The round cannot end before this rank has arrived.
        let now = round.value();
        let side = now as usize & 1;
        self.seat(side, self.seat).write(at, numbers, apart);
        let all = visit.seats as u32;
        let last = arrived.add() == all;
        let opens = if visit.beyond.is_some() { self.seat == 0 } else { last };
        if opens {
            if let Err(met) = self.until(visit, arrived, |count| count == all) {
                return met;
            }
            let (numbers, apart) = self.said(side, visit.seats);
            let answer = match &visit.beyond {
                Some(beyond) => beyond(at, &numbers, apart),
                None => Ok((!apart).then_some(numbers)),
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(error) => return BarrierOutcome::Lost(error),
            };
            let fits = answer.as_ref().is_some_and(|numbers| numbers.len() <= self.ranks * ROOM);
            self.answer(side).write("", answer.as_deref().unwrap_or_default(), !fits);
            arrived.set(0);
            round.set(now.wrapping_add(1));
            round.wake();
        } else {
            if last {
                arrived.wake();
            }
            if let Err(met) = self.until(visit, round, |ended| ended != now) {
                return met;
            }
        }
        let answer = self.answer(side);
        if answer.apart() { BarrierOutcome::Apart } else { BarrierOutcome::All(answer.numbers().collect()) }
    }

    /// What those with the first seats said, and whether they must meet apart.
    fn said(&self, side: usize, seats: usize) -> (Vec<u64>, bool) {
        let slots: Vec<RankSlot> = (0..seats).map(|seat| self.seat(side, seat)).collect();
        let apart = slots.iter().any(|slot| slot.apart() || slot.place() != slots[0].place());
        (if apart { Vec::new() } else { slots.iter().flat_map(RankSlot::numbers).collect() }, apart)
    }

    /// Waits until `done` is true of `word`, which somebody changes and then wakes who waits for it.
    fn until(
        &self,
        visit: &BarrierUse,
        word: &Word,
        done: impl Fn(u32) -> bool,
    ) -> std::result::Result<(), BarrierOutcome> {
        if self.wait.look(|| done(word.value())) {
            return Ok(());
        }
        let began = clock::now();
        let limit = visit.stall_timeout + self.since_met().mul_f64(visit.times);
        loop {
            let now = word.value();
            if done(now) {
                return Ok(());
            }
            if self.gone.load(Relaxed) {
                return Err(BarrierOutcome::Left);
            }
            if clock::now() - began > limit.as_nanos() as u64 {
                return Err(BarrierOutcome::Late(limit));
            }
            word.sleep(now);
        }
    }

    /// How many have come, and how often the door was opened.
    fn words(&self) -> [&Word; 2] {
        // SAFETY: all have the same layout, made of atomics.
        let words: &[Word] = unsafe { self.shared.at(0, 2) };
        [&words[0], &words[1]]
    }

    /// What a rank says; two sides in turns, for a quick one writes the next while a slow one reads.
    fn seat(&self, side: usize, seat: usize) -> RankSlot<'_> {
        self.board((side * self.seats + seat) * (HEAD + ROOM), HEAD + ROOM)
    }

    /// What all of them are told.
    fn answer(&self, side: usize) -> RankSlot<'_> {
        let len = HEAD + self.ranks * ROOM;
        self.board(2 * self.seats * (HEAD + ROOM) + side * len, len)
    }

    fn board(&self, first: usize, len: usize) -> RankSlot<'_> {
        // SAFETY: all have the same layout, made of atomics.
        RankSlot(unsafe { self.shared.at(WORDS + first * size_of::<AtomicU64>(), len) })
    }
}

fn bytes(seats: usize, ranks: usize) -> usize {
    WORDS + 2 * size_of::<AtomicU64>() * (seats * (HEAD + ROOM) + HEAD + ranks * ROOM)
}

#[cfg(test)]
mod tests;
