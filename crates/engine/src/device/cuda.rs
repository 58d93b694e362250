//! The CUDA driver, `libcuda.so.1`: devices, their memory, and copies to and from it. No CUDA toolkit is needed.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::library::{Library, functions};
use crate::error::{Error, Result};

/// Names the library, where the linker does not find it.
pub const VARIABLE: &str = "SAVEMARK_LIBCUDA";
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

type Code = c_int;
type Device = c_int;
type Context = *mut c_void;
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
        let mut text = std::ptr::null();
        // SAFETY: the answer is null or a string that lives as long as the library.
        let known = unsafe { (self.calls.error_string)(code, &raw mut text) } == 0 && !text.is_null();
        if known { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() } else { "unknown error".into() }
    }
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
        self.cuda.call("pin host memory", || unsafe { (self.cuda.calls.pin)(start.cast(), len, 0) })?;
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
    /// Copies `bytes` to `offset`.
    pub fn fill(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.len);
        let cuda = self.gpu.cuda;
        // SAFETY: inside both memories, by the assertion.
        cuda.call("copy to the GPU", || unsafe {
            (cuda.calls.to_device)(self.address + offset as u64, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Copies from `offset` to `bytes`.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        assert!(offset + bytes.len() <= self.len);
        let cuda = self.gpu.cuda;
        // SAFETY: as above.
        cuda.call("copy from the GPU", || unsafe {
            (cuda.calls.to_host)(bytes.as_mut_ptr().cast(), self.address + offset as u64, bytes.len())
        })
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

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.gpu.enter().is_ok() {
            // SAFETY: pinned by `Gpu::pin`, unpinned once.
            unsafe { (self.gpu.cuda.calls.unpin)(self.start.cast()) };
        }
    }
}
