//! cuFile, `libcufile.so.0`: reads and writes between files and a GPU's memory (GPUDirect Storage).
//!
//! cuFile falls back without a word to copies through the host's memory ("compatibility mode"). Which mode it is in is told
//! by its properties here, and for the bytes themselves by the driver's counters ([`super::nvidia_fs`]).

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::OnceLock;

use super::cuda::{self, Memory};
use super::library::{Library, functions};
use super::nvidia_fs;
use savemark_base::error::{Error, Result};
use savemark_base::record::CuFileCounts;

mod statistics;

use statistics::Statistics;

/// Names the library, where the linker does not find it (a Python package holds it, say).
pub const VARIABLE: &str = "SAVEMARK_LIBCUFILE";
const NAMES: [&str; 2] = ["libcufile.so.0", "libcufile.so"];
/// cuFile's own switch: every transfer goes through the host's memory.
const FORCED: &str = "CUFILE_FORCE_COMPAT_MODE";
/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`: a file descriptor of Linux.
const FILE_DESCRIPTOR: c_int = 1;
/// Bit of `fflags`: PCI peer-to-peer without nvidia-fs (`CU_FILE_P2P_SUPPORTED`).
const PEER_TO_PEER: c_uint = 1 << 4;
/// Errors of cuFile start here; those of CUDA come beside `CU_FILE_CUDA_DRIVER_ERROR`.
const CUDA_DRIVER_ERROR: c_int = 5011;

/// `CUfileError_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    code: c_int,
    cuda: c_int,
}

/// `CUfileDescr_t`.
#[repr(C)]
struct Description {
    kind: c_int,
    file: FileUnion,
    operations: *const c_void,
}

#[repr(C)]
union FileUnion {
    fd: c_int,
    handle: *mut c_void,
}

/// `CUfileDrvProps_t`, with room for what newer versions may add.
#[repr(C)]
#[derive(Default)]
struct Properties {
    major: c_uint,
    minor: c_uint,
    poll_threshold: usize,
    largest_direct: usize,
    status: c_uint,
    control: c_uint,
    features: c_uint,
    rest: [c_uint; 32],
}

type Raw = *mut c_void;

/// `CUFileBoolConfigParameter_t`.
const ALLOW_COMPATIBILITY: c_int = 1;
const FORCE_COMPATIBILITY: c_int = 2;

functions! {
    /// Since cuFile 1.14.
    struct Parameters {
        flag = c"cuFileGetParameterBool": unsafe extern "C" fn(c_int, *mut bool) -> Status,
    }
}

functions! {
    /// As in cufile.h.
    struct Functions {
        open = c"cuFileDriverOpen": unsafe extern "C" fn() -> Status,
        properties = c"cuFileDriverGetProperties": unsafe extern "C" fn(*mut Properties) -> Status,
        register = c"cuFileHandleRegister": unsafe extern "C" fn(*mut Raw, *mut Description) -> Status,
        deregister = c"cuFileHandleDeregister": unsafe extern "C" fn(Raw),
        register_memory = c"cuFileBufRegister": unsafe extern "C" fn(*const c_void, usize, c_int) -> Status,
        deregister_memory = c"cuFileBufDeregister": unsafe extern "C" fn(*const c_void) -> Status,
        read = c"cuFileRead": unsafe extern "C" fn(Raw, *mut c_void, usize, libc::off_t, libc::off_t) -> isize,
        write = c"cuFileWrite": unsafe extern "C" fn(Raw, *const c_void, usize, libc::off_t, libc::off_t) -> isize,
    }
}

/// How bytes move, as far as cuFile and the kernel tell beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// From the device into the GPU, by the driver nvidia-fs, which counts them.
    NvidiaFs,
    /// The same by the kernel's own peer-to-peer transfers, which nobody counts.
    PeerToPeer,
    /// Through the host's memory.
    Compatibility,
}

/// cuFile, opened.
pub struct CuFile {
    calls: Functions,
    properties: Properties,
    parameters: Option<Parameters>,
    statistics: Option<Statistics>,
    /// How the library was found.
    pub library: String,
}

/// cuFile, if it was opened before; asking costs nothing.
pub fn opened() -> Option<&'static CuFile> {
    DRIVER.get()?.as_ref().ok()
}

static DRIVER: OnceLock<std::result::Result<CuFile, String>> = OnceLock::new();

