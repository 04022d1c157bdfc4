//! What the library knows about synced files.

use super::*;

#[test]
fn what_was_synced_is_known_and_what_was_written_later_is_not() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let file = |name: &str| root.path(name);
    let mut sync = |how: &str, name: &str, bytes: usize, more: usize| {
        assert!(reader.ask(&format!("sync {how} {} {bytes} {more}", file(name).display())).is_empty());
    };
    sync("fsync", "a", 100, 50);
    sync("fdatasync", "b", 10, 0);
    sync("none", "c", 100, 50);
    assert_eq!(fs::metadata(file("a")).unwrap().len(), 150);
    assert_eq!(control.synced(FileId::of(&file("a")).unwrap()).unwrap(), Some(100));
    assert_eq!(control.synced(FileId::of(&file("b")).unwrap()).unwrap(), Some(10));
    assert_eq!(control.synced(FileId::of(&file("c")).unwrap()).unwrap(), None, "never synced");
    assert!(FileId::of(&file("d")).is_err(), "no such file");
    // A renamed file keeps what is known about it.
    fs::rename(file("a"), file("d")).unwrap();
    assert_eq!(control.synced(FileId::of(&file("d")).unwrap()).unwrap(), Some(100));
    // A new file has not been synced, even if it gets the inode of one that was.
    for _ in 0..20 {
        fs::remove_file(file("d")).unwrap();
        sync("none", "d", 150, 0);
        assert_eq!(control.synced(FileId::of(&file("d")).unwrap()).unwrap(), None);
    }
    // The same file, truncated and synced again.
    sync("fsync", "b", 4, 20);
    assert_eq!(control.synced(FileId::of(&file("b")).unwrap()).unwrap(), Some(4));
}

#[test]
fn more_files_than_the_table_takes_are_admitted() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let mut sync = |index: usize| {
        let file = root.path(&format!("file{index}"));
        assert!(reader.ask(&format!("sync fdatasync {} {index} 1", file.display())).is_empty());
        FileId::of(&file).and_then(|file| control.synced(file)).map_err(|error| error.to_string())
    };
    for index in 0..FILES {
        assert_eq!(sync(index), Ok(Some(index as u64)));
    }
    assert!(sync(FILES).unwrap_err().contains("more than 144 files"));
    assert!(sync(0).is_err(), "the table is not trusted any more");
}
