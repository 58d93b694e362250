//! A shared library that is looked for when it is needed.

use std::ffi::{CStr, CString, c_void};
use std::ptr::NonNull;

/// An open library. It stays open until the process ends: its functions are kept.
#[derive(Debug)]
pub struct Library {
    handle: NonNull<c_void>,
    /// How it was found.
    pub name: String,
}

// SAFETY: a handle of dlopen may be used from every thread.
unsafe impl Send for Library {}
unsafe impl Sync for Library {}

impl Library {
    /// Opens the file that the environment variable `variable` names, else the first of `names` that the dynamic linker finds.
    ///
    /// # Errors
    /// The linker's reason, in words.
    pub fn open(names: &[&str], variable: &str) -> Result<Self, String> {
        match std::env::var(variable) {
            Ok(path) if !path.is_empty() => Self::at(&path).map_err(|why| format!("{why} ({variable} names it)")),
            _ => Self::first(names).map_err(|why| format!("{why}; {variable} can name it")),
        }
    }

    fn first(names: &[&str]) -> Result<Self, String> {
        let mut why = String::new();
        for name in names {
            match Self::at(name) {
                Ok(library) => return Ok(library),
                Err(reason) if why.is_empty() => why = reason,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn at(name: &str) -> Result<Self, String> {
        let path = CString::new(name).map_err(|_| format!("{name:?} is no file name"))?;
        // SAFETY: a C string; the initialisers of the library run, as they would if it were linked.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Self { handle, name: name.to_string() }),
            None => Err(last_error().unwrap_or_else(|| format!("{name} cannot be loaded"))),
        }
    }

    /// The address of the function `name`.
    ///
    /// # Errors
    /// That it is not there.
    pub fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: an open handle and a C string.
        let found = unsafe { libc::dlsym(self.handle.as_ptr(), name.as_ptr()) };
        NonNull::new(found)
            .ok_or_else(|| format!("{} has no function {}; it is too old", self.name, name.to_string_lossy()))
    }
}

fn last_error() -> Option<String> {
    // SAFETY: null, or a C string that is valid until the next call of its kind on this thread.
    let text = unsafe { libc::dlerror() };
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Looks up the functions of a library: the field's name is the function's, but for what stands in quotes.
macro_rules! functions {
    ($(#[$doc:meta])* $visibility:vis struct $table:ident { $($field:ident = $symbol:literal : $kind:ty,)* }) => {
        $(#[$doc])*
        $visibility struct $table { $($field: $kind,)* }
        impl $table {
            fn of(library: &crate::nvidia::library::Library) -> std::result::Result<Self, String> {
                Ok(Self { $(
                    // SAFETY: the vendor's headers give the function of this name this type.
                    $field: unsafe { std::mem::transmute::<std::ptr::NonNull<std::ffi::c_void>, $kind>(library.symbol($symbol)?) },
                )* })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_why_it_is_not_there() {
        let why = Library::open(&["libsavemark-has-none.so.7"], "SAVEMARK_TEST_LIBRARY").unwrap_err();
        assert!(why.contains("libsavemark-has-none.so.7"), "{why}");
        assert!(why.contains("SAVEMARK_TEST_LIBRARY can name it"), "{why}");
    }

    #[test]
    fn finds_a_function_or_names_the_one_that_is_missing() {
        let library = Library::open(&["libnone.so.1", "libc.so.6"], "SAVEMARK_TEST_LIBRARY").unwrap();
        assert_eq!(library.name, "libc.so.6");
        library.symbol(c"getpid").unwrap();
        let why = library.symbol(c"cuInit").unwrap_err();
        assert!(why.contains("libc.so.6 has no function cuInit"), "{why}");
    }
}
