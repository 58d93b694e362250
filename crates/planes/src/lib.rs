//! Weights: numbers split into byte planes, each stored as it compresses.
//!
//! zstd sees bf16 weights as bytes of which every other one is noise. Apart, the noise (sign and mantissa) is copied,
//! and the exponents, 2.6 bits of information each, are Huffman-coded: no search for matches, which weights do not
//! have. What is not made of numbers goes to zstd level 1, and what nothing makes smaller is copied.
//!
//! `docs/format.md` says what is written, precise enough for another reader.

mod huffman;
mod layout;
mod split;
#[cfg(test)]
mod tests;

use layout::{Layout, SAMPLE};
use savemark_base::buffer::ALIGN;
use savemark_base::error::{Error, Result};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

const MAGIC: [u8; 4] = *b"SMPL";
const VERSION: u32 = 1;
const HEAD: usize = 24;
const SEGMENT_HEAD: usize = 12;
const PLANE_HEAD: usize = 8;
/// Bytes whose layout is decided at a time; neighbours of one layout share a segment.
const BLOCK: usize = 128 << 10;
/// Most bytes of a segment: as many as zstd level 1 looks back over, eight times.
const LARGEST: usize = 4 << 20;
/// Most bytes of a segment of planes: what is split stays in the cache until it is coded.
const LARGEST_PLANES: usize = 512 << 10;
/// Level of the segments that are not made of numbers.
const ZSTD_LEVEL: i32 = 1;

const RAW: u8 = 0;
const ZSTD: u8 = 1;
const PLANE_RAW: u32 = 0;
const PLANE_CONSTANT: u32 = 1;
const PLANE_HUFFMAN: u32 = 2;

/// Nothing, or what is wrong with an extent.
type Parsed = std::result::Result<(), &'static str>;

/// Contexts, tables and room for planes, made once.
pub struct Planes {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    huffman: huffman::Decoder,
    scratch: Vec<u8>,
}

impl Planes {
    /// A codec with its contexts.
    pub fn new() -> Result<Self> {
        let out_of_memory = |e| Error::failed(format!("cannot create a zstd context: {e}"));
        Ok(Self {
            compressor: Compressor::new(ZSTD_LEVEL).map_err(out_of_memory)?,
            decompressor: Decompressor::new().map_err(out_of_memory)?,
            huffman: huffman::Decoder::new(),
            scratch: vec![0; LARGEST_PLANES],
        })
    }

