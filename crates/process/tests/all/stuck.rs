//! A CRIU that hangs, spins, or is not there: in a child, whose environment names another command.

use super::*;
use std::os::unix::fs::PermissionsExt;

pub const STUCK: &str = "SAVEMARK_TEST_STUCK";
pub const CHILD: (&str, &str) = (module_path!(), "child_with_another_criu");

/// The child: saves a program, or restores a checkpoint, and writes down what it is told.
#[test]
fn child_with_another_criu() {
    let Ok(text) = std::env::var(STUCK) else { return };
    let (pid, target) = text.split_once(' ').unwrap();
    let storage = uring(Path::new(target));
    let told = match pid.parse() {
        Ok(pid) => {
            let (dump, options) = (dump_of(pid, After::Kill), options(CodecName::None, 2));
            savemark_process::save(&*storage, &dump, &options, &mut Pool::default(), &Control::default()).map(drop)
        }
        Err(_) => restore(&*storage).map(drop),
    };
    let told = told.map_or_else(
        |e| format!("{}: {e} ({})", e.kind.name(), e.hint.as_deref().unwrap_or_default()),
        |()| "good".into(),
    );
    fs::write(Path::new(target).join("../told"), told).unwrap();
}

/// What savemark says when `criu` is this script.
pub fn told(script: Option<&str>, what: &str, place: &Path) -> String {
    let command = place.join("criu");
    if let Some(script) = script {
        fs::write(&command, format!("#!/bin/sh\ncase $1 in --version) echo 'Version: 4.9'; exit ;; esac\n{script}\n"))
            .unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let target = place.join("target");
    fs::create_dir_all(&target).unwrap();
    let mut child = only(CHILD.0, CHILD.1);
    child.env(STUCK, format!("{what} {}", target.display()));
    child.env("SAVEMARK_CRIU", &command).env("SAVEMARK_CRIU_PATIENCE", "1");
    assert!(child.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    fs::read_to_string(place.join("told")).unwrap()
}

#[test]
fn a_criu_that_hangs_is_ended_and_one_that_is_old_or_absent_is_said() {
    if !criu() {
        return;
    }
    let place = disk();
    let mut program = start(Kind::Memory, MIB);
    let pid = program.pid.to_string();
    for script in ["exec sleep 100", "trap '' TERM; while :; do :; done"] {
        let start = Instant::now();
        let said = told(Some(script), &pid, place.path());
        assert!(said.contains("failed: criu dump has done nothing for 1 s"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(30));
        runs(&mut program);
    }
    let said = told(Some("echo 'Error (x.c:1): so it is' >&2; exit 1"), &pid, place.path());
    assert!(said.contains("criu dump failed: `so it is`"), "{said}");
    runs(&mut program);
    fs::write(place.path().join("criu"), "#!/bin/sh\necho 'Version: 3.17.1'\n").unwrap();
    let said = told(None, &pid, place.path());
    assert!(said.contains("refused: CRIU 3.17.1 is too old") && said.contains("docs/processes.md"), "{said}");
    fs::write(place.path().join("criu"), "#!/bin/sh\necho hello\n").unwrap();
    assert!(told(None, &pid, place.path()).contains("is no CRIU"));
    // A restore that hangs leaves nothing.
    save(&*uring(&place.path().join("target")), &program, &options(CodecName::None, 2)).unwrap();
    let said = told(Some("exec sleep 100"), "restore", place.path());
    assert!(said.contains("failed: criu restore has done nothing for 1 s"), "{said}");
    does_not_run(&program);
    restore(&*uring(&place.path().join("target"))).unwrap();
    runs(&mut program);
}