/// cuFile, loaded and opened at the first call.
///
/// # Errors
/// `Refused`, with the reason.
pub fn driver() -> Result<&'static CuFile> {
    cuda::driver()?;
    DRIVER.get_or_init(load).as_ref().map_err(|why| {
        Error::refused(format!("cuFile is not available: {why}")).hint(
            "install GPUDirect Storage (package nvidia-gds, or the wheel nvidia-cufile), or use --transfer bounce",
        )
    })
}

fn load() -> std::result::Result<CuFile, String> {
    let library = Library::open(&NAMES, VARIABLE)?;
    let calls = Functions::of(&library)?;
    let (properties, parameters) = (Properties::default(), Parameters::of(&library).ok());
    let mut found = CuFile { calls, properties, parameters, statistics: None, library: library.name.clone() };
    // SAFETY: no arguments. It stays open: trials follow each other.
    check("open its driver", unsafe { (found.calls.open)() })?;
    // SAFETY: an address with more room than the answer needs.
    check("tell its properties", unsafe { (found.calls.properties)(&raw mut found.properties) })?;
    found.statistics = Statistics::of(&library);
    Ok(found)
}

impl CuFile {
    /// The mode that it will be in.
    pub fn mode(&self) -> Mode {
        mode(
            std::env::var(FORCED).is_ok_and(|value| value.eq_ignore_ascii_case("true"))
                || self.flag(FORCE_COMPATIBILITY) == Some(true),
            Path::new(nvidia_fs::STATISTICS).exists(),
            self.properties.features & PEER_TO_PEER != 0,
        )
    }

    /// A setting that is in force, from cufile.json or the environment.
    fn flag(&self, which: c_int) -> Option<bool> {
        let mut value = false;
        // SAFETY: an address for the answer.
        let told = unsafe { (self.parameters.as_ref()?.flag)(which, &raw mut value) }.code == 0;
        told.then_some(value)
    }

    /// Whether it may fall back to copies through the host, without a word; `None` where this version does not tell.
    pub fn may_fall_back(&self) -> Option<bool> {
        self.flag(ALLOW_COMPATIBILITY)
    }

    /// What it has counted, where it counts.
    pub fn counts(&self) -> Option<CuFileCounts> {
        self.statistics.as_ref()?.read()
    }

    /// Versions and mode, in words.
    pub fn describe(&self) -> String {
        let mode = match self.mode() {
            Mode::NvidiaFs => format!("nvidia-fs {}.{}", self.properties.major, self.properties.minor),
            Mode::PeerToPeer => "peer-to-peer by the kernel".into(),
            Mode::Compatibility => "compatibility mode".into(),
        };
        let fallback = match self.may_fall_back() {
            Some(true) if self.mode() != Mode::Compatibility => ", may fall back to compatibility mode",
            Some(false) => ", compatibility mode not allowed",
            _ => "",
        };
        format!("{}, {mode}{fallback}", self.library)
    }

    /// Makes a file known to cuFile; its descriptor must stay open as long as the answer lives.
    pub fn handle(&'static self, file: BorrowedFd<'_>) -> Result<Handle> {
        let mut description = Description {
            kind: FILE_DESCRIPTOR,
            file: FileUnion { handle: std::ptr::null_mut() },
            operations: std::ptr::null(),
        };
        description.file.fd = file.as_raw_fd();
        let mut raw = std::ptr::null_mut();
        // SAFETY: addresses of a description and for the answer.
        let status = unsafe { (self.calls.register)(&raw mut raw, &raw mut description) };
        check("use the file", status).map_err(|why| {
            Error::refused(why).hint("GPUDirect Storage needs a filesystem that supports it (gdscheck -p lists them)")
        })?;
        Ok(Handle { cufile: self, raw })
    }

    /// Makes a GPU's memory known, so that transfers need no buffer in between.
    pub fn register(&'static self, memory: Memory) -> Result<Registered> {
        // SAFETY: memory that we own.
        let status = unsafe { (self.calls.register_memory)(memory.address as *const c_void, memory.len, 0) };
        check("register GPU memory", status).map_err(Error::failed)?;
        Ok(Registered { cufile: self, memory })
    }
}

/// GPUDirect needs a driver that is loaded, or peer-to-peer; forced compatibility beats both.
fn mode(forced: bool, nvidia_fs: bool, peer_to_peer: bool) -> Mode {
    match (forced, nvidia_fs, peer_to_peer) {
        (true, _, _) | (_, false, false) => Mode::Compatibility,
        (_, true, _) => Mode::NvidiaFs,
        (_, false, true) => Mode::PeerToPeer,
    }
}

