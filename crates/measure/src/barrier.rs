//! Where threads wait for each other, again and again, and for none that will not come.

use std::sync::{Condvar, Mutex, MutexGuard};

use crate::control::Control;
use savemark_base::error::{Error, Result};

/// A barrier that can be aborted; its members share a `T`.
#[derive(Debug)]
pub struct Barrier<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    members: usize,
    arrived: usize,
    round: u64,
    aborted: bool,
    shared: T,
}

impl<T> Barrier<T> {
    /// Of `members` threads.
    pub fn new(members: usize, shared: T) -> Self {
        let state = State { members, arrived: 0, round: 0, aborted: false, shared };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until all have come; the last of them does `last` before anybody goes on. Whoever comes does `come` at once.
    ///
    /// # Errors
    /// That of `last`, for who did it; for the others `Interrupted`, as when one aborts, or somebody cancels by `control`.
    pub fn wait(
        &self,
        control: Option<&Control>,
        come: impl FnOnce(&mut T),
        last: impl FnOnce(&mut T) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.lock();
        come(&mut state.shared);
        state.arrived += 1;
        let round = state.round;
        loop {
            if state.aborted {
                return Err(Error::interrupted());
            }
            if state.round != round {
                return Ok(());
            }
            // One that has left may have been the last whom the others waited for.
            if state.arrived == state.members {
                let done = last(&mut state.shared);
                match done {
                    Ok(()) => (state.arrived, state.round) = (0, round + 1),
                    Err(_) => state.aborted = true,
                }
                self.changed.notify_all();
                return done;
            }
            state = match control {
                Some(control) => control.wait(&self.changed, state)?,
                None => self.changed.wait(state).expect(HELD),
            };
        }
    }

    /// One member needs the others no more. The last to leave does `last`, unless the barrier was aborted.
    pub fn leave(&self, come: impl FnOnce(&mut T), last: impl FnOnce(&mut T) -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        come(&mut state.shared);
        state.members -= 1;
        if state.members == 0 && !state.aborted {
            return last(&mut state.shared);
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Lets all who wait go, with an error: one of them will not come.
    pub fn abort(&self) {
        self.lock().aborted = true;
        self.changed.notify_all();
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().arrived
    }

    /// Shows `look` what is shared.
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock().shared)
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect(HELD)
    }
}

const HELD: &str = "no panic while held";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_acts_before_anybody_goes_on() {
        let barrier = Barrier::new(3, (0, 0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 1..100 {
                        let last = |shared: &mut (usize, usize)| {
                            assert_eq!(shared.0, 3 * round);
                            shared.1 += 1;
                            Ok(())
                        };
                        barrier.wait(None, |shared| shared.0 += 1, last).unwrap();
                        assert!(barrier.with(|shared| shared.1) >= round);
                    }
                });
            }
        });
        assert_eq!(barrier.with(|shared| *shared), (297, 99));
    }

    #[test]
    fn who_leaves_is_not_waited_for_and_who_fails_ends_it_for_all() {
        let barrier = Barrier::new(3, ());
        let wait = |barrier: &Barrier<()>| barrier.wait(None, |()| (), |()| Ok(()));
        std::thread::scope(|scope| {
            let two = [0, 1].map(|_| scope.spawn(|| wait(&barrier)));
            barrier.leave(|()| (), |()| panic!("it is not the last")).unwrap();
            two.into_iter().for_each(|waits| waits.join().unwrap().unwrap());
        });
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait(&barrier));
            barrier.abort();
            assert!(waits.join().unwrap().is_err());
        });
        let alone = Barrier::new(1, ());
        assert!(alone.wait(None, |()| (), |()| Err(Error::failed("no"))).unwrap_err().to_string().contains("no"));
        assert!(wait(&alone).is_err(), "it stays aborted");
    }
}
