//! A program and the shared libraries it needs, as a tar. If no registry can be reached, this is the whole content of an image.
//!
//! The program's own loader lists the libraries that it would load (`ld.so --list`). Every file keeps its absolute path, so that
//! paths compiled into files still work. The same files always give the same tar (sorted, without times and owners), so its
//! digest can name the image.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::cluster::error::{ClusterError, one_line};
use crate::cluster::installed::{self, Installed};
use crate::cluster::redis_program;
use base::runs;
use base::words::hex;
use model::topology::{InstalledClient, Program};

/// redjepsen's path in the image of a machine.
const REDJEPSEN: &str = "/usr/bin/redjepsen";
/// Scripts start with this shell.
const SHELL: &str = "/bin/sh";

/// Folders that programs do not read or that are generated from other files.
const NOT_READ: [&str; 2] = ["__pycache__", ".git"];
/// Folders of a language's installation that no client needs, or that belong to other packages.
const NOT_NEEDED: [&str; 8] =
    ["__pycache__", "test", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "dist-packages"];

/// The files that a program needs, found but not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The program's path in the image.
    pub program: PathBuf,
    /// The image's command: the program and its first arguments.
    pub command: Vec<String>,
    /// The program's version, if it matters.
    pub version: Option<String>,
    /// The processor it is built for, as Docker names it.
    pub architecture: &'static str,
    /// Paths in the image, each with the file it is copied from.
    files: BTreeMap<PathBuf, PathBuf>,
    /// Files that exist only in the image, with their content.
    texts: BTreeMap<PathBuf, String>,
    /// The value of PATH, if the image needs one.
    pub path: Option<String>,
    /// Folders of the libraries, for LD_LIBRARY_PATH: the image has no `ld.so.cache`.
    library_folders: BTreeSet<PathBuf>,
}

impl Bundle {
    /// Finds the files that the program at `path` needs. `program` is its path in the image.
    pub fn of(path: &Path, program: &Path) -> Result<Bundle, ClusterError> {
        let fail = |reason: String| ClusterError::Program { program: path.display().to_string(), reason };
        let real = fs::canonicalize(path).map_err(|error| fail(error.to_string()))?;
        let elf = Elf::read(&real).map_err(|error| fail(error.to_string()))?;
        let mut bundle = Bundle {
            program: program.to_path_buf(),
            command: vec![program.display().to_string()],
            version: None,
            architecture: elf.architecture,
            files: BTreeMap::from([(program.to_path_buf(), real.clone())]),
            texts: BTreeMap::new(),
            path: None,
            library_folders: BTreeSet::new(),
        };
        let Some(loader) = elf.loader else { return Ok(bundle) };
        bundle.add_library(&loader).map_err(|error| fail(format!("{}: {error}", loader.display())))?;
        bundle.add_what_loads(&loader, &real)?;
        Ok(bundle)
    }

    /// Adds the libraries that the loader would load for a program or a library.
    fn add_what_loads(&mut self, loader: &Path, file: &Path) -> Result<(), ClusterError> {
        let fail = |reason: String| ClusterError::Program { program: file.display().to_string(), reason };
        // Clears the caller's environment: the image does not have the caller's LD_LIBRARY_PATH.
        let listing = Command::new(loader).arg("--list").arg(file).env_clear().stdin(Stdio::null()).output();
        let listing = listing.map_err(|error| fail(format!("{}: {error}", loader.display())))?;
        if !listing.status.success() {
            return Err(fail(one_line(&String::from_utf8_lossy(&listing.stderr))));
        }
        for library in libraries(&String::from_utf8_lossy(&listing.stdout)).map_err(fail)? {
            self.add_library(&library).map_err(|error| fail(format!("{}: {error}", library.display())))?;
        }
        Ok(())
    }

    /// A server program's files. In the image the program is called redis-server, or valkey-server if it has this name here.
    pub fn of_server(path: &Path) -> Result<Bundle, ClusterError> {
        let real = fs::canonicalize(path).map_err(|error| ClusterError::Program {
            program: path.display().to_string(),
            reason: error.to_string(),
        })?;
        let version = redis_program::version(path).ok();
        Ok(Bundle { version, ..Bundle::of(&real, &real.with_file_name(redis_program::called(&real)))? })
    }

