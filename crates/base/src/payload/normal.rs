//! Weights: independent normal numbers, made by looking up the inverse of the cumulative distribution.
//!
//! bf16 keeps 8 significant bits, so a table of 32768 magnitudes is exact enough and a draw of 64 bits gives four
//! numbers. fp32 keeps 24, so it interpolates in a table of 4096 cells, two numbers to a draw.

use std::sync::LazyLock;

use super::{BLOCK, Draws};

/// Standard deviation of the weights: the usual initialisation of a transformer.
const SD: f64 = 0.02;
const BF16_CELLS: usize = 1 << 15;
const FP32_CELLS: usize = 1 << 12;
/// Bits of a 32-bit draw below sign and cell: the position in the cell.
const FRACTION_BITS: u32 = 31 - FP32_CELLS.ilog2();

/// Magnitudes at the middle of each cell, as bf16.
static BF16: LazyLock<Box<[u16; BF16_CELLS]>> = LazyLock::new(|| {
    let quantiles = half_quantiles(2 * BF16_CELLS);
    let mut table = Box::new([0; BF16_CELLS]);
    for (cell, z) in table.iter_mut().zip(quantiles.iter().skip(1).step_by(2)) {
        *cell = to_bf16((z * SD) as f32);
    }
    table
});

/// Magnitude at the start of each cell and its slope for each step of the fraction.
static FP32: LazyLock<Box<[(f32, f32); FP32_CELLS]>> = LazyLock::new(|| {
    let mut edges = half_quantiles(FP32_CELLS);
    // The last cell has no end. Beyond 3.67 lie 1/4096 of all, 3.927 in the mean: end where that is the middle.
    edges.push(2.0 * 3.927 - edges[FP32_CELLS - 1]);
    let mut table = Box::new([(0.0, 0.0); FP32_CELLS]);
    for (cell, edge) in table.iter_mut().zip(edges.windows(2)) {
        let step = (edge[1] - edge[0]) * SD / f64::from(1u32 << FRACTION_BITS);
        *cell = ((edge[0] * SD) as f32, step as f32);
    }
    table
});

/// Little-endian bfloat16 numbers.
pub fn fill_bf16(draws: &mut Draws, out: &mut [u8; BLOCK]) {
    const SIGN: u64 = 0x8000;
    let table = &**BF16;
    for word in out.as_chunks_mut::<8>().0 {
        let bits = draws.next();
        let one = |bits: u64| u64::from(table[(bits & (SIGN - 1)) as usize]) | bits & SIGN;
        let four = one(bits) | one(bits >> 16) << 16 | one(bits >> 32) << 32 | one(bits >> 48) << 48;
        *word = four.to_le_bytes();
    }
}

/// Little-endian float32 numbers.
pub fn fill_fp32(draws: &mut Draws, out: &mut [u8; BLOCK]) {
    let table = &**FP32;
    let one = |bits: u32| {
        let (start, step) = table[(bits << 1 >> (FRACTION_BITS + 1)) as usize];
        let magnitude = start + step * (bits & ((1 << FRACTION_BITS) - 1)) as f32;
        u64::from(magnitude.to_bits() | bits & 1 << 31)
    };
    for word in out.as_chunks_mut::<8>().0 {
        let bits = draws.next();
        *word = (one(bits as u32) | one((bits >> 32) as u32) << 32).to_le_bytes();
    }
}

/// The standard normal's quantiles at 1/2 + i/(2 count), for i from 0 to count - 1.
///
/// The quantile z(p) and its slope g(p) solve z' = g, g' = z g², from z = 0, g = √(2π) at p = 1/2. Integrating that
/// (classical Runge-Kutta) needs no exp or log, which differ in the last bit from one C library to the next.
fn half_quantiles(count: usize) -> Vec<f64> {
    let slope = |(z, g): (f64, f64)| (g, z * g * g);
    let along = |(z, g): (f64, f64), (dz, dg): (f64, f64), h: f64| (z + h * dz, g + h * dg);
    let mut at = (0.0, 2.506_628_274_631_000_5);
    let mut quantiles = Vec::with_capacity(count + 1);
    for index in 0..count {
        quantiles.push(at.0);
        // The slope grows without bound towards p = 1: steps get shorter there.
        let steps = 1 + 64 / (count - index);
        let h = 0.5 / (count * steps) as f64;
        for _ in 0..steps {
            let a = slope(at);
            let b = slope(along(at, a, h / 2.0));
            let c = slope(along(at, b, h / 2.0));
            let d = slope(along(at, c, h));
            at = along(at, (a.0 + 2.0 * (b.0 + c.0) + d.0, a.1 + 2.0 * (b.1 + c.1) + d.1), h / 6.0);
        }
    }
    quantiles
}

/// Rounded to the nearest bfloat16, ties to even; `value` is finite.
fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::super::{PayloadKind, fill};
    use super::*;

    #[test]
    fn quantiles_are_the_normals() {
        let quantiles = half_quantiles(20_000);
        for (p, z) in
            [(0.5, 0.0), (0.75, 0.674_489_75), (0.975, 1.959_963_98), (0.999, 3.090_232_31), (0.9999, 3.719_016_49)]
        {
            let got = quantiles[((2.0 * p - 1.0) * 20_000.0_f64).round() as usize];
            assert!((got - z).abs() < 1e-6, "{p}: {got} instead of {z}");
        }
    }

    fn samples(kind: PayloadKind) -> Vec<f64> {
        let mut data = vec![0; 16 << 20];
        fill(kind, 11, 0, &mut data);
        let widen = |two: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16);
        match kind {
            PayloadKind::Bf16 => data.as_chunks().0.iter().map(|two| f64::from(widen(two))).collect(),
            _ => data.as_chunks().0.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect(),
        }
    }

    /// Bounds are five standard errors of 4 million samples.
    #[test]
    fn weights_are_normal() {
        for kind in [PayloadKind::Bf16, PayloadKind::Fp32] {
            let samples = samples(kind);
            let n = samples.len() as f64;
            let moment = |power| samples.iter().map(|x| (x / SD).powi(power)).sum::<f64>() / n;
            assert!(moment(1).abs() < 5.0 / n.sqrt(), "{kind}: mean {}", moment(1));
            assert!((moment(2) - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{kind}: variance {}", moment(2));
            assert!((moment(4) - 3.0).abs() < 0.03, "{kind}: kurtosis {}", moment(4));
            let within = samples.iter().filter(|x| x.abs() <= SD).count() as f64 / n;
            assert!((within - 0.6827).abs() < 0.002, "{kind}: {within} within one standard deviation");
            let lagged = samples.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / (SD * SD * n);
            assert!(lagged.abs() < 5.0 / n.sqrt(), "{kind}: neighbours correlate by {lagged}");
        }
    }
}
