//! The library's records of synced files.

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
    // A renamed file keeps its record.
    fs::rename(file("a"), file("d")).unwrap();
    assert_eq!(control.synced(FileId::of(&file("d")).unwrap()).unwrap(), Some(100));
    // A new file has not been synced, even if it gets the inode of a synced file.
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

#[test]
fn a_sync_on_a_slow_disk_waits_until_its_time_is_over_or_the_disk_is_fast() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    let file = root.path("file");
    let order = format!("sync fdatasync {} 10 5", file.display());
    let synced = |control: &Control| control.synced(FileId::of(&file).unwrap()).unwrap();
    reader.ask(&order);
    // Each order syncs twice: the file, and an invalid descriptor, which waits like any other.
    assert_eq!((control.waited(), control.syncs()), (0, 1), "as fast as it is");
    assert_eq!(control.slow_disk(Duration::from_millis(100), Duration::from_millis(20)).unwrap(), 0);
    let began = Instant::now();
    reader.ask(&order);
    assert!(began.elapsed() >= Duration::from_millis(160), "{:?}", began.elapsed());
    assert_eq!((control.waited(), control.syncs()), (2, 2));

    // A waiting sync has not synced the file.
    control.slow_disk(MAX_WAIT, Duration::ZERO).unwrap();
    fs::remove_file(&file).unwrap();
    reader.order(&order);
    while control.waited() < 3 {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(synced(&control), None);
    // The sync may not be asleep yet.
    while control.slow_disk(MAX_WAIT - Duration::from_secs(1), Duration::ZERO).unwrap() == 0 {
        assert_eq!(synced(&control), None);
        thread::sleep(Duration::from_millis(1));
    }
    control.slow_disk(Duration::ZERO, Duration::ZERO).unwrap();
    reader.answer();
    assert_eq!(synced(&control), Some(10));
    assert_eq!(control.waited(), 3, "the next did not wait");

    let error = control.slow_disk(MAX_WAIT + Duration::from_secs(1), Duration::ZERO).unwrap_err().to_string();
    assert!(error.contains("at most ten seconds"), "{error}");
}
