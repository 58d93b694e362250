//! Names that nobody else has chosen, and cannot guess.

use std::path::Path;

use crate::error::{Error, Result};

/// 64 bits from the kernel.
///
/// # Errors
/// `Failed` where the kernel has none.
pub fn random() -> Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as is said. So few bytes come whole, or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match got == bytes.len() as isize {
        true => Ok(u64::from_ne_bytes(bytes)),
        false => Err(Error::io("read", Path::new("getrandom"), std::io::Error::last_os_error())),
    }
}
