//! How a file lies on the targets of Lustre: set when it is made, and read back.
//!
//! Spoken in `lov_user_md` of version 1, as lustre/include/uapi/linux/lustre/lustre_user.h defines it; no library is needed.

use std::ffi::CString;
use std::fmt;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use savemark_base::error::{Error, Result};
use savemark_storage::Storage;

/// How many targets, and how many bytes on each in turn; 0 leaves it to the filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripe {
    count: u32,
    size: u64,
}

/// All targets.
const ALL: u32 = 0xFFFF;
/// Sizes are multiples of this (LOV_MIN_STRIPE_SIZE).
const STEP: u64 = 64 << 10;
const MAGIC_V1: u32 = 0x0BD1_0BD0;
const MAGIC_V3: u32 = 0x0BD3_0BD0;
/// Bytes of a lov_user_md without its list of objects.
const HEADER: usize = 32;
/// What statfs says of Lustre (LL_SUPER_MAGIC).
const LUSTRE: u64 = 0x0BD0_0BD0;
/// _IOW('f', 154, long).
const SET_STRIPE: libc::c_ulong = 0x4008_669A;
/// O_LOV_DELAY_CREATE: the file is made, its objects when the striping is known.
const DELAY_CREATE: i32 = libc::O_NOCTTY | libc::O_ASYNC;

impl Stripe {
    /// What is asked for, if anything is.
    pub fn of(count: Option<u32>, size: Option<u64>) -> Option<Self> {
        (count.is_some() || size.is_some()).then(|| Self { count: count.unwrap_or(0), size: size.unwrap_or(0) })
    }

    /// Checks what the types cannot say.
    pub fn check(&self) -> Result<()> {
        if self.count > ALL {
            return Err(Error::usage(format!("stripe_count: {} is more than {ALL}, which means all", self.count)));
        }
        if !self.size.is_multiple_of(STEP) || self.size > u64::from(u32::MAX) {
            return Err(Error::usage("stripe_size: not a multiple of 64KiB below 4GiB"));
        }
        Ok(())
    }

    /// As the kernel takes it: magic, pattern 0 (RAID 0), object id, size, count, and any target to begin with.
    fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&MAGIC_V1.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.size as u32).to_le_bytes());
        bytes[28..30].copy_from_slice(&(self.count as u16).to_le_bytes());
        bytes[30..32].copy_from_slice(&u16::MAX.to_le_bytes());
        bytes
    }

    /// As the kernel tells it; `None` if it is of another kind (a composite layout).
    fn decode(bytes: &[u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let size = u32::from_le_bytes(bytes.get(24..28)?.try_into().ok()?);
        let count = u16::from_le_bytes(bytes.get(28..30)?.try_into().ok()?);
        let known = magic == MAGIC_V1 || magic == MAGIC_V3;
        known.then_some(Self { count: u32::from(count), size: u64::from(size) })
    }

    /// Whether `found` is what is asked for.
    fn is_met_by(&self, found: &Self) -> bool {
        let count = self.count == 0 || self.count == ALL || self.count == found.count;
        count && (self.size == 0 || self.size == found.size)
    }
}

impl fmt::Display for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "striped over {} targets, {} bytes on each in turn, as read back", self.count, self.size)
    }
}

/// Makes the file `name`, striped; refused where nothing is striped.
pub fn create(storage: &dyn Storage, name: &str, stripe: &Stripe) -> Result<()> {
    let path = directory(storage)?.join(name);
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).custom_flags(DELAY_CREATE).open(&path);
    let file = file.map_err(|e| Error::io("create", &path, e))?;
    let wanted = stripe.encode();
    // SAFETY: the kernel reads a lov_user_md of version 1 from `wanted`, which is one.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), SET_STRIPE as _, wanted.as_ptr()) };
    let result = match done {
        0 => found_at(&path).and_then(|found| match stripe.is_met_by(&found) {
            true => Ok(()),
            false => Err(Error::refused(format!("{} is {found}, not as was asked for", path.display()))
                .hint("ask for no more targets than `lfs osts` lists")),
        }),
        _ => Err(Error::io("set the striping of", &path, std::io::Error::last_os_error())
            .hint("see `lfs osts` and `lfs getstripe` for what is possible here")),
    };
    if result.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    result
}

/// The striping that the file `name` has.
pub fn found(storage: &dyn Storage, name: &str) -> Result<Stripe> {
    found_at(&directory(storage)?.join(name))
}

fn found_at(path: &Path) -> Result<Stripe> {
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|e| Error::failed(e.to_string()))?;
    let mut bytes = vec![0u8; 64 << 10];
    // SAFETY: strings that end, and room of the length that is told.
    let got =
        unsafe { libc::getxattr(c_path.as_ptr(), c"lustre.lov".as_ptr(), bytes.as_mut_ptr().cast(), bytes.len()) };
    let got =
        usize::try_from(got).map_err(|_| Error::io("read the striping of", path, std::io::Error::last_os_error()))?;
    Stripe::decode(&bytes[..got])
        .ok_or_else(|| Error::failed(format!("the striping of {} is not a plain one", path.display())))
}

/// The directory, if it is one of Lustre.
fn directory(storage: &dyn Storage) -> Result<&Path> {
    let why = |what: String| {
        Error::usage(format!("stripe_count and stripe_size: {what} stripes no files"))
            .hint("leave them out, or use a directory on Lustre")
    };
    let Some(path) = storage.directory() else {
        return Err(why(format!("storage {}", storage.path_taken().storage)));
    };
    let stat = rustix::fs::statfs(path).map_err(|e| Error::io("ask for the filesystem of", path, e))?;
    if stat.f_type as u64 != LUSTRE {
        let filesystem = storage.path_taken().filesystem;
        return Err(why(format!("the filesystem of {} ({filesystem})", path.display())));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as `getfattr -n lustre.lov` shows them for a file of four stripes of 1 MiB, by the definition of the struct.
    #[test]
    fn the_kernels_words_are_read_and_written() {
        let asked = Stripe { count: 4, size: 1 << 20 };
        let bytes = asked.encode();
        assert_eq!(bytes[..4], [0xD0, 0x0B, 0xD1, 0x0B]);
        assert_eq!(bytes[24..], [0, 0, 0x10, 0, 4, 0, 0xFF, 0xFF]);
        assert!(bytes[4..24].iter().all(|byte| *byte == 0));
        assert_eq!(Stripe::decode(&bytes), Some(asked));
        let mut v3 = [&bytes[..], &[0; 16 + 4 * 24]].concat();
        v3[..4].copy_from_slice(&MAGIC_V3.to_le_bytes());
        assert_eq!(Stripe::decode(&v3), Some(asked));
        v3[..4].copy_from_slice(&0x0BD6_0BD0u32.to_le_bytes());
        assert_eq!((Stripe::decode(&v3), Stripe::decode(&bytes[..20])), (None, None));
    }

    #[test]
    fn more_or_fewer_targets_than_asked_for_are_seen() {
        let found = Stripe { count: 4, size: 1 << 20 };
        for (count, size, met) in
            [(4, 1 << 20, true), (0, 1 << 20, true), (4, 0, true), (ALL, 0, true), (8, 0, false), (4, 65536, false)]
        {
            assert_eq!(Stripe { count, size }.is_met_by(&found), met, "{count} {size}");
        }
        assert_eq!(Stripe::of(None, None), None);
        assert!(Stripe { count: 1, size: 1000 }.check().is_err() && Stripe { count: 70_000, size: 0 }.check().is_err());
    }
}
