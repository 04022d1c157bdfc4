//! Files on disk that other programs may change. They are written completely or not at all, and read only if they are regular
//! files.
//!
//! Writing: a file is written beside its name and then renamed, so no reader ever finds half of it. If the disk is full, the
//! old file stays. A link at its name is replaced, never followed. Files that grow line by line (histories, logs, a suite's
//! state) are not written here. Nothing is flushed to the disk itself: after a power failure, a file may be lost.
//!
//! Reading: up to a limit, regular files only, opened without waiting. So neither an endless device nor a pipe without a writer
//! can block the program. A file that another program's file names is opened step by step, below the folder of that file. No
//! link on the way is followed.
//!
//! Every error names the path and, if there is one, the remedy.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};

/// The largest size of a file written by hand: a workload, a nemesis, a suite, a scenario.
pub const BY_HAND: u64 = 1 << 20;
/// The largest size of a file with results.
pub const RESULTS: u64 = 256 << 20;
/// At most this many names for the new file are tried; other programs may use some.
const NAMES_TRIED: u32 = 100;

/// Why a file or folder could not be written, read or removed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot write {}: {source}{}", path.display(), remedy(source))]
    Write { path: PathBuf, source: Arc<io::Error> },
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: Arc<io::Error> },
    #[error("cannot remove {}: {source}", path.display())]
    Remove { path: PathBuf, source: Arc<io::Error> },
}

impl FileError {
    pub fn write(path: &Path, source: io::Error) -> FileError {
        FileError::Write { path: path.to_path_buf(), source: Arc::new(source) }
    }

    pub fn remove(path: &Path, source: io::Error) -> FileError {
        FileError::Remove { path: path.to_path_buf(), source: Arc::new(source) }
    }

    pub fn read(path: &Path, source: io::Error) -> FileError {
        FileError::Read { path: path.to_path_buf(), source: Arc::new(source) }
    }

    fn path(&self) -> &Path {
        match self {
            FileError::Write { path, .. } | FileError::Read { path, .. } | FileError::Remove { path, .. } => path,
        }
    }
}

/// The remedy for a file that cannot be written, as the end of a sentence.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space there, or choose another folder",
        ErrorKind::FileTooLarge => "; raise the limit on the size of files (`ulimit -f`), or choose another folder",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; make its folder writable for this user, or choose another one"
        }
        ErrorKind::NotFound => "; its folder is gone",
        ErrorKind::IsADirectory | ErrorKind::DirectoryNotEmpty => "; a folder has this name, so move the folder away",
        _ => "",
    }
}

/// Files that could not be written, at least one. All other files were written.
#[derive(Debug, Default)]
pub struct Unwritten(Vec<FileError>);

impl Unwritten {
    pub fn note(&mut self, outcome: Result<(), FileError>) {
        self.0.extend(outcome.err());
    }

    /// Records all files that could not be written.
    pub fn note_all(&mut self, outcome: Result<(), Unwritten>) {
        self.0.extend(outcome.err().into_iter().flat_map(|unwritten| unwritten.0));
    }

    /// An error if any file was recorded.
    pub fn conclude(self) -> Result<(), Unwritten> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else { return f.write_str("everything was written") };
        write!(f, "{first}")?;
        let name = |error: &FileError| match error.path().file_name() {
            Some(name) => name.to_string_lossy().into_owned(),
            None => error.path().display().to_string(),
        };
        let others: Vec<String> = others.iter().map(name).collect();
        if others.is_empty() { Ok(()) } else { write!(f, " (nor {})", others.join(", ")) }
    }
}

impl std::error::Error for Unwritten {}

/// Writes one of redjepsen's files, completely or not at all. A link with its name is replaced.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), FileError> {
    replace(path, content.as_ref()).map_err(|source| FileError::write(path, source))
}

