//! savemark killed in the moments when only its guard is left to end the matter: CRIU is done, and the program stands still.

use super::*;
use std::os::unix::fs::PermissionsExt;

const HANG: &str = "SAVEMARK_TEST_HANG";

/// The child: saves a program, and never gets its checkpoint committed.
#[test]
fn child_that_hangs() {
    let Ok(text) = std::env::var(HANG) else { return };
    let (pid, place) = text.split_once(' ').unwrap();
    let place = Path::new(place);
    let storage = Failing::new(uring(&place.join("target")), u64::MAX).that_hangs(place.join("committing"));
    let (dump, options) = (dump_of(pid.parse().unwrap(), After::Kill), options(CodecName::None, 2));
    savemark_process::save(&storage, &dump, &options, &mut Pool::default(), &Control::default()).map(drop).unwrap();
}

fn child((module, test): (&str, &str), variable: &str, value: String, criu: Option<PathBuf>) -> Child {
    let mut command = only(module, test);
    command.env(variable, value).stdout(Stdio::null()).stderr(Stdio::null());
    command.envs(criu.map(|criu| ("SAVEMARK_CRIU", criu))).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_saver_killed_before_its_commit_leaves_a_program_that_goes_on() {
    if !criu() {
        return;
    }
    let place = disk();
    fs::create_dir(place.path().join("target")).unwrap();
    let mut program = start(Kind::Tree, 4 * MIB);
    let saver =
        child((module_path!(), "child_that_hangs"), HANG, format!("{} {}", program.pid, place.path().display()), None);
    assert!(within(Duration::from_secs(60), || place.path().join("committing").exists()));
    assert!(tree::pids(program.pid).iter().all(|pid| tree::state(*pid) == Some('T')), "it does not stand still");
    kill(saver);
    assert!(within(Duration::from_secs(60), || tree::state(program.pid) != Some('T')), "it stands still");
    runs(&mut program);
    assert!(uring(&place.path().join("target")).get(MANIFEST).unwrap().is_none());
}

#[test]
fn a_restorer_killed_before_it_has_verified_all_leaves_nothing() {
    if !criu() {
        return;
    }
    let place = disk();
    let (target, script, rebuilt) =
        (place.path().join("target"), place.path().join("criu"), place.path().join("rebuilt"));
    fs::create_dir(&target).unwrap();
    let mut program = start(Kind::Tree, 4 * MIB);
    save(&*uring(&target), &program, &options(CodecName::None, 2)).unwrap();
    let real = std::env::var_os("SAVEMARK_CRIU").map_or("criu".into(), |path| path.to_string_lossy().into_owned());
    let text = format!(
        "#!/bin/sh\ncase $1 in restore) {real} \"$@\"; touch {}; sleep 1 ;; *) exec {real} \"$@\" ;; esac\n",
        rebuilt.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let what = format!("restore {}", target.display());
    let restorer = child(stuck::CHILD, stuck::STUCK, what, Some(script));
    assert!(within(Duration::from_secs(60), || rebuilt.exists()));
    assert_eq!(tree::state(program.pid), Some('T'), "it runs before all of it was verified");
    kill(restorer);
    assert!(within(Duration::from_secs(60), || matches!(tree::state(program.pid), None | Some('Z'))), "it is left");
    does_not_run(&program);
    restore(&*uring(&target)).unwrap();
    runs(&mut program);
}
