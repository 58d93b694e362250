//! The CUDA driver, `libcuda.so.1`: devices, their memory, and copies to and from it. No CUDA toolkit is needed.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::sync::OnceLock;

use super::library::{Library, functions};
use savemark_base::error::{Error, Result};

mod stream;

pub use stream::{Event, Stream};

/// Names the library, where the linker does not find it.
pub const VARIABLE: &str = "SAVEMARK_LIBCUDA";
pub(super) const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

type Code = c_int;
type Device = c_int;
type Context = *mut c_void;
/// A `CUstream` or a `CUevent`.
type Raw = *mut c_void;
/// `CU_MEMHOSTREGISTER_PORTABLE`: pinned for every GPU, not only for the one that asks.
const PORTABLE: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`, and its answer for memory of a GPU.
const MEMORY_TYPE: c_int = 2;
const MEMORY_OF_DEVICE: c_uint = 2;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_ORDINAL: c_int = 9;
/// An address in a GPU's memory.
pub type Address = u64;

functions! {
    /// As in cuda.h; `_v2` are the 64-bit versions that the header's macros stand for.
    struct Functions {
        init = c"cuInit": unsafe extern "C" fn(c_uint) -> Code,
        error_string = c"cuGetErrorString": unsafe extern "C" fn(Code, *mut *const c_char) -> Code,
        count = c"cuDeviceGetCount": unsafe extern "C" fn(*mut c_int) -> Code,
        device = c"cuDeviceGet": unsafe extern "C" fn(*mut Device, c_int) -> Code,
        name = c"cuDeviceGetName": unsafe extern "C" fn(*mut c_char, c_int, Device) -> Code,
        pci_address = c"cuDeviceGetPCIBusId": unsafe extern "C" fn(*mut c_char, c_int, Device) -> Code,
        retain = c"cuDevicePrimaryCtxRetain": unsafe extern "C" fn(*mut Context, Device) -> Code,
        set_current = c"cuCtxSetCurrent": unsafe extern "C" fn(Context) -> Code,
        allocate = c"cuMemAlloc_v2": unsafe extern "C" fn(*mut Address, usize) -> Code,
        free = c"cuMemFree_v2": unsafe extern "C" fn(Address) -> Code,
        to_device = c"cuMemcpyHtoD_v2": unsafe extern "C" fn(Address, *const c_void, usize) -> Code,
        to_host = c"cuMemcpyDtoH_v2": unsafe extern "C" fn(*mut c_void, Address, usize) -> Code,
        pin = c"cuMemHostRegister_v2": unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Code,
        unpin = c"cuMemHostUnregister": unsafe extern "C" fn(*mut c_void) -> Code,
        fill = c"cuMemsetD8_v2": unsafe extern "C" fn(Address, c_uchar, usize) -> Code,
        synchronize = c"cuCtxSynchronize": unsafe extern "C" fn() -> Code,
        attribute = c"cuPointerGetAttribute": unsafe extern "C" fn(*mut c_void, c_int, Address) -> Code,
        version = c"cuDriverGetVersion": unsafe extern "C" fn(*mut c_int) -> Code,
        stream_create = c"cuStreamCreate": unsafe extern "C" fn(*mut Raw, c_uint) -> Code,
        stream_destroy = c"cuStreamDestroy_v2": unsafe extern "C" fn(Raw) -> Code,
        stream_synchronize = c"cuStreamSynchronize": unsafe extern "C" fn(Raw) -> Code,
        event_create = c"cuEventCreate": unsafe extern "C" fn(*mut Raw, c_uint) -> Code,
        event_record = c"cuEventRecord": unsafe extern "C" fn(Raw, Raw) -> Code,
        event_query = c"cuEventQuery": unsafe extern "C" fn(Raw) -> Code,
        event_synchronize = c"cuEventSynchronize": unsafe extern "C" fn(Raw) -> Code,
        event_destroy = c"cuEventDestroy_v2": unsafe extern "C" fn(Raw) -> Code,
        start_to_device = c"cuMemcpyHtoDAsync_v2": unsafe extern "C" fn(Address, *const c_void, usize, Raw) -> Code,
        start_to_host = c"cuMemcpyDtoHAsync_v2": unsafe extern "C" fn(*mut c_void, Address, usize, Raw) -> Code,
    }
}

/// The driver, initialised.
pub struct Cuda {
    calls: Functions,
    count: usize,
    /// How the library was found.
    pub library: String,
}

/// The driver, loaded and initialised at the first call.
///
/// # Errors
/// `Refused`, with the reason.
pub fn driver() -> Result<&'static Cuda> {
    static DRIVER: OnceLock<std::result::Result<Cuda, String>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(|why| {
        Error::refused(format!("CUDA is not available: {why}"))
            .hint("install NVIDIA's driver, or measure without a GPU: --storage uring, or --transfer cpu")
    })
}

fn load() -> std::result::Result<Cuda, String> {
    let library = Library::open(&NAMES, VARIABLE)?;
    let calls = Functions::of(&library)?;
    let mut cuda = Cuda { calls, count: 0, library: library.name.clone() };
    // SAFETY: the first call of the driver's API, with the flags that it defines (none).
    cuda.ask("start the driver", || unsafe { (cuda.calls.init)(0) })?;
    let mut count = 0;
    // SAFETY: an address for the answer.
    cuda.ask("count GPUs", || unsafe { (cuda.calls.count)(&raw mut count) })?;
    if count < 1 {
        return Err("the driver sees no GPU".into());
    }
    cuda.count = count as usize;
    Ok(cuda)
}

impl Cuda {
    /// How many GPUs there are.
    pub fn gpus(&self) -> usize {
        self.count
    }

    /// The GPU `index`, with its primary context (the one that every library in this process shares).
    ///
    /// # Errors
    /// `Usage` for one that is not there.
    pub fn gpu(&'static self, index: u32) -> Result<Gpu> {
        if index as usize >= self.count {
            let there = if self.count == 1 { "GPU 0".to_string() } else { format!("GPUs 0 to {}", self.count - 1) };
            return Err(Error::usage(format!("there is no GPU {index}")).hint(format!("this machine has {there}")));
        }
        let (mut device, mut context) = (0, std::ptr::null_mut());
        // SAFETY: addresses for the answers; the context is never released, as every trial uses it again.
        self.call("find the GPU", || unsafe { (self.calls.device)(&raw mut device, index as c_int) })?;
        self.call("open the GPU", || unsafe { (self.calls.retain)(&raw mut context, device) })?;
        let name = self.text(|text, len| unsafe { (self.calls.name)(text, len, device) })?;
        let pci_address = self.text(|text, len| unsafe { (self.calls.pci_address)(text, len, device) })?;
        Ok(Gpu { cuda: self, index, context, name, pci_address: pci_address.to_lowercase() })
    }

    /// The number of the GPU whose memory `address` lies in; `None` if it is no GPU's.
    pub fn owner(&self, address: Address) -> Option<u32> {
        let (mut kind, mut ordinal): (c_uint, c_int) = (0, -1);
        // SAFETY: addresses for the answers, of the types that cuda.h gives these attributes; an address that the driver
        // does not know is an error of the call.
        let known = unsafe {
            (self.calls.attribute)((&raw mut kind).cast(), MEMORY_TYPE, address) == 0
                && (self.calls.attribute)((&raw mut ordinal).cast(), DEVICE_ORDINAL, address) == 0
        };
        (known && kind == MEMORY_OF_DEVICE).then(|| u32::try_from(ordinal).ok()).flatten()
    }

    /// The version of CUDA that the driver brings, `12.4` for example.
    pub fn version(&self) -> Option<String> {
        let mut version = 0;
        // SAFETY: an address for the answer.
        let told = unsafe { (self.calls.version)(&raw mut version) } == 0;
        told.then(|| format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    fn text(&self, ask: impl Fn(*mut c_char, c_int) -> Code) -> Result<String> {
        let mut text = [0 as c_char; 128];
        self.call("describe the GPU", || ask(text.as_mut_ptr(), text.len() as c_int))?;
        text[127] = 0;
        // SAFETY: it ends with a zero.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }

    fn call(&self, what: &str, call: impl FnOnce() -> Code) -> Result<()> {
        self.ask(what, call).map_err(Error::failed)
    }

    fn ask(&self, what: &str, call: impl FnOnce() -> Code) -> std::result::Result<(), String> {
        match call() {
            0 => Ok(()),
            code => Err(format!("CUDA cannot {what}: {} (error {code})", self.meaning(code))),
        }
    }

    /// What an error of the driver means.
    pub fn meaning(&self, code: c_int) -> String {
        text_of(self.calls.error_string, code)
    }
}

/// What `cuGetErrorString` says of an error.
pub(super) fn text_of(ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code, code: Code) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the answer is null or a string that lives as long as the library.
    let known = unsafe { ask(code, &raw mut text) } == 0 && !text.is_null();
    if known { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() } else { "unknown error".into() }
}

/// One GPU.
#[derive(Clone)]
pub struct Gpu {
    cuda: &'static Cuda,
    /// Its number.
    pub index: u32,
    context: Context,
    /// Model.
    pub name: String,
    /// `0000:3b:00.0`
    pub pci_address: String,
}

// SAFETY: a context may be made current on every thread.
unsafe impl Send for Gpu {}
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Makes it the one that this thread uses.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: a context of ours.
        self.cuda.call("use the GPU", || unsafe { (self.cuda.calls.set_current)(self.context) })
    }

    /// Waits for everything that this process has started on it, by whichever library.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: no arguments.
        self.cuda.call("finish the work on the GPU", || unsafe { (self.cuda.calls.synchronize)() })
    }

    /// Copies from its memory; returns when the bytes are there.
    ///
    /// # Safety
    /// `from..from + to.len()` is memory of this GPU that nobody writes meanwhile.
    pub unsafe fn copy_out(&self, from: Address, to: &mut [u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        self.cuda
            .call("copy from the GPU", || unsafe { (self.cuda.calls.to_host)(to.as_mut_ptr().cast(), from, to.len()) })
    }

    /// Copies into its memory; returns when the bytes are there.
    ///
    /// # Safety
    /// `to..to + from.len()` is memory of this GPU that nobody uses meanwhile.
    pub unsafe fn copy_in(&self, to: Address, from: &[u8]) -> Result<()> {
        self.enter()?;
        // SAFETY: the caller's promise.
        self.cuda
            .call("copy to the GPU", || unsafe { (self.cuda.calls.to_device)(to, from.as_ptr().cast(), from.len()) })
    }

    /// Memory of `len` bytes on it.
    pub fn memory(&self, len: usize) -> Result<Memory> {
        self.enter()?;
        let mut address = 0;
        // SAFETY: an address for the answer.
        let what = format!("allocate {len} bytes on GPU {}", self.index);
        self.cuda.call(&what, || unsafe { (self.cuda.calls.allocate)(&raw mut address, len) })?;
        Ok(Memory { gpu: self.clone(), address, len })
    }

    /// Pins `len` bytes of host memory from `start` on, so that copies run at the speed of the bus.
    ///
    /// # Safety
    /// The memory outlives the answer.
    pub unsafe fn pin(&self, start: *mut u8, len: usize) -> Result<Pinned> {
        self.enter()?;
        // SAFETY: the caller's promise.
        self.cuda.call("pin host memory", || unsafe { (self.cuda.calls.pin)(start.cast(), len, PORTABLE) })?;
        Ok(Pinned { gpu: self.clone(), start })
    }
}

/// Memory of a GPU, freed on drop.
pub struct Memory {
    gpu: Gpu,
    /// Where it starts.
    pub address: Address,
    /// Bytes.
    pub len: usize,
}

impl Memory {
    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Copies `bytes` to `offset`.
    pub fn fill(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: inside this memory, by the assertion.
        unsafe { self.gpu.copy_in(self.address + offset as u64, bytes) }
    }

    /// Copies from `offset` to `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: as above.
        unsafe { self.gpu.copy_out(self.address + offset as u64, bytes) }
    }

    /// Sets every byte to `value`.
    pub fn set(&self, value: u8) -> Result<()> {
        self.gpu.enter()?;
        // SAFETY: all of this memory.
        let fill = || unsafe { (self.gpu.cuda.calls.fill)(self.address, value, self.len) };
        self.gpu.cuda.call("fill memory of the GPU", fill)?;
        self.gpu.synchronize()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: allocated by `Gpu::memory`, freed once.
            unsafe { (self.gpu.cuda.calls.free)(self.address) };
        }
    }
}

/// Host memory that stays where it is, until it is dropped.
pub struct Pinned {
    gpu: Gpu,
    start: *mut u8,
}

// SAFETY: what is pinned may be unpinned on every thread.
unsafe impl Send for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: pinned by `Gpu::pin`, unpinned once.
            unsafe { (self.gpu.cuda.calls.unpin)(self.start.cast()) };
        }
    }
}