    /// Writes one segment, as it is where nothing makes it smaller; returns its length.
    fn encode_segment(&mut self, layout: Layout, part: &[u8], out: &mut [u8]) -> Result<usize> {
        let (head, body) = room_for(out, SEGMENT_HEAD)?;
        let coded = match layout {
            Layout::Raw => None,
            Layout::Zstd => self.compressor.compress_to_buffer(part, body).ok().map(|len| (ZSTD, 0, len)),
            Layout::Planes { width, skip, unsure } => {
                let len = self.encode_planes(width, skip, part, body)?;
                let frame = if unsure { self.compress_below(len, part) } else { None };
                match frame {
                    Some(frame) => {
                        body[..frame.len()].copy_from_slice(frame);
                        Some((ZSTD, 0, frame.len()))
                    }
                    None => Some((width as u8, skip as u8, len)),
                }
            }
        };
        let (kind, skip, len) = match coded {
            Some(coded) if coded.2 < part.len() => coded,
            _ => {
                room(body, part.len())?.copy_from_slice(part);
                (RAW, 0, part.len())
            }
        };
        head[..4].copy_from_slice(&(part.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&[kind, skip, 0, 0]);
        head[8..].copy_from_slice(&(len as u32).to_le_bytes());
        Ok(SEGMENT_HEAD + len)
    }

    /// A zstd frame of at most `most` bytes in the scratch, if there is one: for zstd, a full buffer is an error.
    fn compress_below(&mut self, most: usize, part: &[u8]) -> Option<&[u8]> {
        let most = most.min(self.scratch.len());
        let len = self.compressor.compress_to_buffer(part, &mut self.scratch[..most]).ok()?;
        Some(&self.scratch[..len])
    }

    fn encode_planes(&mut self, width: usize, skip: usize, part: &[u8], out: &mut [u8]) -> Result<usize> {
        let (edges, numbers) = numbers(width, skip, part.len());
        let numbers = &part[numbers];
        let count = numbers.len() / width;
        let (heads, mut body) = room_for(out, width * PLANE_HEAD)?;
        for edge in edges {
            let (start, rest) = room_for(body, edge.len())?;
            start.copy_from_slice(&part[edge]);
            body = rest;
        }
        // Leading planes that are noise need not go through the scratch: their place in the output is known.
        let mut sample = [0; SAMPLE];
        let noise = noise_planes(width, layout::take(numbers, &mut sample));
        let (direct, mut body) = room_for(body, noise * count)?;
        let mut all = direct.chunks_exact_mut(count).chain(self.scratch.chunks_exact_mut(count));
        let mut planes = std::array::from_fn(|i| if i < width { all.next().unwrap_or_default() } else { &mut [] });
        split::split(width, numbers, planes.each_mut().map(|plane| &mut **plane));

        let mut len = heads.len() + part.len() - numbers.len();
        for (i, (head, plane)) in heads.chunks_exact_mut(PLANE_HEAD).zip(planes).enumerate() {
            let (method, stored) = if i < noise {
                (PLANE_RAW, count)
            } else {
                let (method, stored) = encode_plane(plane, body)?;
                body = &mut body[stored..];
                (method, stored)
            };
            head[..4].copy_from_slice(&method.to_le_bytes());
            head[4..].copy_from_slice(&(stored as u32).to_le_bytes());
            len += stored;
        }
        Ok(len)
    }

    fn decode_planes(&mut self, width: usize, skip: usize, coded: &[u8], part: &mut [u8]) -> Parsed {
        if skip >= width || part.len() > LARGEST_PLANES || part.len() < skip + width {
            return Err("a segment of planes has an impossible size");
        }
        let (edges, numbers) = numbers(width, skip, part.len());
        let count = numbers.len() / width;
        let (heads, mut body) = coded.split_at_checked(width * PLANE_HEAD).ok_or("a segment is cut short")?;
        for edge in edges {
            let (start, rest) = body.split_at_checked(edge.len()).ok_or("a segment is cut short")?;
            part[edge].copy_from_slice(start);
            body = rest;
        }
        let mut planes: [&[u8]; 4] = [&[]; 4];
        let rooms = self.scratch.chunks_exact_mut(count);
        for ((plane, room), head) in planes.iter_mut().zip(rooms).zip(heads.chunks_exact(PLANE_HEAD)) {
            let (method, len) = (u32_at(head, 0), u32_at(head, 4) as usize);
            let (stored, rest) = body.split_at_checked(len).ok_or("a plane is cut short")?;
            body = rest;
            *plane = match (method, stored) {
                (PLANE_RAW, _) if len == count => stored,
                (PLANE_CONSTANT, &[value]) => {
                    room.fill(value);
                    room
                }
                (PLANE_HUFFMAN, _) => {
                    self.huffman.decode(stored, room)?;
                    room
                }
                _ => return Err("a plane has an unknown method or the wrong size"),
            };
        }
        if !body.is_empty() {
            return Err("a segment goes on behind its planes");
        }
        split::merge(width, planes, &mut part[numbers]);
        Ok(())
    }

    fn decode_segment(&mut self, kind: [u8; 4], coded: &[u8], part: &mut [u8]) -> Parsed {
        match kind {
            [RAW, 0, 0, 0] if coded.len() == part.len() => part.copy_from_slice(coded),
            [ZSTD, 0, 0, 0] => {
                // Several frames, or one that is skipped, would decode too: we write one.
                if zstd_safe::find_frame_compressed_size(coded) != Ok(coded.len())
                    || !coded.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes())
                {
                    return Err("a zstd frame has the wrong length");
                }
                let len = self.decompressor.decompress_to_buffer(coded, part).map_err(|_| "a zstd frame is damaged")?;
                if len != part.len() {
                    return Err("a zstd frame is too short");
                }
            }
            [width @ (2 | 4), skip, 0, 0] => self.decode_planes(width.into(), skip.into(), coded, part)?,
            _ => return Err("a segment is of no kind"),
        }
        Ok(())
    }

    fn decode_segments(&mut self, mut coded: &[u8], user: &mut [u8]) -> Parsed {
        let mut rest = user;
        while !rest.is_empty() {
            let (head, tail) = coded.split_first_chunk::<SEGMENT_HEAD>().ok_or("it is cut short")?;
            let (len, stored) = (u32_at(head, 0) as usize, u32_at(head, 8) as usize);
            let (body, tail) = tail.split_at_checked(stored).ok_or("a segment is cut short")?;
            if !(1..=LARGEST.min(rest.len())).contains(&len) {
                return Err("a segment has an impossible size");
            }
            let (part, after) = rest.split_at_mut(len);
            self.decode_segment([head[4], head[5], head[6], head[7]], body, part)?;
            (rest, coded) = (after, tail);
        }
        if coded.is_empty() { Ok(()) } else { Err("it goes on behind its last segment") }
    }

    /// Bytes of output that [`Planes::encode`] needs for `user` bytes, padding included.
    pub fn bound(user: usize) -> usize {
        // Segments never grow by more than their head, but coders want room for their worst case.
        let largest = user.min(LARGEST);
        let spare = zstd_safe::compress_bound(largest) - largest + 4 * PLANE_HEAD + huffman::SLACK;
        let segments = user.div_ceil(BLOCK) * SEGMENT_HEAD;
        (HEAD + segments + user + spare).next_multiple_of(ALIGN)
    }

