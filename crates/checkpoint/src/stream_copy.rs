//! The last copy of restored bytes: from a buffer in the processor's cache to where they stay.

/// Shorter ranges gain nothing from either.
const MIN: usize = 16 << 10;
/// Fresh memory is backed so much at a time: what the kernel has zeroed is still in the cache when it is written.
const BLOCK: usize = 256 << 10;
/// A line of the cache; what is stored around it goes out line by line.
const LINE: usize = 64;

/// A part is seen and then copied: short enough that its stores are still on their way while the next is seen.
const PART: usize = 8 << 10;

/// Copies `from` to `to`, where memory may be fresh and will not be read soon; shows each part to `seen` before it copies it.
///
/// # Safety
/// `to..to + from.len()` is valid for writes and shares no byte with `from`.
pub unsafe fn stream_copy(to: *mut u8, from: &[u8], seen: &mut dyn FnMut(&[u8])) {
    for (index, block) in from.chunks(BLOCK).enumerate() {
        // SAFETY: the caller's promise, for a part of the range.
        unsafe {
            let to = to.add(index * BLOCK);
            // What the kernel has just filled with zeros is in the cache; and so is what is short.
            let cached = back(to, block.len()) || block.len() < MIN;
            for (index, part) in block.chunks(PART).enumerate() {
                let to = to.add(index * PART);
                seen(part);
                match cached {
                    true => std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()),
                    false => store(to, part),
                }
            }
            fence();
        }
    }
}

/// Copies around the cache where the processor can: an ordinary store first reads the line that it is going to overwrite,
/// which makes a copy into memory that is not cached twice as dear as it need be.
///
/// # Safety
/// As [`stream_copy`].
unsafe fn store(to: *mut u8, from: &[u8]) {
    let head = to.align_offset(LINE).min(from.len());
    let (head, rest) = from.split_at(head);
    let (lines, tail) = rest.split_at(rest.len() / LINE * LINE);
    // SAFETY: three parts of the range that the caller has promised; the second starts on a line.
    unsafe {
        std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
        store_lines(to.add(head.len()), lines);
        std::ptr::copy_nonoverlapping(tail.as_ptr(), to.add(head.len() + lines.len()), tail.len());
    }
}

/// # Safety
/// As [`stream_copy`]; `to` is a multiple of [`LINE`], and so is the length.
#[cfg(target_arch = "x86_64")]
unsafe fn store_lines(to: *mut u8, from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for (index, line) in from.chunks_exact(LINE).enumerate() {
        // SAFETY: inside both; SSE2 is part of x86-64. Loads come first, so that the four stores fill one line together.
        unsafe {
            let (source, target) = (line.as_ptr().cast::<__m128i>(), to.add(index * LINE).cast::<__m128i>());
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(source.add(word)));
            for (word, value) in words.into_iter().enumerate() {
                _mm_stream_si128(target.add(word), value);
            }
        }
    }
}

/// Stores around the cache may be seen late by others; after this they are not.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// # Safety
/// As [`stream_copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn store_lines(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
}

/// Backs memory that is about to be written, if it is fresh, and tells whether it was: one call for all of its pages instead
/// of an exception for each. With the pages that the process already uses: huge ones would be dearer where a host has
/// taken them back.
///
/// # Safety
/// `to..to + len` is the caller's to write.
pub unsafe fn back(to: *mut u8, len: usize) -> bool {
    if len < MIN {
        return false;
    }
    let page = rustix::param::page_size();
    let start = to as usize / page * page;
    let bytes = (to as usize + len).next_multiple_of(page) - start;
    let mut resident = vec![0u8; bytes / page];
    // SAFETY: `resident` has a byte for each page. Where the kernel does not say, the pages are touched as they are written.
    let known = unsafe { libc::mincore(start as *mut _, bytes, resident.as_mut_ptr()) } == 0;
    if !known || resident.iter().all(|page| page & 1 == 1) {
        return false;
    }
    // SAFETY: changes no byte. Kernels before 5.14 refuse it, and then pages are touched as they are written.
    unsafe { rustix::mm::madvise(start as *mut _, bytes, rustix::mm::Advice::LinuxPopulateWrite) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_at_every_address_is_copied_and_no_byte_more() {
        let from: Vec<u8> = (0..600_003u32).map(|i| (i * 7 + 1) as u8 | 1).collect();
        for shift in [0, 1, 15, 16, 63, 64, 65] {
            for len in [0, 1, 63, 64, MIN - 1, MIN, MIN + 1, MIN + 63, 100_000, BLOCK, BLOCK + 17, 600_000] {
                let mut to = vec![0u8; len + 256];
                // SAFETY: inside `to`.
                let mut seen = Vec::new();
                unsafe {
                    stream_copy(to.as_mut_ptr().add(shift), &from[3..3 + len], &mut |part| seen.extend_from_slice(part))
                };
                assert!(seen == from[3..3 + len], "{shift} {len}");
                assert!(to[shift..shift + len] == from[3..3 + len], "{shift} {len}");
                assert!(to[..shift].iter().chain(&to[shift + len..]).all(|byte| *byte == 0), "{shift} {len}");
            }
        }
    }

    #[test]
    fn backing_changes_no_byte_and_reaches_every_page() {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        let len = 64 << 12;
        // SAFETY: a mapping of our own, unmapped at the end.
        unsafe {
            let base = mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
                .unwrap();
            let bytes = base.cast::<u8>();
            *bytes.add(9 << 12) = 7;
            assert!(back(bytes.add(5000), 20 << 12));
            let mut resident = vec![0u8; 64];
            assert_eq!(libc::mincore(base, len, resident.as_mut_ptr()), 0);
            assert!(resident[1..22].iter().all(|page| page & 1 == 1), "{resident:?}");
            assert_eq!((*bytes.add(9 << 12), *bytes.add(8 << 12)), (7, 0));
            assert!(!back(bytes.add(5000), 20 << 12), "there is nothing left to do");
            munmap(base, len).unwrap();
        }
    }
}
