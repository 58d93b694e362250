//! NVIDIA's management library, `libnvidia-ml.so.1`: what a GPU is, how it is attached and how fast it runs. Facts only.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use super::library::{Library, functions};

/// Names the library, where the linker does not find it.
pub const VARIABLE: &str = "SAVEMARK_LIBNVML";
const NAMES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
/// `NVML_CLOCK_SM` and `NVML_CLOCK_MEM`.
const CLOCK_SM: c_int = 1;
const CLOCK_MEMORY: c_int = 2;

type Code = c_int;
type Device = *mut c_void;
type Number = unsafe extern "C" fn(Device, *mut c_uint) -> Code;
type Clock = unsafe extern "C" fn(Device, c_int, *mut c_uint) -> Code;

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Default)]
struct Pci {
    legacy: [u8; 16],
    numbers: [c_uint; 5],
    address: [u8; 32],
}

functions! {
    /// As in nvml.h.
    struct Functions {
        init = c"nvmlInit_v2": unsafe extern "C" fn() -> Code,
        error_string = c"nvmlErrorString": unsafe extern "C" fn(Code) -> *const c_char,
        driver_version = c"nvmlSystemGetDriverVersion": unsafe extern "C" fn(*mut c_char, c_uint) -> Code,
        count = c"nvmlDeviceGetCount_v2": unsafe extern "C" fn(*mut c_uint) -> Code,
        device = c"nvmlDeviceGetHandleByIndex_v2": unsafe extern "C" fn(c_uint, *mut Device) -> Code,
        pci = c"nvmlDeviceGetPciInfo_v3": unsafe extern "C" fn(Device, *mut Pci) -> Code,
        name = c"nvmlDeviceGetName": unsafe extern "C" fn(Device, *mut c_char, c_uint) -> Code,
        generation = c"nvmlDeviceGetCurrPcieLinkGeneration": Number,
        generation_max = c"nvmlDeviceGetMaxPcieLinkGeneration": Number,
        width = c"nvmlDeviceGetCurrPcieLinkWidth": Number,
        width_max = c"nvmlDeviceGetMaxPcieLinkWidth": Number,
        mig = c"nvmlDeviceGetMigMode": unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> Code,
        clock = c"nvmlDeviceGetClockInfo": Clock,
        clock_max = c"nvmlDeviceGetMaxClockInfo": Clock,
    }
}

/// What the library tells of all GPUs; each fact where it is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Version of the driver.
    pub driver: Option<String>,
    /// By number.
    pub gpus: Vec<GpuFacts>,
}

/// What it tells of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFacts {
    /// `0000:3b:00.0`, as the kernel writes it.
    pub pci_address: String,
    /// Model.
    pub model: Option<String>,
    /// Generation of PCIe that the link runs at now: less than it can while nothing moves.
    pub generation: Option<u32>,
    /// The one that GPU and slot can run at.
    pub generation_max: Option<u32>,
    /// Lanes in use now.
    pub width: Option<u32>,
    /// Lanes that GPU and slot have.
    pub width_max: Option<u32>,
    /// Whether it is divided into instances; unknown where it cannot be.
    pub mig: Option<bool>,
    /// Clock of the multiprocessors now, MHz.
    pub sm_mhz: Option<u32>,
    /// Their highest.
    pub sm_max_mhz: Option<u32>,
    /// Clock of the memory now, MHz.
    pub memory_mhz: Option<u32>,
    /// Its highest.
    pub memory_max_mhz: Option<u32>,
}

/// Asks the library.
///
/// # Errors
/// Why it cannot be asked.
pub fn facts() -> Result<Facts, String> {
    let library = Library::open(&NAMES, VARIABLE)?;
    let calls = Functions::of(&library)?;
    // SAFETY: the first call; it may come again, and is never undone.
    match unsafe { (calls.init)() } {
        0 => {}
        code => return Err(format!("{} does not start: {}", library.name, meaning(&calls, code))),
    }
    let mut count = 0;
    // SAFETY: an address for the answer.
    match unsafe { (calls.count)(&raw mut count) } {
        0 => {}
        code => return Err(format!("{} does not count GPUs: {}", library.name, meaning(&calls, code))),
    }
    // SAFETY: room of the length that is told.
    let driver = text(|room, len| unsafe { (calls.driver_version)(room, len) });
    Ok(Facts { driver, gpus: (0..count).filter_map(|index| of(&calls, index)).collect() })
}

fn of(calls: &Functions, index: c_uint) -> Option<GpuFacts> {
    let (mut device, mut pci) = (std::ptr::null_mut(), Pci::default());
    // SAFETY: addresses for the answers.
    let known = unsafe { (calls.device)(index, &raw mut device) == 0 && (calls.pci)(device, &raw mut pci) == 0 };
    let address = CStr::from_bytes_until_nul(&pci.address).ok()?.to_string_lossy().to_lowercase();
    if !known {
        return None;
    }
    // SAFETY: here and below, a device, and an address for the answer.
    let ask = |question: Number| number(|answer| unsafe { question(device, answer) });
    let clock = |question: Clock, which| number(|answer| unsafe { question(device, which, answer) });
    let mut pending = 0;
    let mig = number(|answer| unsafe { (calls.mig)(device, answer, &raw mut pending) });
    Some(GpuFacts {
        pci_address: as_the_kernel(&address),
        model: text(|room, len| unsafe { (calls.name)(device, room, len) }),
        generation: ask(calls.generation),
        generation_max: ask(calls.generation_max),
        width: ask(calls.width),
        width_max: ask(calls.width_max),
        mig: mig.map(|mode| mode == 1),
        sm_mhz: clock(calls.clock, CLOCK_SM),
        sm_max_mhz: clock(calls.clock_max, CLOCK_SM),
        memory_mhz: clock(calls.clock, CLOCK_MEMORY),
        memory_max_mhz: clock(calls.clock_max, CLOCK_MEMORY),
    })
}

/// The answer, if there is one: what a GPU does not have is an error.
fn number(ask: impl FnOnce(*mut c_uint) -> Code) -> Option<u32> {
    let mut answer = 0;
    (ask(&raw mut answer) == 0).then_some(answer)
}

fn text(ask: impl FnOnce(*mut c_char, c_uint) -> Code) -> Option<String> {
    let mut room = [0u8; 128];
    let told = ask(room.as_mut_ptr().cast(), room.len() as c_uint) == 0;
    let text = CStr::from_bytes_until_nul(&room).ok()?.to_string_lossy().into_owned();
    (told && !text.is_empty()).then_some(text)
}

fn meaning(calls: &Functions, code: Code) -> String {
    // SAFETY: the answer is a string that lives as long as the library.
    let text = unsafe { (calls.error_string)(code) };
    if text.is_null() { "unknown error".into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
}

/// The library writes eight digits of the domain, the kernel four.
fn as_the_kernel(address: &str) -> String {
    match address.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => format!("{}:{rest}", &domain[4..]),
        _ => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        assert_eq!(as_the_kernel("00000000:3b:00.0"), "0000:3b:00.0");
        assert_eq!(as_the_kernel("00010000:3b:00.0"), "00010000:3b:00.0");
        assert_eq!(as_the_kernel("0001:3b:00.0"), "0001:3b:00.0");
        assert_eq!((size_of::<Pci>(), std::mem::offset_of!(Pci, address)), (68, 36));
    }
}
