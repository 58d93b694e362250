//! Trials, checkpoints and storages from the outside, in one program: it is linked once.

mod block;
mod checkpoint;
mod commit;
mod crash;
mod engine;
mod existing;
mod fuzz;
mod hostile_server;
mod io500;
mod iterate;
mod keep;
mod kills;
mod limits;
mod metadata;
mod object;
mod overlap;
mod process;
mod ranks;
mod sealed;
mod tensors;
mod threads;
mod uploads;
