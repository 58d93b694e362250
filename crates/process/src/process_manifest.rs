//! What a checkpoint of a program says of itself, beside CRIU's images: its last member.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::criu;
use super::limits::{self, IMAGE_BYTES, IMAGES, PIDS, TABLE_BYTES};
use savemark_base::error::{Error, Result};
use savemark_checkpoint::inspect::PROCESS_MANIFEST;
use savemark_checkpoint::{Manifest, read};
use savemark_storage::Storage;

const FORMAT: &str = "savemark-process";
const VERSION: u32 = 1;

/// A saved program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessManifest {
    /// `savemark-process`.
    pub format: String,
    /// Version of this table.
    pub version: u32,
    /// Number of the process at the top.
    pub root: i32,
    /// Numbers of all of its processes: they must be free for a restore.
    pub processes: Vec<i32>,
    /// Those of them that were stopped when they were saved.
    pub stopped: Vec<i32>,
    /// Those of them whose GPUs were emptied into their memory.
    #[serde(default)]
    pub gpus: Vec<i32>,
    /// How the root was called.
    pub program: String,
    /// Version of CRIU that wrote the images.
    pub criu: String,
    /// Options of CRIU that a restore needs too.
    pub criu_options: Vec<String>,
    /// CRIU's images, in the order in which it wrote them.
    pub files: Vec<Image>,
}

/// An image; its extents are the chunks of the member of this name. An empty one has no member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

impl ProcessManifest {
    /// Of a program about to be saved.
    pub fn new(tree: &super::tree::Tree, criu: String, criu_options: Vec<String>) -> Self {
        Self {
            format: FORMAT.into(),
            version: VERSION,
            root: tree.root,
            processes: Vec::new(),
            stopped: tree.stopped().to_vec(),
            gpus: Vec::new(),
            program: super::tree::name(tree.root),
            criu,
            criu_options,
            files: Vec::new(),
        }
    }

    /// The table of a checkpoint.
    ///
    /// # Errors
    /// `Usage` if files or tensors were saved; `Corrupt` if it is not what was saved.
    pub fn of(storage: &dyn Storage, manifest: &Manifest) -> Result<Self> {
        let Some(bytes) = read::member(storage, manifest, PROCESS_MANIFEST, TABLE_BYTES)? else {
            return Err(Error::usage("this is not the checkpoint of a process")
                .hint("to restore files, name the directory to restore them into"));
        };
        let table: Self = serde_json::from_slice(&bytes)
            .map_err(|e| Error::corrupt(format!("{PROCESS_MANIFEST} is damaged: it is not a table: {e}")))?;
        if table.format != FORMAT || table.version != VERSION {
            return Err(Error::corrupt(format!(
                "{PROCESS_MANIFEST} has version {} of {}",
                table.version, table.format
            ))
            .hint("restore it with the savemark that wrote it, or a newer one"));
        }
        table.check()?;
        table.check_images(manifest)?;
        Ok(table)
    }

    /// Whether this can be a program: signals go to the processes that it names.
    ///
    /// # Errors
    /// `Corrupt`, with what is odd.
    pub fn check(&self) -> Result<()> {
        let odd = |what: String| {
            Err(Error::corrupt(format!("{PROCESS_MANIFEST} is damaged: {what}"))
                .hint("restore another checkpoint; who has changed this one?"))
        };
        let processes: HashSet<i32> = self.processes.iter().copied().collect();
        if let Some(pid) = processes.iter().find(|pid| !PIDS.contains(pid)) {
            return odd(format!("{pid} is no number of a program's process"));
        }
        if processes.len() != self.processes.len() {
            return odd("it names a process twice".into());
        }
        let mut named = std::iter::once(&self.root).chain(&self.stopped).chain(&self.gpus);
        let named = named.find(|pid| !processes.contains(pid));
        if let Some(pid) = named {
            return odd(format!("the process {pid} is not one of the program"));
        }
        if self.files.len() > IMAGES {
            return odd(format!("it names more than {IMAGES} images"));
        }
        if let Some(file) =
            self.files.iter().find(|file| !limits::is_image_name(&file.name) || file.name == PROCESS_MANIFEST)
        {
            return odd(format!("no image of CRIU is called {:?}", file.name));
        }
        match self.files.iter().find(|file| file.bytes > IMAGE_BYTES) {
            Some(file) => odd(format!("the image {} has {} bytes", file.name, file.bytes)),
            None => criu::options(&self.criu_options.join(" ")).map(drop),
        }
    }

