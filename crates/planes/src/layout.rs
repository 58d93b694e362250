//! What a block of bytes looks like, from a small sample.

use std::sync::LazyLock;

/// Bytes of a sample, in stretches spread over the data.
pub const SAMPLE: usize = 8 << 10;
const STRETCH: usize = 1 << 10;

/// Bits per byte from which bytes are stored as they are: less than 2 % could be saved.
pub const INCOMPRESSIBLE: f32 = 7.9;
/// Bits per byte that a wider element must save over a narrower one.
const WORTH_IT: f32 = 0.1;
/// Bits per byte of the most random byte of an element below which zstd may find more than single bytes tell.
const REPETITIVE: f32 = 7.0;

/// How to store a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As it is.
    Raw,
    /// As a zstd frame.
    Zstd,
    /// As planes of numbers of `width` bytes, the first of them after `skip` bytes.
    Planes {
        /// 2 or 4.
        width: usize,
        /// Less than `width`.
        skip: usize,
        /// Whether zstd might do better.
        unsure: bool,
    },
}

impl Layout {
    /// The layout that fits `block`.
    pub fn of(block: &[u8]) -> Self {
        if block.len() < SAMPLE / 2 {
            return Self::Zstd;
        }
        let mut sample = [0; SAMPLE];
        let sample = take(block, &mut sample);
        let mut four = [[0u16; 256]; 4];
        for number in sample.as_chunks::<4>().0 {
            for (table, byte) in four.iter_mut().zip(number) {
                table[*byte as usize] += 1;
            }
        }
        let both = |a: &[u16; 256], b: &[u16; 256]| std::array::from_fn(|value| a[value] + b[value]);
        let two = [both(&four[0], &four[2]), both(&four[1], &four[3])];
        let one = entropy(&both(&two[0], &two[1]));
        let (two, four) = (two.map(|table| entropy(&table)), four.map(|table| entropy(&table)));
        let mean = |bits: &[f32]| bits.iter().sum::<f32>() / bits.len() as f32;
        if mean(&four) < mean(&two).min(one) - WORTH_IT {
            Self::planes(&four)
        } else if mean(&two) < one - WORTH_IT {
            Self::planes(&two)
        } else if one > INCOMPRESSIBLE {
            Self::Raw
        } else {
            Self::Zstd
        }
    }

    /// Numbers start where the block starts, unless the byte that would hold the exponent is a mantissa.
    fn planes(bits: &[f32]) -> Self {
        let width = bits.len();
        let lowest = (0..width).min_by(|&a, &b| bits[a].total_cmp(&bits[b])).expect("there are two or four");
        let skip = if bits[width - 1] < REPETITIVE { 0 } else { (lowest + 1) % width };
        let unsure = bits.iter().all(|&bits| bits < REPETITIVE);
        Self::Planes { width, skip, unsure }
    }
}

/// Up to [`SAMPLE`] bytes of `data`, in phase with it modulo 4.
pub fn take<'a>(data: &[u8], sample: &'a mut [u8; SAMPLE]) -> &'a [u8] {
    if data.len() <= SAMPLE {
        sample[..data.len()].copy_from_slice(data);
        return &sample[..data.len()];
    }
    let step = ((data.len() - STRETCH) / (SAMPLE / STRETCH - 1)) & !3;
    for (i, stretch) in sample.chunks_exact_mut(STRETCH).enumerate() {
        stretch.copy_from_slice(&data[i * step..][..STRETCH]);
    }
    sample
}

/// n log2 n, for the counts of a sample.
static N_LOG_N: LazyLock<Vec<f32>> =
    LazyLock::new(|| (0..=SAMPLE).map(|n| if n == 0 { 0.0 } else { n as f32 * (n as f32).log2() }).collect());

/// Bits per byte of bytes that occur so often, corrected for what a small sample hides (Miller and Madow 1955).
fn entropy(counts: &[u16; 256]) -> f32 {
    let table = &**N_LOG_N;
    let (mut total, mut seen, mut sum) = (0usize, 0usize, 0.0);
    for &count in counts {
        total += count as usize;
        seen += usize::from(count > 0);
        sum += table[count as usize];
    }
    if total == 0 {
        return 0.0;
    }
    let n = total as f32;
    (table[total] - sum) / n + (seen - 1) as f32 / (2.0 * std::f32::consts::LN_2 * n)
}

/// Whether coding a plane of which this is a sample would save next to nothing.
pub fn is_incompressible(sample: &[u8]) -> bool {
    let mut counts = [0; 256];
    for &byte in sample {
        counts[byte as usize] += 1;
    }
    entropy(&counts) > INCOMPRESSIBLE
}