    /// A server other than Redis that is installed here, with all its files at the same paths.
    pub fn of_installed(installed: &Installed) -> Result<Bundle, ClusterError> {
        let mut bundle = Bundle::of(installed.program(), installed.program())?;
        for program in &installed.programs {
            let other = Bundle::of(program, program)?;
            bundle.files.extend(other.files);
            bundle.library_folders.extend(other.library_folders);
        }
        let loader = Elf::read(installed.program()).ok().and_then(|elf| elf.loader);
        for (library, loader) in installed.libraries.iter().zip(loader.iter().cycle()) {
            bundle.add_what_loads(loader, library)?;
        }
        for file in &installed.files {
            let real = fs::canonicalize(file).map_err(|error| bundle.fail(file, &error))?;
            bundle.files.insert(file.clone(), real);
        }
        if let Some(user) = installed.user {
            // Some programs refuse to run as a user without a name.
            bundle.texts.insert("/etc/passwd".into(), format!("{user}:x:999:999::/:/bin/sh\n"));
        }
        let (command, version) = (installed.command.clone(), Some(installed.version.clone()));
        let path = installed.path.as_ref().map(|folder| folder.display().to_string());
        Ok(Bundle { command, version, path, ..bundle })
    }

    /// The programs that local clusters need on a machine: redjepsen, a shell, Redis, and the other servers that are installed
    /// here. redjepsen finds them in the image as it does here.
    pub fn of_machine(redjepsen: &Path) -> Result<Bundle, ClusterError> {
        let mut machine = Bundle::of(redjepsen, Path::new(REDJEPSEN))?;
        let redis = redis_program::find().ok_or(ClusterError::NoServerProgram)?;
        let mut parts = vec![Bundle::of_server(&redis)?, Bundle::of(Path::new(SHELL), Path::new(SHELL))?];
        for installed in Program::ALL.into_iter().filter_map(installed::find) {
            parts.push(Bundle::of_installed(&installed)?);
        }
        // Runs the servers that refuse to run as root.
        if let Some(setpriv) = installed::on_path("setpriv") {
            parts.push(Bundle::of(&setpriv, &setpriv)?);
        }
        let folder_of = |part: &Bundle| part.program.parent().map(|folder| folder.display().to_string());
        let mut path: BTreeSet<String> = folder_of(&machine).into_iter().collect();
        for part in parts {
            path.extend(folder_of(&part));
            path.extend(part.path);
            machine.files.extend(part.files);
            machine.library_folders.extend(part.library_folders);
        }
        machine.path = Some(path.into_iter().collect::<Vec<_>>().join(":"));
        let users = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
        machine.texts.insert("/etc/passwd".into(), users.to_string());
        // Creates the folder that holds members' files.
        machine.texts.insert("/tmp/.redjepsen".into(), String::new());
        Ok(machine)
    }

    /// A client that is installed here, with its folders at the same paths.
    pub fn of_client(client: &InstalledClient) -> Result<Bundle, ClusterError> {
        let program = client.command.first().map(PathBuf::from).unwrap_or_default();
        let mut bundle = Bundle::of(&program, &program)?;
        let loader = Elf::read(&program).ok().and_then(|elf| elf.loader);
        let mut files = Vec::new();
        for (folder, left_out) in client
            .folders
            .iter()
            .map(|folder| (folder, &NOT_READ[..]))
            .chain(client.runtime.iter().map(|folder| (folder, &NOT_NEEDED[..])))
        {
            files_below(folder, left_out, &mut files).map_err(|error| bundle.fail(folder, &error))?;
        }
        for file in files {
            let real = fs::canonicalize(&file).map_err(|error| bundle.fail(&file, &error))?;
            if let Some(loader) = loader.as_ref().filter(|_| is_shared_object(&file)) {
                // A file whose library is missing here can't be loaded here either, so no program needs it.
                let _ = bundle.add_what_loads(loader, &real);
            }
            bundle.files.insert(file, real);
        }
        Ok(bundle)
    }

