//! Whether what was read is what was saved.

use super::manifest::{Chunk, Manifest};
use super::state::pieces;
use crate::codec::Codec;
use savemark_base::digest::digest;
use savemark_base::record::ThreadTime;
use savemark_measure::worker::timed;

/// Why an extent is refused before it is decoded.
pub(super) const NOT_STORED: &str = "its checksum does not match";

/// Decodes an extent, whose own digest was right, into the user bytes of its chunk, and verifies those.
///
/// # Errors
/// What is wrong with them.
pub(super) fn decode(
    codec: &mut dyn Codec,
    manifest: &Manifest,
    chunk: &Chunk,
    extent: &[u8],
    user: &mut [u8],
    time: &mut ThreadTime,
) -> Result<(), String> {
    let pieces = pieces(&manifest.members, chunk.offset, user.len());
    timed(&mut time.codec_ns, || codec.decode(extent, &pieces, user)).map_err(|e| e.to_string())?;
    match timed(&mut time.digest_ns, || digest(user)) == chunk.user_digest.0 {
        true => Ok(()),
        false => Err("it does not decode to what was saved".into()),
    }
}
