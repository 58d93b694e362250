//! The checksum of everything that is stored.

/// The checksum library and version; a test holds it against `Cargo.toml`.
pub const LIBRARY: &str = "crc-fast 1.10.0";

/// CRC-64/NVME: S3's own default checksum. It finds every burst of up to 64 flipped bits and misses 1 in 2^64 others.
pub fn digest(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// The same [`digest`], of bytes that come part by part.
pub fn in_parts() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_pinned() {
        let pin = format!("crc-fast = {{ version = \"={}\"", LIBRARY.trim_start_matches("crc-fast "));
        assert!(include_str!("../../../Cargo.toml").contains(&pin), "{pin}");
    }
}
