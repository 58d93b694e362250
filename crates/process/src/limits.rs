//! The bounds of a saved program, stated once: what CRIU sends, what a table of processes says, what lies beside its logs.

use savemark_base::error::{Error, Result};

/// Images of a program, its table among them: so many fit beside [`IMAGE_BYTES`] into 64 bits.
pub const IMAGES: usize = 1 << 20;
/// Bytes of an image: 16 TiB.
pub const IMAGE_BYTES: u64 = 1 << IMAGE_SHIFT;
/// As a power of two.
pub const IMAGE_SHIFT: u32 = 44;
/// Bytes of an image's name: of a file, without a directory.
pub const NAME_BYTES: usize = 255;
/// Bytes of a table.
pub const TABLE_BYTES: u64 = 64 << 20;
/// Numbers of processes: the kernel's own limit. Number 1 is nobody's program.
pub const PIDS: std::ops::Range<i32> = 2..1 << 22;
/// Bytes of CRIU's account of itself.
pub const STATS_BYTES: u64 = 1 << 20;
/// Bytes of the end of CRIU's log, where the reason stands.
pub const LOG_BYTES: u64 = 1 << 20;

/// Whether an image may be called so: a name like CRIU's, which leads to no other directory.
pub fn is_image_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

/// Checks the name and the number of an image that CRIU sends.
///
/// # Errors
/// `Failed`: it is no CRIU that is known here.
pub fn check_image(name: &str, count: usize) -> Result<()> {
    if count >= IMAGES - 1 {
        return Err(Error::failed(format!("criu dump writes more than {IMAGES} images"))
            .hint("save a part of the program: name a process further down"));
    }
    match is_image_name(name) {
        true => Ok(()),
        false => Err(Error::failed(format!("criu dump writes an image with the odd name {name:?}"))
            .hint("SAVEMARK_CRIU names another command than CRIU 4.2, or a newer one than is known here")),
    }
}