    /// Whether the checkpoint has these images, and no others.
    fn check_images(&self, manifest: &Manifest) -> Result<()> {
        let full = self.files.iter().filter(|file| file.bytes > 0);
        let mut named: HashMap<&str, u64> = full.map(|file| (file.name.as_str(), file.bytes)).collect();
        let others = manifest.members.iter().filter(|member| member.name != PROCESS_MANIFEST);
        for member in others {
            if named.remove(member.name.as_str()) != Some(member.bytes) {
                return Err(Error::corrupt(format!("{PROCESS_MANIFEST} does not tell of the image {:?}", member.name)));
            }
        }
        match named.keys().next() {
            Some(name) => Err(Error::corrupt(format!("the image {name} is missing in the checkpoint"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ProcessManifest {
        ProcessManifest {
            format: FORMAT.into(),
            version: VERSION,
            root: 100,
            processes: vec![100, 101],
            stopped: vec![101],
            gpus: vec![100],
            program: "program".into(),
            criu: "4.2".into(),
            criu_options: vec!["--shell-job".into()],
            files: vec![Image { name: "core-100.img".into(), bytes: 7 }],
        }
    }

    #[test]
    fn a_table_that_names_others_is_refused() {
        table().check().unwrap();
        let image = |name: &str| Image { name: name.into(), bytes: 1 };
        let all: [(&str, ProcessManifest); 12] = [
            (
                "1 is no number",
                ProcessManifest { root: 1, processes: vec![1], stopped: vec![], gpus: vec![], ..table() },
            ),
            ("-5 is no number", ProcessManifest { processes: vec![100, 101, -5], ..table() }),
            ("4194304 is no number", ProcessManifest { processes: vec![100, 101, 1 << 22], ..table() }),
            ("twice", ProcessManifest { processes: vec![100, 101, 101], ..table() }),
            ("999 is not one", ProcessManifest { root: 999, ..table() }),
            ("100 is not one", ProcessManifest { processes: vec![], ..table() }),
            ("777 is not one", ProcessManifest { stopped: vec![777], ..table() }),
            ("778 is not one", ProcessManifest { gpus: vec![778], ..table() }),
            ("no image", ProcessManifest { files: vec![image("../../etc/passwd")], ..table() }),
            ("no image", ProcessManifest { files: vec![image("a/b")], ..table() }),
            ("no image", ProcessManifest { files: vec![image(PROCESS_MANIFEST)], ..table() }),
            ("bytes", ProcessManifest { files: vec![Image { bytes: u64::MAX, ..image("a") }], ..table() }),
        ];
        for (word, wrong) in all {
            let error = wrong.check().unwrap_err();
            assert!(error.kind == savemark_base::Kind::Corrupt && error.to_string().contains(word), "{word}: {error}");
        }
        assert!(ProcessManifest { criu_options: vec!["--action-script=/x".into()], ..table() }.check().is_err());
    }

    #[test]
    fn fuzz_tables() {
        let sample = serde_json::to_value(table()).unwrap();
        savemark_testing::mutate::fuzz(
            "criu-tables",
            |chance| {
                let mut value = sample.clone();
                chance.json(&mut value);
                serde_json::to_vec(&value).unwrap()
            },
            |bytes| {
                let Ok(table) = serde_json::from_slice::<ProcessManifest>(bytes) else { return };
                if table.check().is_ok() {
                    assert!(table.processes.contains(&table.root) && !table.processes.contains(&1));
                    assert!(table.files.iter().all(|file| !file.name.contains('/')));
                }
            },
        );
    }
}
