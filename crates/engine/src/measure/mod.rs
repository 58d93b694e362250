//! What a trial is measured with: distributions of what its workers count.

pub mod histogram;
pub mod slip;
pub mod split;
pub mod timeline;
