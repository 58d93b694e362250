//! Where the solver's threads wait for each other, again and again, without waiting for one that has failed.

use std::sync::{Condvar, Mutex};

use crate::error::{Error, Result};

/// A barrier that can be given up.
pub struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
    members: usize,
}

struct State {
    arrived: usize,
    round: u64,
    given_up: bool,
}

const HELD: &str = "no panic while held";

impl Meeting {
    /// Of `members` threads.
    pub fn new(members: usize) -> Self {
        let state = Mutex::new(State { arrived: 0, round: 0, given_up: false });
        Self { state, changed: Condvar::new(), members }
    }

    /// Waits until all have come; fails if one never will.
    pub fn meet(&self) -> Result<()> {
        let mut state = self.state.lock().expect(HELD);
        state.arrived += 1;
        let round = state.round;
        if state.arrived == self.members {
            (state.arrived, state.round) = (0, round + 1);
            self.changed.notify_all();
        }
        while state.round == round && !state.given_up {
            state = self.changed.wait(state).expect(HELD);
        }
        if state.round == round { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Gives the meeting up when it is dropped, unless its member has ended well.
    pub fn guard(&self) -> Guard<'_> {
        Guard(Some(self))
    }
}

/// See [`Meeting::guard`].
pub struct Guard<'a>(Option<&'a Meeting>);

impl Guard<'_> {
    /// Its member needs no other any more.
    pub fn ended_well(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if let Some(meeting) = self.0 {
            meeting.state.lock().expect(HELD).given_up = true;
            meeting.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_member_that_has_failed() {
        let meeting = Meeting::new(3);
        std::thread::scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| meeting.meet().and_then(|()| meeting.meet())));
            meeting.meet().unwrap();
            drop(meeting.guard());
            for thread in waiting {
                assert_eq!(thread.join().unwrap().unwrap_err().kind, crate::Kind::Interrupted);
            }
        });
    }
}
