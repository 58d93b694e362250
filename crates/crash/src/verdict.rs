//! What was found, against what was promised.

use savemark_engine::workload::iterate::Lasts;
use serde::Serialize;

use crate::subject::{Found, Subject};

/// When it was.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The last save that had begun.
    pub begun: u64,
    /// The last save that had returned.
    pub returned: u64,
}

/// How often what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// A whole state, not older than the save that had returned last.
    pub current: u64,
    /// A whole state, older than that.
    pub old: u64,
    /// A mixture that a restart takes for a state.
    pub torn: u64,
    /// Nothing that can be read.
    pub lost: u64,
}

/// All that was found of one subject.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    /// Crashes while no save was under way.
    pub at_rest: Counts,
    /// Crashes in the middle of a save.
    pub in_save: Counts,
    /// How many were against the contract.
    pub broken: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl Tally {
    /// Adds one crash; `place` says how to find it again.
    pub fn add(&mut self, subject: Subject, moment: Moment, found: &Found, place: impl FnOnce() -> String) {
        let at_rest = moment.begun == moment.returned;
        let counts = if at_rest { &mut self.at_rest } else { &mut self.in_save };
        match found {
            Found::Whole(generation) if *generation >= moment.returned => counts.current += 1,
            Found::Whole(_) => counts.old += 1,
            Found::Torn(_) => counts.torn += 1,
            Found::Nothing(_) => counts.lost += 1,
        }
        if !keeps(subject.lasts(), subject.can_tear(), moment, found) {
            self.broken += 1;
            if self.examples.len() < 3 {
                let Moment { begun, returned } = moment;
                self.examples.push(format!("{}: {returned} had returned, {begun} begun, found {found:?}", place()));
            }
        }
    }
}

/// Crashes are played after so many saves have returned: before, one that lasts when the next begins has nothing to lose.
pub const SETTLED: u64 = 2;

/// Whether a finding is what the contract allows.
fn keeps(lasts: Lasts, can_tear: bool, moment: Moment, found: &Found) -> bool {
    // The oldest generation that may be found.
    let floor = match lasts {
        Lasts::Unknown => 0,
        Lasts::ByTheNext => moment.returned.saturating_sub(1),
        Lasts::OnReturn => moment.returned,
    };
    match found {
        Found::Whole(generation) => (floor..=moment.begun).contains(generation),
        // Between two saves there is nothing that could be half done, unless the last one still is.
        _ => can_tear && (lasts == Lasts::Unknown || moment.begun != moment.returned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_kept_and_broken() {
        let (rest, saving) = (Moment { begun: 5, returned: 5 }, Moment { begun: 6, returned: 5 });
        let torn = || Found::Torn(String::new());
        let nothing = || Found::Nothing(String::new());
        let whole = Found::Whole;
        use Lasts::{ByTheNext, OnReturn, Unknown};
        for (lasts, can_tear, moment, found, kept) in [
            // Nothing is promised.
            (Unknown, true, rest, torn(), true),
            (Unknown, true, rest, nothing(), true),
            (Unknown, true, rest, whole(1), true),
            (Unknown, true, rest, whole(6), false),
            // In place, durable on return.
            (OnReturn, true, rest, whole(5), true),
            (OnReturn, true, rest, whole(4), false),
            (OnReturn, true, rest, torn(), false),
            (OnReturn, true, rest, nothing(), false),
            (OnReturn, true, saving, torn(), true),
            (OnReturn, true, saving, whole(6), true),
            (OnReturn, true, saving, whole(4), false),
            // Never torn.
            (OnReturn, false, saving, whole(5), true),
            (OnReturn, false, saving, whole(6), true),
            (OnReturn, false, saving, whole(4), false),
            (OnReturn, false, saving, torn(), false),
            (OnReturn, false, saving, nothing(), false),
            // One behind.
            (ByTheNext, false, rest, whole(4), true),
            (ByTheNext, false, saving, whole(4), true),
            (ByTheNext, false, saving, whole(3), false),
            (ByTheNext, false, rest, torn(), false),
            (ByTheNext, false, rest, nothing(), false),
        ] {
            assert_eq!(keeps(lasts, can_tear, moment, &found), kept, "{lasts:?} {can_tear} {moment:?} {found:?}");
        }
    }
}
