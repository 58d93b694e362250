//! What CRIU's log means, in words that say what to do.

use savemark_base::error::Error;

/// A part of a line of the log, what it means, and the fix.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "CAP_CHECKPOINT_RESTORE",
        "CRIU lacks capabilities",
        "run savemark with sudo; in a container, as a privileged one",
    ),
    (
        "is being ptraced",
        "a debugger or strace holds the program",
        "end it (`grep TracerPid /proc/PID/status`), then save again",
    ),
    (
        "shell-job",
        "the program belongs to the terminal that it was started from",
        "start it with setsid and without a terminal (`setsid PROGRAM </dev/null >log 2>&1`), or add --criu-options=--shell-job and restore from a terminal",
    ),
    (
        "dangling tty",
        "the program has a terminal open that it does not own",
        "start it with setsid and without a terminal (`setsid PROGRAM </dev/null >log 2>&1`), or add --criu-options=--shell-job",
    ),
    (
        "without correspond master peer",
        "the program has a terminal open whose other end is not saved with it (ssh, tmux, script)",
        "start it with setsid and without a terminal: setsid PROGRAM </dev/null >log 2>&1",
    ),
    (
        "session leader of",
        "the program is not the leader of its session",
        "start it with setsid, or save the leader of the session (`ps -o sid= PID`)",
    ),
    (
        "tcp-established",
        "the program has a TCP connection",
        "close it before saving, or add --criu-options=--tcp-established (the other end must wait) or --criu-options=--tcp-close (it is gone after the restore)",
    ),
    (
        "ext-unix-sk",
        "the program is connected through a UNIX socket to a process that is not saved with it",
        "save the process above both, or close the connection first",
    ),
    (
        "Can't dump half of stream unix connection",
        "the program is connected through a UNIX socket to a process that is not saved with it",
        "save the process above both, or close the connection first",
    ),
    (
        "unix: Can't connect",
        "the process at the other end of a UNIX socket of the program is not there",
        "start it first, or save both as one tree",
    ),
    (
        "file locks are hold",
        "the program holds file locks",
        "add --criu-options=--file-locks, if nobody takes them meanwhile",
    ),
    (
        "Can't create link remap",
        "the program has a file open that was deleted, and that is linked elsewhere",
        "add --criu-options=--link-remap",
    ),
    (
        "increase limit",
        "the program has a large file open that was deleted",
        "add --criu-options=--ghost-limit=1G (as large as the file)",
    ),
    (
        "has bad size",
        "a file that the program had open has another size now",
        "put the file back as it was, then restore again",
    ),
    (
        "has bad mode",
        "a file that the program had open has another mode now",
        "put the file back as it was, then restore again",
    ),
    (
        "has bad build-ID",
        "a library or program file has changed since the save",
        "restore on the system that it was saved on",
    ),
    (
        "Can't open file",
        "a file that the program had open is missing",
        "put the file back where it was, then restore again",
    ),
    (
        // The kernel passes on no descriptor of a ring.
        "send_fds failed (-22)",
        "the program uses io_uring, which CRIU cannot save",
        "let it use plain reads and writes (many programs have a switch)",
    ),
    (
        "io_uring",
        "the program uses io_uring, which CRIU cannot save",
        "let it use plain reads and writes (many programs have a switch)",
    ),
    (
        "userfaultfd",
        "the program uses userfaultfd, which CRIU cannot save",
        "let it run without (a live migration or a garbage collector may use it)",
    ),
    (
        "nvidia",
        "the program uses an NVIDIA GPU",
        "save its state with savemark.save instead; CRIU alone cannot save a GPU's memory",
    ),
    (
        "of that type",
        "the program has a device or another file open that CRIU cannot save",
        "close it before saving; the line of the log names it",
    ),
    (
        "Can't handle non-regular mapping",
        "the program has a device mapped into its memory",
        "close the device before saving",
    ),
    (
        "File exists",
        "the number of a process of the program is in use",
        "wait until the saved program has ended; on another machine restore in a namespace of its own: unshare --pid --fork --mount-proc savemark restore …",
    ),
    (
        "capabilities do not match",
        "this processor lacks what the program used on the one it was saved on",
        "restore on the same kind of processor, or save with --criu-options=--cpu-cap=ins",
    ),
    ("is within dumped tree", "CRIU itself belongs to the program", "run savemark from another terminal"),
    ("No space left on device", "a disk is full", "free some space"),
    (
        "Operation not permitted",
        "the kernel does not permit it",
        "run savemark with sudo (in a container: privileged); end strace or a debugger that holds the program",
    ),
];

/// The first line that says an error, as CRIU numbers its places in the source.
fn first_error(log: &str) -> Option<&str> {
    log.lines().find(|line| is_error(line)).map(|line| line.split_once("): ").map_or(line, |(_, text)| text))
}

/// That it cannot raise its own limits stops CRIU from nothing.
fn is_error(line: &str) -> bool {
    line.contains("Error (") && !line.contains("rlimit:")
}

/// Why `criu ACTION` failed.
pub fn error(action: &str, log: &str) -> Error {
    let lines: Vec<&str> = log.lines().filter(|line| is_error(line)).collect();
    let known = KNOWN.iter().find(|(part, ..)| lines.iter().any(|line| line.contains(part)));
    let said = first_error(log).map_or("it says nothing".to_string(), |line| format!("`{}`", line.trim()));
    match known {
        Some((_, what, fix)) => Error::failed(format!("criu {action} failed: {what} ({said})")).hint(*fix),
        None => Error::failed(format!("criu {action} failed: {said}"))
            .hint("docs/processes.md tells what CRIU can save; its log says more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_lines_get_a_fix_and_others_are_shown() {
        let log = "Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted\n\
                   (00.01) Error (criu/sk-inet.c:191): inet: Connected TCP socket, consider using --tcp-established option.\n\
                   (00.02) Error (criu/cr-dump.c:2111): Dumping FAILED.\n";
        let told = error("dump", log);
        assert!(told.message.contains("TCP connection") && told.message.contains("Connected TCP socket"), "{told}");
        assert!(told.hint.unwrap().contains("--tcp-close"));
        let told = error("dump", "Error (criu/x.c:1): Something new\n");
        assert!(told.message.contains("`Something new`"), "{told}");
        assert!(error("restore", "").message.contains("says nothing"));
    }
}
