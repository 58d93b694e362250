//! GPUs through the vendor's libraries, loaded when they are first needed: a build never needs them, and where one is
//! missing its reason is told.

pub mod checkpoint;
pub mod cuda;
pub mod cufile;
pub mod library;
pub mod nvidia_fs;
pub mod nvml;