    fn add_library(&mut self, path: &Path) -> io::Result<()> {
        let real = fs::canonicalize(path)?;
        // A program may name its library folder relative to its own, as in `bin/../lib`.
        let winding = path.components().any(|part| part == Component::ParentDir);
        let target = if winding { real.clone() } else { path.to_path_buf() };
        self.library_folders.extend(target.parent().map(Path::to_path_buf));
        self.files.insert(target, real);
        Ok(())
    }

    /// Value for LD_LIBRARY_PATH in the image; empty for a program without shared libraries.
    pub fn library_path(&self) -> String {
        self.library_folders.iter().map(|folder| folder.to_string_lossy()).collect::<Vec<_>>().join(":")
    }

    /// Identifies this state of the files without reading them: it changes when any file is written or replaced. So a start can
    /// find the existing image without reading and hashing tens of megabytes.
    pub fn fingerprint(&self) -> Result<String, ClusterError> {
        let mut digest = Sha256::new();
        for (target, source) in &self.files {
            let meta = fs::metadata(source).map_err(|error| self.fail(source, &error))?;
            digest.update(target.as_os_str().as_bytes());
            for number in [meta.dev(), meta.ino(), meta.size()] {
                digest.update(number.to_le_bytes());
            }
            for number in [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()] {
                digest.update(number.to_le_bytes());
            }
        }
        Ok(hex(&digest.finalize()[..6]))
    }

    /// The tar, and the first 12 hex digits of its SHA-256.
    pub fn tar(&self) -> Result<(Vec<u8>, String), ClusterError> {
        let mut builder = tar::Builder::new(Vec::new());
        let texts = self.texts.iter().map(|(target, text)| (target, target, Some(text)));
        for (target, source, text) in texts.chain(self.files.iter().map(|(target, source)| (target, source, None))) {
            let content = match text {
                Some(text) => text.clone().into_bytes(),
                None => fs::read(source).map_err(|error| self.fail(source, &error))?,
            };
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o755);
            let inside = target.strip_prefix("/").unwrap_or(target);
            builder.append_data(&mut header, inside, content.as_slice()).map_err(|error| self.fail(source, &error))?;
        }
        let bytes = builder.into_inner().map_err(|error| self.fail(&self.program, &error))?;
        let hash = hex(&Sha256::digest(&bytes)[..6]);
        Ok((bytes, hash))
    }

    fn fail(&self, file: &Path, error: &io::Error) -> ClusterError {
        ClusterError::Program {
            program: self.program.display().to_string(),
            reason: format!("{}: {error}", file.display()),
        }
    }
}

/// The files in a folder and all its subfolders. Leaves out files and folders with the names in `left_out`, and everything that
/// runs have written. Otherwise a store in a client's folder would change the image with each run. Links to folders are not
/// followed.
fn files_below(folder: &Path, left_out: &[&str], files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if left_out.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let path = entry.path();
        match entry.file_type()? {
            kind if kind.is_dir() && runs::is_store(&path) => {}
            kind if kind.is_dir() => files_below(&path, left_out, files)?,
            kind if kind.is_file() || path.is_file() => files.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn is_shared_object(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "so")
}

/// The paths in the output of `ld.so --list`, as glibc and musl print it.
fn libraries(listing: &str) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for line in listing.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let place = line.split_once(" => ").map_or(line, |(_, place)| place);
        if place == "not found" {
            return Err(format!("its library {} is missing here", line.split(' ').next().unwrap_or(line)));
        }
        // The kernel's vdso has no path, and `statically linked` is not a path.
        let place = place.rsplit_once(" (0x").map_or(place, |(place, _)| place);
        if place.starts_with('/') {
            found.push(PathBuf::from(place));
        }
    }
    Ok(found)
}

/// The few fields of a program file's headers that matter here.
struct Elf {
    architecture: &'static str,
    /// The loader that the program asks for; None for a static program.
    loader: Option<PathBuf>,
}

impl Elf {
    fn read(path: &Path) -> io::Result<Elf> {
        let mut head = Vec::new();
        // Usual linkers put the program headers and the loader's path first.
        fs::File::open(path)?.take(64 * 1024).read_to_end(&mut head)?;
        Elf::parse(&head).ok_or_else(|| io::Error::other("not a 64-bit Linux program for x86_64 or aarch64"))
    }

