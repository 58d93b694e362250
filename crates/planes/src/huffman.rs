//! Huffman coding of a plane: order 0, codes of at most 11 bits, four streams.
//!
//! A coded plane is the code lengths of the 256 byte values (4 bits each, the even value in the low half), the byte
//! lengths of the first three streams (u32), and the streams. Each stream codes a quarter of the plane (rounded up;
//! the last has what is left), first bit in the highest bit, zero bits up to a whole byte at its end.
//! Codes are canonical: numbered upwards by length, then by value.

use super::Parsed;

/// Longest code: a lookup of this many bits decodes at least one symbol, and the table (16 KiB) stays in the L1 cache.
const MAX_BITS: u32 = 11;
const STREAMS: usize = 4;
const LENGTHS: usize = 128;
const HEAD: usize = LENGTHS + 4 * (STREAMS - 1);
/// Bytes behind the coded plane that the encoder may overwrite: it stores eight at a time.
pub const SLACK: usize = 8;

/// How often each byte value occurs. Four tables: runs of one value do not wait for their own counter.
#[inline(always)]
pub fn count(plane: &[u8]) -> [u32; 256] {
    let mut tables = [[0u32; 256]; 4];
    let (words, rest) = plane.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        for (i, table) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().enumerate() {
            tables[table][(word >> (8 * i)) as usize & 255] += 1;
        }
    }
    for &byte in rest {
        tables[0][byte as usize] += 1;
    }
    std::array::from_fn(|value| tables.iter().map(|table| table[value]).sum())
}

/// Code lengths for at least two values that occur: Huffman's, cut to [`MAX_BITS`].
fn lengths(counts: &[u32; 256]) -> [u8; 256] {
    let mut values: [u8; 256] = std::array::from_fn(|value| value as u8);
    values.sort_unstable_by_key(|&value| counts[value as usize]);
    let used = &values[values.partition_point(|&value| counts[value as usize] == 0)..];

    // Leaves first, in order of weight; inner nodes come into being in that order too.
    let (n, nodes) = (used.len(), 2 * used.len() - 1);
    let (mut weights, mut parents, mut depths) = ([0u32; 511], [0u16; 511], [0u32; 511]);
    for (weight, &value) in weights.iter_mut().zip(used) {
        *weight = counts[value as usize];
    }
    let (mut leaf, mut inner) = (0, n);
    for node in n..nodes {
        for _ in 0..2 {
            let next =
                if leaf < n && (inner == node || weights[leaf] <= weights[inner]) { &mut leaf } else { &mut inner };
            parents[*next] = node as u16;
            weights[node] += weights[*next];
            *next += 1;
        }
    }
    let mut per_length = [0u32; MAX_BITS as usize + 1];
    for node in (0..nodes - 1).rev() {
        depths[node] = depths[parents[node] as usize] + 1;
        if node < n {
            per_length[depths[node].min(MAX_BITS) as usize] += 1;
        }
    }
    // Cut codes overfill the code space. Two codes of full length below a shorter one free one unit of it.
    let mut space: u32 = (1..=MAX_BITS).map(|bits| per_length[bits as usize] << (MAX_BITS - bits)).sum();
    while space > 1 << MAX_BITS {
        let above = (1..MAX_BITS as usize).rev().find(|&bits| per_length[bits] > 0).expect("256 codes fit 11 bits");
        per_length[MAX_BITS as usize] -= 1;
        per_length[above] -= 1;
        per_length[above + 1] += 2;
        space -= 1;
    }
    let mut lengths = [0; 256];
    let mut rarest = used.iter();
    for bits in (1..=MAX_BITS as usize).rev() {
        for &value in rarest.by_ref().take(per_length[bits] as usize) {
            lengths[value as usize] = bits as u8;
        }
    }
    lengths
}

/// The values that have codes, in canonical order.
fn canonical<'a>(lengths: &[u8; 256], values: &'a mut [u8; 256]) -> &'a [u8] {
    *values = std::array::from_fn(|value| value as u8);
    values.sort_by_key(|&value| lengths[value as usize]);
    &values[values.partition_point(|&value| lengths[value as usize] == 0)..]
}