/// Writes a file that the user named, completely or not at all. If it is a link, its target is written. A file that is not
/// regular, such as `/dev/stdout` or a named pipe, is written into and not replaced.
pub fn export(path: &Path, content: &str) -> Result<(), FileError> {
    let written = match fs::metadata(path) {
        Ok(there) if there.is_file() => fs::canonicalize(path).and_then(|path| replace(&path, content.as_bytes())),
        Ok(there) if !there.is_dir() => fs::write(path, content),
        _ => replace(path, content.as_bytes()),
    };
    written.map_err(|source| FileError::write(path, source))
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let (beside, mut file) = create_beside(path)?;
    let written = file.write_all(content).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // A half-written file must not stay. If even the removal fails, the first error gives the reason.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Creates a new, empty file in the folder of `path`, with an unused name.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(ErrorKind::IsADirectory)?.to_string_lossy();
    for attempt in 0..NAMES_TRIED {
        let beside = path.with_file_name(format!(".{name}.{}-{attempt}.new", std::process::id()));
        // An existing file is rejected, and so is a link, wherever it leads.
        match File::options().write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            other => return other.map(|file| (beside, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Creates a folder within one of redjepsen's folders. An existing one must be a folder and not a link.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    let made = match fs::create_dir(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::symlink_metadata(path) {
            Ok(there) if there.is_dir() => Ok(()),
            Ok(there) => Err(io::Error::other(format!("it is {}, not a folder", kind(&there)))),
            Err(error) => Err(error),
        },
        other => other,
    };
    made.map_err(|source| FileError::write(path, source))
}

/// Removes one of redjepsen's folders with its content, if it exists. Links in it are removed, not followed.
pub fn remove_folder(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| FileError::remove(path, source)),
    }
}

/// The content of a file that the user named, with at most `most` bytes.
pub fn read_named(path: &Path, most: u64) -> Result<String, FileError> {
    text(bytes_named(path, most)?).map_err(|source| FileError::read(path, source))
}

/// Like [`read_named`], for a file that need not be text.
pub fn bytes_named(path: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let read = open(path, OFlags::RDONLY).and_then(|file| up_to(file, most));
    read.map_err(|source| FileError::read(path, source))
}

/// The content of a file in one of redjepsen's folders, which other programs may have changed. A link is not followed.
pub fn read_inside(path: &Path, most: u64) -> Result<String, FileError> {
    let read = open(path, OFlags::RDONLY | OFlags::NOFOLLOW).and_then(|file| up_to(file, most)).and_then(text);
    read.map_err(|source| FileError::read(path, source))
}

/// The content of a file in a folder that every user may write to. The file must belong to this user.
pub fn read_own(path: &Path, most: u64) -> Result<String, FileError> {
    let read = open(path, OFlags::RDONLY | OFlags::NOFOLLOW).and_then(|file| {
        let owner = file.metadata()?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(ErrorKind::PermissionDenied, format!("it belongs to user {owner}")));
        }
        text(up_to(file, most)?)
    });
    read.map_err(|source| FileError::read(path, source))
}

/// True if a path consists of plain names only, none of them hidden. It cannot lead out of its folder.
pub fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\0', '\\'])
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        && !path.split('/').any(|part| part.is_empty() || part.starts_with('.'))
}

/// The relative path from one absolute folder to another.
pub fn relative(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect::<PathBuf>().display().to_string()
}

/// The folder at a plain path below `root`, as named in another program's file.
///
/// # Errors
///
/// If the name could lead elsewhere, if a link is on the way, or if there is no such folder.
pub fn below(root: &Path, named: &str) -> Result<PathBuf, FileError> {
    let opened = match is_plain(named) {
        true => folder_below(root, named).map(drop),
        false => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the path comes from a file, and it may lead out of this folder",
        )),
    };
    let path = root.join(named);
    opened.map(|()| path.clone()).map_err(|source| FileError::read(&path, source))
}

/// Opens a folder below another one, step by step. No link on the way is followed.
pub fn folder_below(root: &Path, path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // The root may be a link: the user named it.
    let mut folder = openat(CWD, root, flags, Mode::empty())?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        folder = openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

/// Opens a regular file below a folder, by a plain path. No link on the way is followed.
pub fn open_below(root: &Path, path: &str) -> io::Result<File> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder = folder_below(root, folder)?;
    // Check the type before opening: some devices react to being opened.
    let there = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
        return Err(ErrorKind::NotFound.into());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(&folder, name, flags, Mode::empty())?);
    must_be_regular(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file in one of redjepsen's folders for reading. A link is not followed.
pub fn open_inside(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY | OFlags::NOFOLLOW)
}

/// Opens one of redjepsen's growing files, to read it and to append to it. A link is not followed.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW)
}

/// Empties one of redjepsen's files, if it exists. A link is not followed.
pub fn empty(path: &Path) -> io::Result<()> {
    open(path, OFlags::WRONLY | OFlags::NOFOLLOW)?.set_len(0)
}

/// Opens a regular file without blocking.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Check the type before opening too: some devices react to being opened.
    let there = if flags.contains(OFlags::NOFOLLOW) { fs::symlink_metadata(path)? } else { fs::metadata(path)? };
    must_be_regular(&there)?;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    must_be_regular(&file.metadata()?)?;
    Ok(file)
}