    /// Encodes `user` into `out`; returns the stored length, a multiple of [`ALIGN`].
    ///
    /// # Errors
    /// `failed` when `out` is smaller than [`Planes::bound`].
    pub fn encode(&mut self, user: &[u8], out: &mut [u8]) -> Result<usize> {
        let mut rest = user;
        let mut at = room(out, HEAD)?.len();
        let mut layouts = user.chunks(BLOCK).map(Layout::of).peekable();
        while let Some(layout) = layouts.next() {
            let largest = if matches!(layout, Layout::Planes { .. }) { LARGEST_PLANES } else { LARGEST };
            let mut len = BLOCK;
            while len < largest && layouts.next_if_eq(&layout).is_some() {
                len += BLOCK;
            }
            let (part, tail) = rest.split_at(len.min(rest.len()));
            at += self.encode_segment(layout, part, &mut out[at..])?;
            rest = tail;
        }
        let stored = at.next_multiple_of(ALIGN);
        let out = room(out, stored)?;
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&VERSION.to_le_bytes());
        out[8..16].copy_from_slice(&(user.len() as u64).to_le_bytes());
        out[16..24].copy_from_slice(&(at as u64).to_le_bytes());
        out[at..].fill(0);
        Ok(stored)
    }

    /// Decodes exactly `user.len()` bytes from an extent, padding included.
    ///
    /// # Errors
    /// `corrupt` when the extent is not one that [`Planes::encode`] writes for so many bytes.
    pub fn decode(&mut self, stored: &[u8], user: &mut [u8]) -> Result<()> {
        let bad = |what: &str| Error::corrupt(format!("an extent of {} bytes is not planes: {what}", stored.len()));
        let (head, body) = stored.split_first_chunk::<HEAD>().ok_or_else(|| bad("it is cut short"))?;
        if head[..4] != MAGIC || u32_at(head, 4) != VERSION {
            return Err(bad("its magic number or its version is wrong"));
        }
        let u64_at = |at: usize| u64::from(u32_at(head, at)) | u64::from(u32_at(head, at + 4)) << 32;
        if u64_at(8) != user.len() as u64 {
            return Err(bad(&format!("it holds {} bytes instead of {}", u64_at(8), user.len())));
        }
        let end = usize::try_from(u64_at(16)).ok().and_then(|end| end.checked_sub(HEAD));
        let Some((coded, padding)) = end.and_then(|end| body.split_at_checked(end)) else {
            return Err(bad("it is cut short"));
        };
        if !stored.len().is_multiple_of(ALIGN) || padding.len() >= ALIGN || padding.iter().any(|&byte| byte != 0) {
            return Err(bad("its padding is damaged"));
        }
        self.decode_segments(coded, user).map_err(bad)
    }

    /// Version of the format, and of the zstd that is linked.
    pub fn library() -> String {
        format!("savemark planes {VERSION} (huffman; zstd {} level {ZSTD_LEVEL})", zstd_safe::version_string())
    }
}

/// Codes one plane; returns method and length.
fn encode_plane(plane: &[u8], out: &mut [u8]) -> Result<(u32, usize)> {
    let counts = huffman::count(plane);
    if counts[plane[0] as usize] as usize == plane.len() {
        room(out, 1)?[0] = plane[0];
        return Ok((PLANE_CONSTANT, 1));
    }
    if let Some(len) = huffman::encode(plane, &counts, out) {
        return Ok((PLANE_HUFFMAN, len));
    }
    room(out, plane.len())?.copy_from_slice(plane);
    Ok((PLANE_RAW, plane.len()))
}

/// How many of the leading planes are noise, judged by a sample of the numbers.
fn noise_planes(width: usize, sample: &[u8]) -> usize {
    let count = sample.len() / width;
    let mut planes = [[0; SAMPLE / 2]; 4];
    split::split(width, sample, planes.each_mut().map(|plane| &mut plane[..count]));
    planes[..width].iter().take_while(|plane| layout::is_incompressible(&plane[..count])).count()
}

/// The bytes before the first number and after the last, and those of the numbers.
fn numbers(width: usize, skip: usize, len: usize) -> ([std::ops::Range<usize>; 2], std::ops::Range<usize>) {
    let end = len - (len - skip) % width;
    ([0..skip, end..len], skip..end)
}

/// The first `len` bytes of an output, or the error of a buffer smaller than the bound.
fn room(out: &mut [u8], len: usize) -> Result<&mut [u8]> {
    let has = out.len();
    out.get_mut(..len)
        .ok_or_else(|| Error::failed(format!("an output buffer of {has} bytes is too small for {len} encoded bytes")))
}

/// The first `len` bytes of an output and the others, or the error of a buffer smaller than the bound.
fn room_for(out: &mut [u8], len: usize) -> Result<(&mut [u8], &mut [u8])> {
    room(out, len)?;
    Ok(out.split_at_mut(len))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