/// Codes a plane in which at least two values occur; `None` where that saves less than a 32nd, and is not worth the
/// time to decode it.
pub fn encode(plane: &[u8], counts: &[u32; 256], out: &mut [u8]) -> Option<usize> {
    let lengths = lengths(counts);
    let bits: u64 = counts.iter().zip(lengths).map(|(&count, bits)| u64::from(count) * u64::from(bits)).sum();
    let most = HEAD + (bits / 8) as usize + STREAMS;
    if most >= plane.len() - plane.len() / 32 || out.len() < most + SLACK {
        return None;
    }
    // A code in the highest bits, its length in the lowest: see `encode_stream`.
    let (mut codes, mut at, mut values) = ([0u64; 256], 0, [0; 256]);
    for &value in canonical(&lengths, &mut values) {
        let bits = lengths[value as usize];
        codes[value as usize] = at << (64 - MAX_BITS) | u64::from(bits);
        at += 1 << (MAX_BITS - u32::from(bits));
    }
    for (byte, two) in out.iter_mut().zip(lengths.as_chunks::<2>().0) {
        *byte = two[0] | two[1] << 4;
    }
    let mut end = HEAD;
    for (i, part) in plane.chunks(plane.len().div_ceil(STREAMS)).enumerate() {
        let len = encode_stream(&codes, part, &mut out[end..]);
        if i < STREAMS - 1 {
            out[LENGTHS + 4 * i..][..4].copy_from_slice(&(len as u32).to_le_bytes());
        }
        end += len;
    }
    Some(end)
}

/// Four symbols are joined in a register, last one first: each shifts those before it down and enters at the
/// top. Lengths add up in the lowest byte, which 4 × 11 bits of code never reach.
#[inline(always)]
fn encode_stream(codes: &[u64; 256], part: &[u8], out: &mut [u8]) -> usize {
    let (mut pending, mut pending_bits, mut at) = (0u64, 0u64, 0);
    let mut append = |symbols: &[u8]| {
        let (mut joined, mut bits) = (0u64, 0u64);
        for &symbol in symbols.iter().rev() {
            let code = codes[symbol as usize];
            joined = joined >> (code & 63) | code;
            bits = bits.wrapping_add(code);
        }
        pending |= (joined & !255) >> (pending_bits & 63);
        pending_bits += bits & 255;
        out[at..at + 8].copy_from_slice(&pending.to_be_bytes());
        at += (pending_bits / 8) as usize;
        pending <<= pending_bits & 56;
        pending_bits &= 7;
    };
    let (groups, rest) = part.as_chunks::<4>();
    groups.iter().for_each(|group| append(group));
    append(rest);
    at + pending_bits.div_ceil(8) as usize
}

/// What one lookup of [`MAX_BITS`] bits says: bits consumed (lowest byte), number of symbols (next), symbols (rest).
type Entry = u64;
const SYMBOLS: usize = 6;

/// The table, reused from plane to plane.
pub struct Decoder {
    table: Box<[Entry; 1 << MAX_BITS]>,
    lengths: [u8; 256],
}

/// Where a stream is: offsets of input and output, and the bits that are loaded, a 1 behind the last of them.
#[derive(Clone, Copy)]
struct Lane {
    at: usize,
    end: usize,
    to: usize,
    full: usize,
    bits: u64,
}

/// Lookups between two loads: 5 × 11 bits and 7 that were left fit in the 63 that a load gives.
const LOOKUPS: usize = 5;
/// What a round takes and gives at most.
const ROUND_IN: usize = 7;
const ROUND_OUT: usize = LOOKUPS * SYMBOLS;

impl Decoder {
    pub fn new() -> Self {
        Self { table: Box::new([0; 1 << MAX_BITS]), lengths: [0; 256] }
    }

    /// Decodes exactly `plane.len()` symbols; the error says what is wrong.
    pub fn decode(&mut self, coded: &[u8], plane: &mut [u8]) -> Parsed {
        let (head, streams) = coded.split_at_checked(HEAD).ok_or("a plane has no code")?;
        self.prepare(&head[..LENGTHS])?;
        let mut lanes =
            lanes(&head[LENGTHS..], streams.len(), plane.len()).ok_or("streams are longer than they may")?;
        self.rounds(streams, plane, &mut lanes);
        for lane in lanes {
            let mut one = [lane];
            self.rounds(streams, plane, &mut one);
            self.last_symbols(streams, plane, one[0])?;
        }
        Ok(())
    }