fn check(what: &str, status: Status) -> std::result::Result<(), String> {
    match status.code {
        0 => Ok(()),
        CUDA_DRIVER_ERROR => {
            let why = cuda::driver().map(|cuda| cuda.meaning(status.cuda)).unwrap_or_default();
            Err(format!("cuFile cannot {what}: CUDA says {why} (error {})", status.cuda))
        }
        code => Err(format!("cuFile cannot {what}: {} (error {code})", meaning(code))),
    }
}

/// The errors that users meet (cufile.h).
fn meaning(code: c_int) -> &'static str {
    match code {
        5001 => "its driver nvidia-fs is not loaded",
        5002 | 5003 => "a setting in cufile.json is wrong",
        5004 | 5005 => "its driver's version does not fit the library's",
        5006 => "it is being shut down",
        5007 => "the platform is not supported",
        5008 => "the filesystem is not supported, and compatibility mode is not allowed",
        5009 => "the GPU is not supported",
        5010 => "its driver failed, see dmesg",
        5012..=5015 => "the memory is not this GPU's",
        5016 | 5017 => "more memory than cufile.json lets it pin",
        5018 => "this is no regular file",
        5019 => "the file is open in a way that is not supported",
        5020 => "the file is open without O_DIRECT",
        5022 => "an argument is invalid",
        5023 => "the memory is known already",
        5024 => "the memory is not known",
        5025 => "you lack permission",
        5028 => "the file is known already",
        5029 => "there is no such GPU",
        5033 => "its driver is not set up",
        5034 => "I/O to this GPU is disabled",
        5036 => "the GPU's memory could not be pinned",
        _ => "see cufile.h",
    }
}

/// A file that cuFile knows.
pub struct Handle {
    cufile: &'static CuFile,
    raw: Raw,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: registered by `CuFile::handle`, once.
        unsafe { (self.cufile.calls.deregister)(self.raw) };
    }
}

/// A GPU's memory that cuFile knows.
pub struct Registered {
    cufile: &'static CuFile,
    /// The memory.
    pub memory: Memory,
}

impl Registered {
    /// Reads `len` bytes at `offset` of the file to `place` in the memory.
    pub fn read(&self, file: &Handle, len: usize, offset: u64, place: usize) -> std::io::Result<()> {
        assert!(place + len <= self.memory.len);
        let (base, call) = (self.memory.address as *mut c_void, self.cufile.calls.read);
        // SAFETY: inside registered memory, by the assertion.
        whole(len, unsafe { call(file.raw, base, len, offset as libc::off_t, place as libc::off_t) })
    }

    /// Writes `len` bytes from `place` in the memory to `offset` of the file.
    pub fn write(&self, file: &Handle, len: usize, offset: u64, place: usize) -> std::io::Result<()> {
        assert!(place + len <= self.memory.len);
        let (base, call) = (self.memory.address as *const c_void, self.cufile.calls.write);
        // SAFETY: as above.
        whole(len, unsafe { call(file.raw, base, len, offset as libc::off_t, place as libc::off_t) })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: registered by `CuFile::register`, once.
        let _ = unsafe { (self.cufile.calls.deregister_memory)(self.memory.address as *const c_void) };
    }
}

/// -1 is an error of the system, other negative numbers are cuFile's own.
fn whole(len: usize, moved: isize) -> std::io::Result<()> {
    match moved {
        -1 => Err(std::io::Error::last_os_error()),
        code if code < 0 => {
            Err(std::io::Error::other(format!("cuFile: {} (error {})", meaning(-code as c_int), -code)))
        }
        moved if moved as usize == len => Ok(()),
        moved => {
            Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, format!("cuFile moved {moved} of {len} bytes")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_mode_is_never_taken_for_gpudirect() {
        assert_eq!(mode(false, true, false), Mode::NvidiaFs);
        assert_eq!(mode(false, false, true), Mode::PeerToPeer);
        assert_eq!(mode(false, false, false), Mode::Compatibility);
        assert_eq!(mode(true, true, true), Mode::Compatibility);
    }

    #[test]
    fn the_layouts_are_those_of_the_header() {
        assert_eq!((size_of::<Status>(), size_of::<Description>()), (8, 24));
        assert_eq!(std::mem::offset_of!(Description, file), 8);
        assert_eq!(std::mem::offset_of!(Properties, features), 32);
    }

    #[test]
    fn parts_and_errors_are_not_a_transfer() {
        whole(4096, 4096).unwrap();
        assert!(whole(4096, 512).unwrap_err().to_string().contains("512 of 4096"));
        assert!(whole(4096, -5001).unwrap_err().to_string().contains("nvidia-fs is not loaded"));
    }
}
