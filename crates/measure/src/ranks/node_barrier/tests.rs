use std::sync::{Arc, Barrier};
use std::time::Instant;

use super::*;

fn visit(seats: usize) -> BarrierUse {
    BarrierUse { seats, stall_timeout: Duration::from_secs(20), times: 0.0, beyond: None }
}

/// Runs `rank` on a thread for each of `seats` seats of a node with so many cores.
fn together<T: Send>(seats: usize, cores: usize, rank: impl Fn(usize, NodeBarrier) -> T + Sync) -> Vec<T> {
    let made = NodeBarrier::make(seats, seats, cores).unwrap();
    let joined: Vec<_> =
        (1..seats).map(|seat| NodeBarrier::join(made.address(), seat, seats, seats, cores).unwrap()).collect();
    std::thread::scope(|scope| {
        let rank = &rank;
        let start = |(seat, barrier): (usize, NodeBarrier)| {
            scope.spawn(move || {
                barrier.begin();
                rank(seat, barrier)
            })
        };
        let threads: Vec<_> = [made].into_iter().chain(joined).enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn all(met: BarrierOutcome) -> Vec<u64> {
    let BarrierOutcome::All(numbers) = met else { panic!("{met:?}") };
    numbers
}

#[test]
fn all_know_the_numbers_of_all_at_each_meeting() {
    for (seats, cores) in [(1, 1), (2, 64), (3, 1), (16, 1)] {
        together(seats, cores, |seat, barrier| {
            for round in 0..200 {
                // The ranks come in turns, and one of them says more than the others.
                let more = if seat == round % seats { vec![7; 3] } else { Vec::new() };
                let mine = [vec![(1000 * round + seat) as u64], more].concat();
                let expected = (0..seats).flat_map(|other| {
                    let more = if other == round % seats { vec![7; 3] } else { Vec::new() };
                    [vec![(1000 * round + other) as u64], more].concat()
                });
                let found = all(barrier.meet(&visit(seats), &format!("round {round}"), &mine, false));
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            all(barrier.meet(&visit(seats), "the start of write", &[], false));
            assert_eq!(barrier.place(), "behind the start of write");
            let left = barrier.left_ns();
            assert!(left.len() == 1 && left[0].0 == "write" && left[0].1 <= clock::now());
            barrier.begin();
            assert!(barrier.left_ns().is_empty() && barrier.place().is_empty());
        });
    }
}

#[test]
fn the_first_ranks_alone_can_run_a_trial_and_all_of_them_the_next() {
    let over = Barrier::new(3);
    together(3, 1, |seat, barrier| {
        if seat < 2 {
            for _ in 0..3 {
                assert_eq!(all(barrier.meet(&visit(2), "here", &[seat as u64], false)), [0, 1]);
            }
        }
        // Nobody comes to a trial before the one before it has ended for all.
        over.wait();
        assert_eq!(all(barrier.meet(&visit(3), "there", &[seat as u64], false)), [0, 1, 2]);
    });
}

#[test]
fn what_cannot_be_said_here_is_said_apart() {
    let many = [1; ROOM + 1];
    for (one, other, apart) in
        [(("here", &many[..0]), ("there", &many[..0]), false), (("here", &many[..]), ("here", &many[..1]), false), {
            (("here", &many[..1]), ("here", &many[..1]), true)
        }]
    {
        together(2, 1, |seat, barrier| {
            let (at, numbers) = if seat == 0 { one } else { other };
            let met = barrier.meet(&visit(2), at, numbers, apart && seat == 1);
            assert!(matches!(met, BarrierOutcome::Apart), "{met:?}");
            // They can meet here again: as many numbers as there is room for.
            assert_eq!(all(barrier.meet(&visit(2), "again", &many[..ROOM], false)).len(), 2 * ROOM);
        });
    }
}

#[test]
fn the_first_rank_meets_the_other_nodes_for_all() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    together(2, 1, |seat, barrier| {
        let asked = Arc::clone(&asked);
        let beyond = move |at: &str, numbers: &[u64], apart: bool| {
            asked.lock().unwrap().push((at.to_string(), numbers.to_vec(), apart));
            match at {
                "gone" => Err(savemark_base::Error::failed("no answer")),
                "apart" => Ok(None),
                _ => Ok(Some(vec![9u64, 9])),
            }
        };
        let leader = (seat == 0).then(|| Box::new(beyond) as Box<Beyond>);
        let visit = BarrierUse { stall_timeout: Duration::from_millis(300), beyond: leader, ..visit(2) };
        // The others know that they do not open the door.
        let visit =
            if seat == 0 { visit } else { BarrierUse { beyond: Some(Box::new(|_, _, _| unreachable!())), ..visit } };
        assert_eq!(all(barrier.meet(&visit, "here", &[seat as u64], false)), [9, 9]);
        assert!(matches!(barrier.meet(&visit, "apart", &[], false), BarrierOutcome::Apart));
        all(barrier.meet(&visit, "the start of read", &[], false));
        let met = barrier.meet(&visit, "gone", &[], false);
        assert!(
            if seat == 0 { matches!(met, BarrierOutcome::Lost(_)) } else { matches!(met, BarrierOutcome::Late(_)) },
            "{met:?}"
        );
    });
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0], ("here".to_string(), vec![0, 1], false));
    assert_eq!(asked.iter().filter(|(at, ..)| at == LEAVING).count(), 1);
}

#[test]
fn nobody_waits_without_a_limit_or_after_leaving() {
    for leaves in [false, true] {
        let barrier = NodeBarrier::make(2, 2, 2).unwrap();
        barrier.begin();
        let (began, visit) = (
            Instant::now(),
            BarrierUse { stall_timeout: Duration::from_millis(if leaves { 20_000 } else { 300 }), ..visit(2) },
        );
        let met = std::thread::scope(|scope| {
            let waits = scope.spawn(|| barrier.meet(&visit, "here", &[], false));
            if leaves {
                std::thread::sleep(Duration::from_millis(50));
                barrier.leave();
            }
            waits.join().unwrap()
        });
        assert!(
            if leaves { matches!(met, BarrierOutcome::Left) } else { matches!(met, BarrierOutcome::Late(_)) },
            "{met:?}"
        );
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(barrier.place(), "waiting at here");
    }
}

#[test]
fn a_rank_without_a_processor_of_its_own_sleeps_while_others_work() {
    let (alone, crowded) = (wait::Wait::new(true), wait::Wait::new(false));
    assert!(alone.look(|| true) && crowded.look(|| true));
    let looks = std::cell::Cell::new(0);
    let count = || {
        looks.set(looks.get() + 1);
        false
    };
    assert!(!crowded.look(count) && looks.get() > 1);
    crowded.crowd();
    looks.set(0);
    assert!(!crowded.look(count) && looks.get() == 1, "woken, not looking");
    assert!(!alone.look(count) && looks.get() > 2);
}
