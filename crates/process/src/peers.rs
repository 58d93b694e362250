//! What ties a program to processes outside of it: found before the program is killed, because no restore brings it back.
//!
//! CRIU refuses most of that while it dumps. But it saves a connection that nobody has accepted yet, which no restore can
//! make again; and a pipe whose other end is elsewhere, which comes back broken.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::options::DumpOptions;
use super::tree::{self, Tree};
use super::unix::{self, Socket};
use savemark_base::error::{Error, Result};

/// Lets the user allow connected datagram sockets.
const ALLOW: &str = "--ext-unix-sk";

/// Looks for peers of the program outside of it.
///
/// # Errors
/// `Refused`, with the process at the other end and what to do.
pub fn check(tree: &Tree, options: &DumpOptions) -> Result<()> {
    let pids = tree.pids();
    let ends = Ends::of(&pids);
    if !options.cut_pipes {
        check_pipes(&ends, &pids)?;
    }
    if ends.sockets.is_empty() {
        return Ok(());
    }
    let sockets = unix::sockets_of(tree.root).map_err(|e| Error {
        source: Some(e),
        ..Error::failed("cannot ask the kernel who is connected with the program (sock_diag)")
            .hint("CRIU needs this too: `criu check` tells what the kernel lacks")
    })?;
    let allowed = options.criu_options.iter().any(|option| option == ALLOW);
    match outside(&sockets, &ends.sockets, allowed) {
        Some(found) => Err(connected(&found)),
        None => Ok(()),
    }
}

/// A process and its descriptor.
type Place = (i32, String);

/// Pipes and sockets that processes have open.
#[derive(Debug, Default)]
struct Ends {
    sockets: HashSet<u32>,
    /// Of each pipe, where it is open to read and where to write.
    readers: HashMap<u64, Place>,
    writers: HashMap<u64, Place>,
}

impl Ends {
    fn of(pids: &[i32]) -> Self {
        let mut ends = Self::default();
        for pid in pids {
            for (fd, kind, number) in descriptors(*pid) {
                if kind == "socket" {
                    ends.sockets.insert(number as u32);
                    continue;
                }
                let access = access(*pid, &fd);
                if access != libc::O_WRONLY {
                    ends.readers.entry(number).or_insert_with(|| (*pid, fd.clone()));
                }
                if access != libc::O_RDONLY {
                    ends.writers.entry(number).or_insert_with(|| (*pid, fd.clone()));
                }
            }
        }
        ends
    }
}

/// The pipes and sockets of a process: name of the descriptor, kind, number. None of one that has gone.
fn descriptors(pid: i32) -> Vec<(String, &'static str, u64)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let parsed = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        let text = link.to_str()?;
        let kind = ["pipe", "socket"].into_iter().find(|kind| text.starts_with(*kind))?;
        let number = text[kind.len()..].strip_prefix(":[")?.strip_suffix(']')?.parse().ok()?;
        Some((entry.file_name().into_string().ok()?, kind, number))
    };
    entries.filter_map(parsed).collect()
}

/// How a descriptor was opened: O_RDONLY, O_WRONLY or O_RDWR.
fn access(pid: i32, fd: &str) -> i32 {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|octal| i32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(libc::O_RDWR) & libc::O_ACCMODE
}

/// Every process but those of the program.
fn others(pids: &[i32]) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| !pids.contains(pid)).collect()
}

/// A pipe of which the program has one end, and somebody else the other.
fn check_pipes(ends: &Ends, pids: &[i32]) -> Result<()> {
    let lone = |these: &HashMap<u64, Place>, those: &HashMap<u64, Place>| -> HashMap<u64, Place> {
        these
            .iter()
            .filter(|(pipe, _)| !those.contains_key(*pipe))
            .map(|(pipe, place)| (*pipe, place.clone()))
            .collect()
    };
    let (writing, reading) = (lone(&ends.writers, &ends.readers), lone(&ends.readers, &ends.writers));
    if writing.is_empty() && reading.is_empty() {
        return Ok(());
    }
    for other in others(pids) {
        let theirs = Ends::of(&[other]);
        let name = tree::name(other);
        if let Some((_, (pid, fd))) = writing.iter().find(|(pipe, _)| theirs.readers.contains_key(pipe)) {
            return Err(Error::refused(format!(
                "process {pid} has a pipe open to write (descriptor {fd}) that process {other} (`{name}`) reads, which is not saved with it: \
                 after a restore nobody would, and a write to it would end the program"
            ))
            .hint("let it write to a file (>log 2>&1), or save the process above both; if it does not need the pipe: --cut-pipes"));
        }
        if let Some((_, (pid, fd))) = reading.iter().find(|(pipe, _)| theirs.writers.contains_key(pipe)) {
            return Err(Error::refused(format!(
                "process {pid} has a pipe open to read (descriptor {fd}) that process {other} (`{name}`) writes into, which is not saved with it: \
                 after a restore the pipe would be at its end"
            ))
            .hint("let it read a file (</dev/null), or save the process above both; if it does not need the pipe: --cut-pipes"));
        }
    }
    Ok(())
}

