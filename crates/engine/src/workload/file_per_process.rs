//! A file for each worker: IOR's geometry with `-F`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::block::geometry::{Geometry, GeometryOptions, Sharing};
use savemark_base::error::Result;

/// Options of `file_per_process`: each worker's blocks follow each other in a file of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilePerProcessOptions {
    /// What both of IOR's layouts share.
    #[serde(flatten)]
    pub geometry: GeometryOptions,
}

impl FilePerProcessOptions {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<()> {
        self.geometry.check()
    }

    /// The workload.
    pub(crate) fn build(&self) -> Geometry<'_> {
        Geometry::new(&self.geometry, Sharing::FileEach)
    }
}
