//! One file that all workers write and read: IOR's geometry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::geometry::{Geometry, GeometryOptions, Sharing};
use savemark_base::error::Result;

/// Options of `shared_file`: segment after segment, each with one block of each worker, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SharedFileOptions {
    /// What both of IOR's layouts share.
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

impl SharedFileOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        self.geometry.check()
    }

    /// The workload.
    pub(crate) fn build(&self) -> Geometry<'_> {
        Geometry::new(&self.geometry, Sharing::OneFile)
    }
}