/// A connection to somebody outside.
#[derive(Debug, PartialEq)]
struct Outside {
    /// The socket at the other end, or the one that has not accepted yet.
    peer: u32,
    name: Option<String>,
    accepted: bool,
    is_datagram: bool,
}

/// The first connection of the sockets `ours` to one that is not.
fn outside(sockets: &[Socket], ours: &HashSet<u32>, datagrams_allowed: bool) -> Option<Outside> {
    let known: HashMap<u32, &Socket> = sockets.iter().map(|socket| (socket.ino, socket)).collect();
    sockets.iter().filter(|socket| ours.contains(&socket.ino)).find_map(|socket| {
        let (other, accepted) = match socket.peer? {
            0 => (sockets.iter().find(|listener| listener.waiting.contains(&socket.ino))?.ino, false),
            peer => (peer, true),
        };
        let name = known.get(&other).and_then(|peer| peer.name.clone());
        let is_fine = ours.contains(&other) || (socket.is_datagram && datagrams_allowed && name.is_some());
        (!is_fine).then_some(Outside { peer: other, name, accepted, is_datagram: socket.is_datagram })
    })
}

fn connected(found: &Outside) -> Error {
    let holder = others(&[]).into_iter().find(|pid| {
        descriptors(*pid).iter().any(|(_, kind, number)| *kind == "socket" && *number == u64::from(found.peer))
    });
    let who = holder.map_or("another process".to_string(), |pid| format!("process {pid} (`{}`)", tree::name(pid)));
    let place = found.name.as_ref().map(|name| format!(" at {name}")).unwrap_or_default();
    let how = if found.accepted { "connected" } else { "about to be connected" };
    let again = match (found.is_datagram, &found.name) {
        (true, Some(_)) => format!(", or add --criu-options={ALLOW}: it is connected again at the restore"),
        _ => String::new(),
    };
    Error::refused(format!(
        "the program is {how} through a UNIX socket to {who}{place}, which is not saved with it: it could not be restored"
    ))
    .hint(format!("save the process above both, or close the connection first{again}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(ino: u32, peer: Option<u32>) -> Socket {
        Socket { ino, peer, ..Default::default() }
    }

    #[test]
    fn only_what_leads_out_of_the_program_is_found() {
        let ours = HashSet::from([1, 2, 3]);
        let named = |socket: Socket| Socket { name: Some("/run/log".into()), ..socket };
        let both = [socket(1, Some(2)), socket(2, Some(1)), named(socket(3, None)), socket(9, Some(3))];
        assert_eq!(outside(&both, &ours, false), None, "a pair, and somebody who speaks to us");
        let found = outside(&[socket(1, Some(9)), named(socket(9, Some(1)))], &ours, true).unwrap();
        assert_eq!((found.peer, found.name.as_deref(), found.accepted), (9, Some("/run/log"), true));
        let listener = |ino| Socket { waiting: vec![1], ..socket(ino, None) };
        assert!(!outside(&[socket(1, Some(0)), listener(9)], &ours, true).unwrap().accepted);
        assert_eq!(outside(&[socket(1, Some(0)), listener(3)], &ours, false), None);
        let datagrams = [Socket { is_datagram: true, ..socket(1, Some(9)) }, named(socket(9, None))];
        assert!(outside(&datagrams, &ours, false).is_some());
        assert_eq!(outside(&datagrams, &ours, true), None);
    }

    #[test]
    fn a_pipe_in_one_hand_is_fine_and_in_two_it_is_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        let us = std::process::id() as i32;
        let ends = Ends::of(&[us]);
        let mine = |ends: &HashMap<u64, Place>| ends.values().filter(|(pid, _)| *pid == us).count();
        assert!(mine(&ends.readers) >= 1 && mine(&ends.writers) >= 1);
        let link =
            |pipe: &dyn std::os::fd::AsRawFd| fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).unwrap();
        let number: u64 = link(&reader).to_str().unwrap()["pipe:[".len()..].trim_end_matches(']').parse().unwrap();
        let lone = |readers: &[u64], writers: &[u64]| Ends {
            readers: readers.iter().map(|pipe| (*pipe, (7, "1".into()))).collect(),
            writers: writers.iter().map(|pipe| (*pipe, (7, "1".into()))).collect(),
            ..Default::default()
        };
        check_pipes(&lone(&[number], &[number]), &[7]).unwrap();
        let error = check_pipes(&lone(&[], &[number]), &[7]).unwrap_err();
        assert!(error.message.contains(&format!("process {us}")) && error.hint.unwrap().contains(">log"));
        let error = check_pipes(&lone(&[number], &[]), &[7]).unwrap_err();
        assert!(error.message.contains("writes into") && error.hint.unwrap().contains("/dev/null"));
        drop((reader, writer));
    }
}