    /// Reads the code lengths, checks that they are a complete code, and fills the table.
    fn prepare(&mut self, packed: &[u8]) -> Parsed {
        let mut lengths = [0; 256];
        for (two, byte) in lengths.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
            *two = [byte & 15, byte >> 4];
        }
        let space = |&bits: &u8| if bits == 0 { 0 } else { (1 << MAX_BITS) >> bits };
        let longest = u32::from(*lengths.iter().max().expect("256 lengths"));
        if longest > MAX_BITS || lengths.iter().map(space).sum::<u32>() != 1 << MAX_BITS {
            return Err("a code is not complete");
        }
        self.lengths = lengths;
        let mut values = [0; 256];
        let values = canonical(&lengths, &mut values);
        self.fill(values, 0, 0, MAX_BITS);
        Ok(())
    }

    /// Fills the entries from `start` on that share the symbols of `entry`; `left` bits of their index are free.
    fn fill(&mut self, values: &[u8], entry: Entry, start: usize, left: u32) {
        let mut at = start;
        let known = (entry >> 8) as usize & 255;
        if known < SYMBOLS {
            for &value in values {
                let bits = u32::from(self.lengths[value as usize]);
                let Some(left) = left.checked_sub(bits) else { break };
                let longer = (entry | u64::from(value) << (16 + 8 * known)) + 256 + u64::from(bits);
                self.fill(values, longer, at, left);
                at += 1 << left;
            }
        }
        self.table[at..start + (1 << left)].fill(entry);
    }

    /// Rounds of all lanes at once, as long as none of them can leave its input or its output.
    #[inline(always)]
    fn rounds<const N: usize>(&self, streams: &[u8], plane: &mut [u8], lanes: &mut [Lane; N]) {
        loop {
            let rounds = lanes.iter().map(Lane::rounds).min().unwrap_or(0);
            if rounds == 0 {
                return;
            }
            for _ in 0..rounds {
                for lane in lanes.iter_mut() {
                    lane.load(streams);
                }
                for _ in 0..LOOKUPS {
                    for lane in lanes.iter_mut() {
                        let entry = self.table[(lane.bits >> (64 - MAX_BITS)) as usize];
                        lane.bits <<= entry & 63;
                        plane[lane.to..lane.to + 8].copy_from_slice(&(entry >> 16).to_le_bytes());
                        lane.to += (entry >> 8) as usize & 255;
                    }
                }
            }
        }
    }

    /// The end of a stream, symbol by symbol; it must end with its input.
    fn last_symbols(&self, streams: &[u8], plane: &mut [u8], mut lane: Lane) -> Parsed {
        let mut bit = lane.at * 8 + lane.bits.trailing_zeros() as usize;
        while lane.to < lane.full {
            let window = (0..3).fold(0, |window, i| {
                let at = bit / 8 + i;
                window << 8 | u32::from(if at < lane.end { streams[at] } else { 0 })
            });
            let index = window >> (24 - MAX_BITS as usize - bit % 8) & ((1 << MAX_BITS) - 1);
            let symbol = (self.table[index as usize] >> 16) as u8;
            plane[lane.to] = symbol;
            lane.to += 1;
            bit += self.lengths[symbol as usize] as usize;
        }
        let is_end = bit.div_ceil(8) == lane.end && (bit.is_multiple_of(8) || streams[lane.end - 1] << (bit % 8) == 0);
        if is_end { Ok(()) } else { Err("a stream does not end where it should") }
    }
}

/// The four lanes at their starts; `None` when the streams do not add up.
fn lanes(lengths: &[u8], coded: usize, plane: usize) -> Option<[Lane; STREAMS]> {
    let quarter = plane.div_ceil(STREAMS);
    let mut lanes = [Lane { at: 0, end: 0, to: 0, full: 0, bits: 1 }; STREAMS];
    let mut start = 0;
    for (i, lane) in lanes.iter_mut().enumerate() {
        lane.at = start;
        lane.end = match lengths.as_chunks::<4>().0.get(i) {
            Some(len) => start.checked_add(u32::from_le_bytes(*len) as usize)?,
            None => coded,
        };
        (lane.to, lane.full) = ((i * quarter).min(plane), ((i + 1) * quarter).min(plane));
        start = lane.end;
    }
    (lanes.iter().all(|lane| lane.at <= lane.end && lane.end <= coded)).then_some(lanes)
}

impl Lane {
    /// Rounds that certainly stay inside; a load reads 8 bytes and a lookup stores 8.
    #[inline(always)]
    fn rounds(&self) -> usize {
        let input = self.end.saturating_sub(self.at + 8) / ROUND_IN;
        let output = self.full.saturating_sub(self.to + 8) / ROUND_OUT;
        input.min(output)
    }

    #[inline(always)]
    fn load(&mut self, streams: &[u8]) {
        let used = self.bits.trailing_zeros();
        self.at += used as usize / 8;
        let word: [u8; 8] = streams[self.at..self.at + 8].try_into().expect("eight bytes");
        self.bits = (u64::from_be_bytes(word) | 1) << (used % 8);
    }
}
