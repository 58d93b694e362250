//! The solver's memory: two squares of numbers, one read while the other is written.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use savemark_base::buffer::{Arena, align_up};
use savemark_base::error::Result;

/// The state after even iterations is in the first square, after odd ones in the second.
pub struct Grid {
    squares: [Arc<Arena>; 2],
    side: usize,
    /// Largest change of a cell in the iteration that filled each square, as bits: positive numbers order as their bits do.
    residuals: [AtomicU64; 2],
}

impl Grid {
    /// A plate of 0 degrees whose first row is kept at 1.
    pub fn new(side: usize) -> Result<Self> {
        let bytes = align_up(side * side * 8);
        let grid = Self { squares: [Arena::new(bytes)?, Arena::new(bytes)?], side, residuals: Default::default() };
        for square in 0..2 {
            // SAFETY: nobody else has the grid yet.
            unsafe { grid.row_mut(square, 0) }.fill(1.0);
        }
        Ok(grid)
    }

    /// Numbers in a row.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Bytes of the state.
    pub fn bytes(&self) -> u64 {
        (self.side * self.side * 8) as u64
    }

    /// The rows of worker `index` of `workers`.
    pub fn band(&self, index: usize, workers: usize) -> Range<usize> {
        self.side * index / workers..self.side * (index + 1) / workers
    }

    /// The rows of the state after `iteration`, as they are stored.
    pub fn rows(&self, iteration: u64, rows: Range<usize>) -> &[u8] {
        let row = self.side * 8;
        // SAFETY: inside the square, which nobody writes until the workers have met once more.
        unsafe {
            std::slice::from_raw_parts(self.squares[square(iteration)].as_ptr().add(rows.start * row), rows.len() * row)
        }
    }

    /// The whole state after `iteration`.
    pub fn state(&self, iteration: u64) -> (&[u8], u64) {
        (self.rows(iteration, 0..self.side), self.residuals[square(iteration)].load(Ordering::Relaxed))
    }

    /// Where the state after `iteration` is to be read from storage.
    ///
    /// # Safety
    /// Nobody else uses the grid meanwhile.
    #[allow(clippy::mut_from_ref)] // the caller's promise
    pub unsafe fn load_mut(&self, iteration: u64) -> &mut [u8] {
        let (first, second) = (&self.squares[0], &self.squares[1]);
        let from = if square(iteration) == 0 { first } else { second };
        // SAFETY: inside the square.
        unsafe { std::slice::from_raw_parts_mut(from.as_ptr(), self.bytes() as usize) }
    }

    /// Computes `rows` of the state after `iteration` from the one before.
    ///
    /// # Safety
    /// No other worker has any of `rows`, and all have met since the iteration before.
    pub unsafe fn sweep(&self, iteration: u64, rows: Range<usize>) {
        let (from, to) = (square(iteration - 1), square(iteration));
        let mut residual = 0.0f64;
        for row in rows.start.max(1)..rows.end.min(self.side - 1) {
            // SAFETY: the state before is not written in this iteration, and the row is this worker's.
            let (above, here, below) =
                unsafe { (self.row(from, row - 1), self.row(from, row), self.row(from, row + 1)) };
            let new = unsafe { self.row_mut(to, row) };
            residual = residual.max(relax(above, here, below, new));
        }
        self.residuals[to].fetch_max(residual.to_bits(), Ordering::Relaxed);
    }

    /// Forgets what stands where the residual of `iteration` will; called by one worker during the iteration before it.
    pub fn clear_residual(&self, iteration: u64) {
        self.residuals[square(iteration)].store(0, Ordering::Relaxed);
    }

    unsafe fn row(&self, square: usize, row: usize) -> &[f64] {
        // SAFETY: inside the square; arenas are aligned to pages.
        unsafe {
            std::slice::from_raw_parts(self.squares[square].as_ptr().cast::<f64>().add(row * self.side), self.side)
        }
    }

    #[allow(clippy::mut_from_ref)] // the caller's promise
    unsafe fn row_mut(&self, square: usize, row: usize) -> &mut [f64] {
        let start = self.squares[square].as_ptr().cast::<f64>();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(start.add(row * self.side), self.side) }
    }
}

fn square(iteration: u64) -> usize {
    (iteration % 2) as usize
}

/// Each cell becomes the mean of its four neighbours; returns the largest change. The first and the last stay.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn solved(side: usize, workers: usize, iterations: u64) -> Grid {
        let grid = Grid::new(side).unwrap();
        for iteration in 1..=iterations {
            grid.clear_residual(iteration);
            for worker in 0..workers {
                // SAFETY: one after the other.
                unsafe { grid.sweep(iteration, grid.band(worker, workers)) };
            }
        }
        grid
    }

    #[test]
    fn the_result_does_not_depend_on_the_workers_and_the_residual_falls() {
        let one = solved(33, 1, 50);
        for workers in [2, 3, 33] {
            assert!(solved(33, workers, 50).state(50) == one.state(50), "{workers}");
        }
        let residual = |iterations| f64::from_bits(solved(33, 2, iterations).state(iterations).1);
        let (early, late) = (residual(10), residual(1000));
        assert!(early > late && late > 0.0 && late < 1e-3, "{early} {late}");
    }

    #[test]
    fn the_plate_becomes_as_warm_as_its_edges_say() {
        // Laplace's equation on a square with one warm edge: a quarter in the middle, by symmetry.
        let grid = solved(33, 1, 5000);
        let middle = &grid.rows(5000, 16..17)[16 * 8..][..8];
        let value = f64::from_le_bytes(middle.try_into().unwrap());
        assert!((value - 0.25).abs() < 1e-6, "{value}");
    }
}
