//! Where the solver's threads wait for each other, and what those who came last had spent.

use crate::workload::iterate::spent::Spent;
use savemark_base::error::Result;
use savemark_measure::barrier::Barrier;
use savemark_measure::control::Control;

/// A barrier that knows what the others waited for.
pub struct Meeting<'a> {
    control: &'a Control,
    barrier: Barrier<Late>,
}

#[derive(Default)]
struct Late {
    /// Of those who came last.
    path: Spent,
    /// Of the one who ended last, after the last meeting.
    tail: Spent,
}

impl<'a> Meeting<'a> {
    /// Of `members` threads, until somebody cancels.
    pub fn new(members: usize, control: &'a Control) -> Self {
        Self { control, barrier: Barrier::new(members, Late::default()) }
    }

    /// Waits until all have come; fails if one never will. The caller has spent `since` after the meeting before.
    pub fn meet(&self, since: Spent) -> Result<()> {
        let last = |late: &mut Late| {
            late.path.add(&since);
            Ok(())
        };
        self.barrier.wait(Some(self.control), |_| (), last)
    }

    /// What the last to come had spent on the way, of all meetings and of the end: what the others waited for.
    pub fn path(&self) -> Spent {
        self.barrier.with(|late| {
            let mut path = late.path;
            path.add(&late.tail);
            path
        })
    }

    /// Gives the meeting up when it is dropped, unless its member has ended well.
    pub fn guard(&self) -> Guard<'_, 'a> {
        Guard(Some(self))
    }
}

/// See [`Meeting::guard`].
pub struct Guard<'m, 'a>(Option<&'m Meeting<'a>>);

impl Guard<'_, '_> {
    /// Its member needs no other any more; it has spent `since` after the last meeting.
    pub fn ended_well(mut self, since: Spent) {
        let Some(meeting) = self.0.take() else { return };
        meeting.barrier.with(|late| {
            if since.total() > late.tail.total() {
                late.tail = since;
            }
        });
    }
}

impl Drop for Guard<'_, '_> {
    fn drop(&mut self) {
        if let Some(meeting) = self.0 {
            meeting.barrier.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_of_those_who_come_last() {
        let control = Control::default();
        let meeting = Meeting::new(2, &control);
        let spent = |compute_ns, sync_ns| Spent { compute_ns, sync_ns, ..Spent::default() };
        for (first, last) in [(spent(1, 0), spent(20, 0)), (spent(4, 4), spent(0, 300))] {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| meeting.meet(first));
                while meeting.barrier.waiting() == 0 {
                    std::thread::yield_now();
                }
                meeting.meet(last).unwrap();
                waiting.join().unwrap().unwrap();
            });
        }
        assert_eq!(meeting.path(), spent(20, 300));
        for since in [spent(0, 7), spent(0, 5)] {
            meeting.guard().ended_well(since);
        }
        assert_eq!(meeting.path(), spent(20, 307), "of the one who ended last");
    }

    #[test]
    fn nobody_waits_for_the_others_once_somebody_has_cancelled() {
        let control = Control::default();
        let meeting = Meeting::new(2, &control);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| meeting.meet(Spent::default()));
            control.cancel();
            assert_eq!(waiting.join().unwrap().unwrap_err().kind, savemark_base::Kind::Interrupted);
        });
    }

    #[test]
    fn nobody_waits_for_a_member_that_has_failed() {
        let control = Control::default();
        let meeting = Meeting::new(3, &control);
        let meet = || meeting.meet(Spent::default());
        std::thread::scope(|scope| {
            let waiting = [(); 2].map(|()| scope.spawn(|| meet().and_then(|()| meet())));
            meet().unwrap();
            drop(meeting.guard());
            for thread in waiting {
                assert_eq!(thread.join().unwrap().unwrap_err().kind, savemark_base::Kind::Interrupted);
            }
        });
    }
}
