//! What uses GPUs, against a stand-in for NVIDIA's libraries: a process loads them once, so these tests have a program of their own.

mod gds;
mod gpu_state;