fn must_be_regular(there: &Metadata) -> io::Result<()> {
    if there.is_file() {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("it is {}, not a regular file", kind(there))))
}

fn kind(there: &Metadata) -> &'static str {
    match there.file_type() {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a link",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_file() => "a file",
        _ => "a device",
    }
}

fn up_to(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    // Count while reading: a file may grow, and some files report a length of 0.
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let size = if most >= 1 << 20 { format!("{} MiB", most >> 20) } else { format!("{} KiB", most >> 10) };
        return Err(io::Error::new(ErrorKind::InvalidData, format!("it is larger than {size}, the limit")));
    }
    Ok(content)
}

fn text(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// A file that a client is installed from is written by hand, so it has the same limit.
const LARGEST_SOURCE: u64 = BY_HAND;
/// The limit for all these files together, in bytes.
const ALL_SOURCES: usize = 64 << 20;

/// A file's content, with its length before it. For a folder, the names and contents of all files in it. Links in a folder are
/// not followed; the target's path counts as the content.
pub fn content(path: &Path) -> Result<Vec<u8>, FileError> {
    let mut all = Vec::new();
    add_content(path, &mut all)?;
    Ok(all)
}

fn add_content(path: &Path, all: &mut Vec<u8>) -> Result<(), FileError> {
    if !path.is_dir() {
        let content = bytes_named(path, LARGEST_SOURCE)?;
        // The length makes a difference if content moves from one file to the next.
        all.extend((content.len() as u64).to_le_bytes());
        all.extend(content);
        if all.len() > ALL_SOURCES {
            let text = format!("more than {} MiB to install from; name fewer `sources`", ALL_SOURCES >> 20);
            return Err(FileError::read(path, io::Error::other(text)));
        }
        return Ok(());
    }
    let list = || fs::read_dir(path)?.collect::<io::Result<Vec<_>>>();
    let mut inside = list().map_err(|source| FileError::read(path, source))?;
    // Built files.
    let made = ["target", "__pycache__"];
    inside.retain(|entry| !made.iter().any(|name| entry.file_name() == *name));
    inside.sort_by_key(fs::DirEntry::file_name);
    all.extend((inside.len() as u64).to_le_bytes());
    for entry in inside {
        all.extend(entry.file_name().as_encoded_bytes());
        all.push(0);
        match fs::read_link(entry.path()) {
            Ok(target) => all.extend(target.as_os_str().as_encoded_bytes()),
            Err(_) => add_content(&entry.path(), all)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn fifo(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn a_file_is_written_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        write(&path, "one").unwrap();
        write(&path, "two").unwrap();
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), names(folder.path())),
            ("two", vec!["report.html".into()])
        );
    }

    #[test]
    fn no_link_leads_out_of_the_folder() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let theirs = elsewhere.path().join("theirs");
        fs::write(&theirs, "as it was").unwrap();
        let path = folder.path().join("report.html");
        symlink(&theirs, &path).unwrap();
        // Also at the name of redjepsen's half-written file.
        symlink(&theirs, folder.path().join(format!(".report.html.{}-0.new", std::process::id()))).unwrap();
        write(&path, "ours").unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "as it was");
        assert!(!path.is_symlink() && fs::read_to_string(&path).unwrap() == "ours");

        symlink(elsewhere.path(), folder.path().join("n0")).unwrap();
        let error = create_folder(&folder.path().join("n0")).unwrap_err().to_string();
        assert!(error.contains("/n0: it is a link, not a folder"), "{error}");
        create_folder(&folder.path().join("n1")).unwrap();
        create_folder(&folder.path().join("n1")).unwrap();

        symlink(&theirs, folder.path().join("results.json")).unwrap();
        let error = read_inside(&folder.path().join("results.json"), BY_HAND).unwrap_err().to_string();
        assert!(error.ends_with("/results.json: it is a link, not a regular file"), "{error}");
        assert!(open_to_append(&folder.path().join("results.json")).is_err());
        assert!(empty(&folder.path().join("results.json")).is_err());
        assert_eq!(read_named(&folder.path().join("results.json"), BY_HAND).unwrap(), "as it was", "the user named it");
    }

    #[test]
    fn what_a_file_names_lies_below_its_folder_or_is_refused() {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [home.path(), elsewhere.path()] {
            fs::create_dir_all(folder.join("runs/a b/1")).unwrap();
        }
        symlink(elsewhere.path().join("runs"), home.path().join("linked")).unwrap();
        symlink("1", home.path().join("runs/a b/latest")).unwrap();
        assert_eq!(below(home.path(), "runs/a b/1").unwrap(), home.path().join("runs/a b/1"));
        let absolute = elsewhere.path().join("runs").display().to_string();
        let up = format!("../{}/runs", elsewhere.path().file_name().unwrap().display());
        let others =
            ["", ".", "..", "runs/../runs", "runs//a b", "linked", "linked/a b/1", "runs/a b/latest", "runs/none"];
        for named in others.into_iter().chain([&absolute[..], &up]) {
            assert!(below(home.path(), named).is_err(), "{named}");
        }
        // The root itself may be a link.
        assert!(below(&home.path().join("linked"), "a b/1").is_ok());
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_not_plain() {
        for path in ["redlock-pause/20260101T000000.000Z", "a b/ü.html", "x", "a..b"] {
            assert!(is_plain(path), "{path}");
        }
        for path in
            ["", "/", "/etc/passwd", "..", "a/../b", "a/..", "./a", "a//b", "a/", ".git/config", "a/.b", "a\0b", "a\\b"]
        {
            assert!(!is_plain(path), "{path:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_says_where_and_what_to_do_and_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone/report.html");
        let error = write(&gone, "x").unwrap_err().to_string();
        assert!(
            error.contains("/gone/report.html: No such file") && error.ends_with("; its folder is gone"),
            "{error}"
        );
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let error = write(&taken, "x").unwrap_err().to_string();
        assert!(error.contains("/taken: ") && error.ends_with("so move the folder away"), "{error}");
        assert_eq!(names(folder.path()), ["taken"], "nothing half written");
        for (kind, words) in [
            (ErrorKind::StorageFull, "free some space"),
            (ErrorKind::FileTooLarge, "ulimit -f"),
            (ErrorKind::PermissionDenied, "writable"),
        ] {
            let error = FileError::write(&taken, kind.into()).to_string();
            assert!(error.starts_with("cannot write ") && error.contains(words), "{error}");
        }
        let mut unwritten = Unwritten::default();
        unwritten.note(write(&gone, "x"));
        unwritten.note(Ok(()));
        unwritten.note(write(&taken, "x"));
        let error = unwritten.conclude().unwrap_err().to_string();
        assert!(error.contains("/gone/report.html") && error.ends_with(" (nor taken)"), "{error}");
        assert!(Unwritten::default().conclude().is_ok());
    }

    #[test]
    fn what_the_user_named_is_written_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let (there, link) = (folder.path().join("there.html"), folder.path().join("link.html"));
        fs::write(&there, "before").unwrap();
        symlink(&there, &link).unwrap();
        export(&link, "after").unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&there).unwrap() == "after");
        export(&folder.path().join("new.html"), "new").unwrap();
        export(Path::new("/dev/null"), "nothing").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device(), "it was not replaced");
        let error = export(Path::new("/dev/full"), "nothing").unwrap_err().to_string();
        assert!(error.contains("/dev/full: No space left") && error.contains("free some space"), "{error}");
    }

    #[test]
    fn only_regular_files_of_a_sensible_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("good"), "x".repeat(1000)).unwrap();
        for read in [read_named, read_inside, read_own] {
            assert_eq!(read(&path("good"), 1000).unwrap().len(), 1000);
            let error = read(&path("good"), 999).unwrap_err().to_string();
            assert!(error.contains("/good: it is larger than"), "{error}");
        }
        fifo(&path("pipe"));
        fs::write(path("binary"), [0xff, 0xfe]).unwrap();
        for (name, words) in [
            (path("pipe"), "it is a named pipe, not a regular file"),
            (path(""), "it is a folder"),
            (path("missing"), "No such file"),
            (path("binary"), "it is not UTF-8"),
            ("/dev/zero".into(), "it is a device"),
            ("/dev/tty".into(), "it is a device"),
        ] {
            let error = read_named(&name, BY_HAND).unwrap_err().to_string();
            assert!(error.contains(&name.display().to_string()) && error.contains(words), "{error}");
        }
        // It has length 0, but content.
        assert!(read_named(Path::new("/proc/self/status"), BY_HAND).unwrap().contains("Name:"));
        assert!(read_named(Path::new("/proc/self/status"), 10).is_err());
        if !rustix::process::geteuid().is_root() {
            let error = read_own(Path::new("/proc/1/status"), BY_HAND).unwrap_err().to_string();
            assert!(error.contains("it belongs to user 0"), "{error}");
        }
    }
}
