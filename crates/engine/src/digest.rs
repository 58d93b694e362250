//! The checksum of everything that is stored.

/// CRC-64/NVME: S3's own default checksum. It finds every burst of up to 64 flipped bits and misses 1 in 2^64 others.
pub fn digest(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// The same [`digest`], of bytes that come part by part.
pub fn in_parts() -> crc_fast::Digest {
    crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme)
}
