//! The solver of the workload `iterate` without anything around it: what `bench/iterate.py` holds the engine against.
//!
//! `plain_solver FILE SIDE WORKERS ITERATIONS`: computes, meets, and writes each row of its band with pwrite; prints nanoseconds.

use std::cell::UnsafeCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::time::Instant;

const HEADER_BYTES: u64 = 4096;

/// Two squares; the threads write disjoint rows of one and read the other.
struct Squares([UnsafeCell<Vec<f64>>; 2]);

// SAFETY: see above; the barrier separates writing a square from reading it.
unsafe impl Sync for Squares {}

fn relax(above: &[f64], here: &[f64], below: &[f64], new: &mut [f64]) -> f64 {
    let inner = here.len() - 2;
    let (above, below) = (&above[1..][..inner], &below[1..][..inner]);
    let (left, old, right) = (&here[..inner], &here[1..][..inner], &here[2..][..inner]);
    let new = &mut new[1..][..inner];
    let mut largest = 0.0f64;
    for i in 0..inner {
        let value = 0.25 * (above[i] + below[i] + left[i] + right[i]);
        largest = largest.max((value - old[i]).abs());
        new[i] = value;
    }
    largest
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| words[at].parse::<usize>().expect("a number");
    let (side, workers, iterations) = (number(2), number(3), number(4));
    let file = File::create(&words[1]).expect("a file");
    file.set_len(HEADER_BYTES + (side * side * 8) as u64).expect("room");
    file.sync_all().expect("a sync");
    let fresh = || {
        let mut square = vec![0.0; side * side];
        square[..side].fill(1.0);
        UnsafeCell::new(square)
    };
    let (squares, barrier) = (Squares([fresh(), fresh()]), Barrier::new(workers));
    let (squares, barrier, file) = (&squares, &barrier, &file);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || {
                let band = side * worker / workers..side * (worker + 1) / workers;
                let mut residual = 0.0f64;
                for iteration in 1..=iterations {
                    // SAFETY: nobody writes this square before all have met twice.
                    let from = unsafe { &*squares.0[(iteration - 1) % 2].get() };
                    let to = squares.0[iteration % 2].get();
                    let row = |row: usize| &from[row * side..][..side];
                    for i in band.start.max(1)..band.end.min(side - 1) {
                        // SAFETY: this worker's row.
                        let new = unsafe { std::slice::from_raw_parts_mut((*to).as_mut_ptr().add(i * side), side) };
                        residual = residual.max(relax(row(i - 1), row(i), row(i + 1), new));
                    }
                    barrier.wait();
                    if worker == 0 {
                        file.write_all_at(&[iteration as u8; HEADER_BYTES as usize], 0).expect("a write");
                    }
                    for i in band.clone() {
                        // SAFETY: all have met, and the square is written again after the next meeting.
                        let bytes =
                            unsafe { std::slice::from_raw_parts((*to).as_ptr().add(i * side).cast::<u8>(), side * 8) };
                        file.write_all_at(bytes, HEADER_BYTES + (i * side * 8) as u64).expect("a write");
                    }
                }
                std::hint::black_box(residual);
            });
        }
    });
    println!("{}", start.elapsed().as_nanos());
}
