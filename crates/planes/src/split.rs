//! Numbers to byte planes and back.
//!
//! Each number is rotated left by one bit first. That brings the sign, which nothing predicts, to the mantissa: the
//! last plane of bf16 and fp32 is the exponent alone.

/// Splits `numbers` of `width` bytes into `width` planes, lowest byte first.
pub fn split(width: usize, numbers: &[u8], planes: [&mut [u8]; 4]) {
    let [a, b, c, d] = planes;
    if width == 2 {
        for ((number, a), b) in numbers.as_chunks().0.iter().zip(a).zip(b) {
            [*a, *b] = u16::from_le_bytes(*number).rotate_left(1).to_le_bytes();
        }
    } else {
        for ((((number, a), b), c), d) in numbers.as_chunks().0.iter().zip(a).zip(b).zip(c).zip(d) {
            [*a, *b, *c, *d] = u32::from_le_bytes(*number).rotate_left(1).to_le_bytes();
        }
    }
}

/// Undoes [`split`].
pub fn merge(width: usize, planes: [&[u8]; 4], numbers: &mut [u8]) {
    let [a, b, c, d] = planes;
    if width == 2 {
        for ((number, &a), &b) in numbers.as_chunks_mut().0.iter_mut().zip(a).zip(b) {
            *number = u16::from_le_bytes([a, b]).rotate_right(1).to_le_bytes();
        }
    } else {
        for ((((number, &a), &b), &c), &d) in numbers.as_chunks_mut().0.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *number = u32::from_le_bytes([a, b, c, d]).rotate_right(1).to_le_bytes();
        }
    }
}