    fn parse(head: &[u8]) -> Option<Elf> {
        let number = |at: usize, length: usize| -> Option<usize> {
            let bytes = head.get(at..at.checked_add(length)?)?;
            let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
            usize::try_from(value).ok()
        };
        // 64 bits, little endian.
        if head.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let architecture = match number(18, 2)? {
            62 => "amd64",
            183 => "arm64",
            _ => return None,
        };
        let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        const PT_INTERP: usize = 3;
        for index in 0..count {
            let header = offset.checked_add(index.checked_mul(size)?)?;
            if number(header, 4)? == PT_INTERP {
                let (from, length) = (number(header.checked_add(8)?, 8)?, number(header.checked_add(32)?, 8)?);
                let path = head.get(from..from.checked_add(length)?)?;
                let path = path.split(|byte| *byte == 0).next()?;
                return Some(Elf { architecture, loader: Some(PathBuf::from(std::str::from_utf8(path).ok()?)) });
            }
        }
        Some(Elf { architecture, loader: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tar: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(tar);
        archive.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn what_runs_have_written_is_no_part_of_a_client() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        let ours = "store/redlock-pause/20261125T185929.877Z";
        for name in ["client.py", "mylock/__init__.py", "data/v3/keys", ".git/HEAD", "mylock/__pycache__/a.pyc"] {
            write(name);
        }
        write(&format!("{ours}/history.jsonl"));
        write("nights/suites/ours/20261125T185929.877Z/matrix.json");
        symlink("redlock-pause/20261125T185929.877Z", folder.path().join("store/latest")).unwrap();
        symlink("20261125T185929.877Z", folder.path().join("nights/suites/ours/latest")).unwrap();
        // A folder that is not a store may have such a link as well.
        symlink("v3", folder.path().join("data/latest")).unwrap();
        let mut files = Vec::new();
        files_below(folder.path(), &NOT_READ, &mut files).unwrap();
        files.sort();
        let names: Vec<_> =
            files.iter().map(|file| file.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["client.py", "data/v3/keys", "mylock/__init__.py"]);
    }

    #[test]
    fn a_program_is_bundled_with_its_loader_and_libraries() {
        let bundle = Bundle::of(Path::new("/bin/sh"), Path::new("/bin/shell")).unwrap();
        assert_eq!(bundle.architecture, if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" });
        let (tar, hash) = bundle.tar().unwrap();
        let names = names(&tar);
        assert!(names.iter().any(|name| name == "bin/shell"), "{names:?}");
        assert!(names.iter().any(|name| name.contains("libc.")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("/ld-")), "{names:?}");
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(hash.len(), 12);
        assert_eq!(bundle.tar().unwrap(), (tar, hash), "the same files make the same image");
        assert!(!bundle.library_path().is_empty());
    }

    #[test]
    fn the_fingerprint_follows_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy("/bin/sh", &copy).unwrap();
        let fingerprint = || Bundle::of(&copy, Path::new("/program")).unwrap().fingerprint().unwrap();
        let before = fingerprint();
        assert_eq!(fingerprint(), before);
        fs::remove_file(&copy).unwrap();
        fs::copy("/bin/sh", &copy).unwrap();
        assert_ne!(fingerprint(), before);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let message = Bundle::of(&script, &script).unwrap_err().to_string();
        assert!(message.contains("not a 64-bit Linux program"), "{message}");
        assert!(Bundle::of(&folder.path().join("nothing"), &script).is_err());
        let elf = fs::read("/bin/sh").unwrap();
        for length in [0, 5, 17, 40, 63, 64, 100, 200] {
            // The parser must not panic, wherever the file is cut short.
            let _ = Elf::parse(&elf[..length]);
        }
    }

    #[test]
    fn listings_of_both_loaders_are_understood() {
        let glibc = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                     \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries(glibc).unwrap(), expected);
        let musl = "\t/lib/ld-musl-x86_64.so.1 (0x7f)\n\tlibc.musl-x86_64.so.1 => /lib/ld-musl-x86_64.so.1 (0x7f)\n";
        assert_eq!(libraries(musl).unwrap().len(), 2);
        assert_eq!(libraries("\tstatically linked\n").unwrap(), Vec::<PathBuf>::new());
        assert!(libraries("\tlibfoo.so.1 => not found\n").unwrap_err().contains("libfoo.so.1"));
    }
}
