//! Hostile files, one after another, as root and as a user without privileges: a run's folder, a scenario, a matrix, a store or a
//! cache. The program executes nothing of them, and writes only into the store. It reports the problem, ends, and needs little
//! memory. `trust.rs` tests files that the user vouches for.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use checker::Validity;
use model::nemesis::Expectation::Valid;
use model::scenario::{Options, Scenario};
use report::matrix as pages;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use suite::matrix::{Circumstances, Matrix};
use tempfile::TempDir;

use crate::pure::formats::{gzip, zstd};
use crate::pure::matrix::{cell, run, suite};

/// A hang lasts longer than this. Not a measurement.
const LONG: Duration = Duration::from_secs(120);
/// The most address space that the program gets, in bytes, so that a defect does not harm the machine.
const ADDRESSES: u64 = 8 << 30;
/// The most memory that the program may use, in bytes.
const MEMORY: u64 = 1 << 30;
/// The user that by custom has no rights.
const NOBODY: u32 = 65534;

/// A hostile file, and the required result of the command that reads it.
struct Trap {
    name: &'static str,
    made: fn(&Place),
    /// `SENT` stands for the hostile folder.
    command: &'static str,
    code: i32,
    says: &'static str,
}

const TRAPS: &[Trap] = &[
    Trap {
        name: "a run whose client installs itself",
        made: |place| place.scenario(|text| place.with_client(text)),
        command: "replay SENT --cluster local",
        code: 254,
        says: "add --trust",
    },
    Trap {
        name: "the same in a scenario that is to be simulated",
        made: |place| place.scenario(|text| place.with_client(text)),
        command: "run --scenario SENT/scenario.toml --cluster sim",
        code: 254,
        says: "--cluster",
    },
    Trap {
        name: "a run with a server of its own",
        made: |place| {
            let server = format!("redis_server = \"{}\"\n", place.program().display());
            place.scenario(|text| text.replace("[cluster]\n", &format!("[cluster]\n{server}")));
        },
        command: "run --scenario SENT",
        code: 254,
        says: "add --trust",
    },
    Trap {
        name: "a name that leads up",
        made: |place| place.scenario(|text| text.replace("\"redlock\"", "\"../../outside/x\"")),
        command: "replay SENT --cluster sim",
        code: 254,
        says: "is not a name",
    },
    Trap {
        name: "a name with folders in it",
        made: |place| place.scenario(|text| text.replace("\"pause\"", "\"x/../../../outside\"")),
        command: "run --scenario SENT",
        code: 254,
        says: "is not a name",
    },
    Trap {
        name: "a name that clears the screen",
        made: |place| place.scenario(|text| text.replace("\"pause\"", "\"\\u001b[2J\\u0007\"")),
        command: "report SENT",
        code: 255,
        says: "is not a name",
    },
    Trap {
        name: "a hundred thousand clients",
        made: |place| place.scenario(|text| text.replace("clients = 5", "clients = 100000")),
        command: "run --scenario SENT",
        code: 254,
        says: "it must be between 1 and 100",
    },
    Trap {
        name: "a thousand million nodes",
        made: |place| place.scenario(|text| text.replace("\nnodes = 5\nkeys", "\nnodes = 1000000000\nkeys")),
        command: "replay SENT --cluster sim",
        code: 254,
        says: "it must be between 1 and 31",
    },
    Trap {
        name: "more keys than memory",
        made: |place| place.scenario(|text| text.replace("keys = 1\n", "keys = 4294967295\n")),
        command: "run --scenario SENT",
        code: 254,
        says: "it must be between 1 and 10000",
    },
    Trap {
        name: "a TTL without end",
        made: |place| place.scenario(|text| text.replace("ttl = \"1s\"", "ttl = \"99999999999999999999s\"")),
        command: "run --scenario SENT",
        code: 254,
        says: "is not a length of time",
    },
    Trap {
        name: "a scenario nested without end",
        made: |place| place.scenario(|text| format!("x = {}\n{text}", "[".repeat(500_000))),
        command: "run --scenario SENT",
        code: 254,
        says: "scenario.toml: ",
    },
    Trap {
        name: "a history that is a link to a file of the machine",
        made: |place| place.link("history.jsonl", "/etc/passwd"),
        command: "check SENT",
        code: 255,
        says: "it is a link that leads out of the folder",
    },
    Trap {
        name: "a history that is a device without end",
        made: |place| place.link("history.jsonl", "/dev/zero"),
        command: "report SENT",
        code: 255,
        says: "it is a link that leads out of the folder",
    },
    Trap {
        name: "a history that is a pipe into which nobody writes",
        made: |place| {
            fs::remove_file(place.sent().join("history.jsonl")).unwrap();
            pipe(&place.sent().join("history.jsonl"));
        },
        command: "replay SENT --cluster sim",
        code: 254,
        says: "not a regular file",
    },
    Trap {
        name: "facts that are a link",
        made: |place| place.link("facts.json", "/dev/zero"),
        command: "check SENT",
        code: 255,
        says: "it is a link",
    },
    Trap {
        name: "sightings of servers that are a device without end",
        made: |place| symlink("/dev/zero", place.sent().join("servers.jsonl")).unwrap(),
        command: "report SENT",
        code: 0,
        says: "report.html",
    },
    Trap {
        name: "links where the report is to be written",
        made: |place| {
            for name in
                ["report.html", "locks.png", "rate.png", "latency-raw.png", "counterexample.svg", "incident-1.svg"]
            {
                symlink(place.outside().join("theirs"), place.sent().join(name)).unwrap();
            }
        },
        command: "report SENT",
        code: 0,
        says: "report.html",
    },
    Trap {
        name: "a history of four thousand million clients",
        made: |place| place.history(|text| text.replacen("\"clients\":5", "\"clients\":4294967295", 1)),
        command: "check SENT",
        code: 255,
        says: "4294967295 clients, but a run has at most 10000",
    },
    Trap {
        name: "a history of as many nodes",
        made: |place| place.history(|text| text.replacen("\"nodes\":5", "\"nodes\":4294967295", 1)),
        command: "report SENT",
        code: 255,
        says: "4294967295 nodes, but a run has at most 10000",
    },
    Trap {
        name: "a history of the longest times that there are",
        made: |place| {
            let longest = |text: &str, name: &str, value: &str| {
                text.replacen(&format!("\"{name}\":{value}"), &format!("\"{name}\":{}", u64::MAX), 1)
            };
            place.history(|text| {
                let text = longest(&longest(text, "ttl_ms", "1000"), "time_limit_ms", "30000");
                let text = longest(&longest(&text, "acquire_timeout_ms", "4000"), "least_hold_ms", "10");
                text.replace("\"fault\":0", "\"fault\":4294967295").replace("\"keys\":1", "\"keys\":4294967295")
            });
        },
        command: "check SENT",
        code: 1,
        says: "INVALID",
    },
    Trap {
        name: "a history that ends at the end of time, of a process with the greatest number",
        made: |place| {
            place.history(|text| {
                let (rest, last) = text.trim_end().rsplit_once('\n').unwrap();
                let mut last: serde_json::Value = serde_json::from_str(last).unwrap();
                last["time"] = u64::MAX.into();
                format!("{rest}\n{last}\n").replace("\"process\":3", "\"process\":4294967295")
            });
        },
        command: "report SENT",
        code: 0,
        says: "report.html",
    },
    Trap {
        name: "a value nested a hundred thousand times",
        made: |place| {
            let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            place.history(|text| text.replacen("\"c0:0\"", &deep, 1));
        },
        command: "check SENT",
        code: 255,
        says: "recursion limit exceeded",
    },
    Trap {
        name: "clients, keys and a lock that steer the terminal",
        made: |place| {
            place.history(|text| {
                let text =
                    text.replace("redjepsen 0.1.0", "\\u001b[2J\\u0007\\u202e").replace("\"k0\"", "\"\\u001b[31m\"");
                text.replace("\"workload\":\"redlock\"", "\"workload\":\"../../x\\u001b]0;title\\u0007\"")
            });
        },
        command: "check SENT",
        code: 1,
        says: "INVALID",
    },
    Trap {
        name: "a small gzip file that is a gigabyte and more",
        made: |place| place.bomb("history.jsonl.gz", gzip),
        command: "check SENT",
        code: 255,
        says: "it decompresses to more than 1 GiB",
    },
    Trap {
        name: "a small zstd file that is a gigabyte and more",
        made: |place| place.bomb("history.jsonl.zst", zstd),
        command: "check SENT/history.jsonl.zst --model register",
        code: 255,
        says: "it decompresses to more than 1 GiB",
    },
    Trap {
        name: "a history of a hundred gigabytes that take no room",
        made: |place| File::create(place.sent().join("history.jsonl")).unwrap().set_len(100 << 30).unwrap(),
        command: "check SENT",
        code: 255,
        says: "line 1: longer than",
    },
    Trap {
        name: "EDN nested without end",
        made: |place| place.write("deep.edn", &"[".repeat(1_000_000)),
        command: "check SENT/deep.edn",
        code: 255,
        says: "deep.edn, line 1",
    },
    Trap {
        name: "a number of a million digits",
        made: |place| {
            let number = "9".repeat(1_000_000);
            place.write("long.edn", &format!("{{:process 0, :type :invoke, :f :write, :value {number}}}\n"));
        },
        command: "check SENT/long.edn",
        code: 255,
        says: "long.edn, line 1",
    },
    Trap {
        name: "a part of four thousand million",
        made: |place| place.matrix(|json| json["shards"] = serde_json::json!([{"index": 1, "of": u32::MAX}])),
        command: "suite --merge SENT",
        code: 254,
        says: "there is no shard 1/4294967295",
    },
    Trap {
        name: "a matrix whose suite has a path for a name",
        made: |place| place.matrix(|json| json["suite"] = "../../outside/x".into()),
        command: "suite --merge SENT",
        code: 254,
        says: "is not a name of a suite",
    },
    Trap {
        name: "a matrix with counts and lengths without end",
        made: |place| {
            place.matrix(|json| {
                for key in ["planned_s", "took_s"] {
                    json[key] = 1e308.into();
                }
                for cell in json["cells"].as_array_mut().unwrap() {
                    cell["tally"]["planned"] = u32::MAX.into();
                    let run = &mut cell["runs"][0];
                    (run["run"], run["seed"], run["seconds"]) = (u32::MAX.into(), u64::MAX.into(), 1e308.into());
                    for count in ["acknowledged", "lost", "overlaps", "holds"] {
                        run["numbers"][count] = u64::MAX.into();
                    }
                }
            });
        },
        command: "suite --merge SENT",
        code: 2,
        says: "UNKNOWN",
    },
    Trap {
        name: "a matrix too large to draw, whose runs are elsewhere",
        made: |place| {
            place.matrix(|json| {
                let cell = json["cells"][0].clone();
                let many = (0..1500).map(|number| {
                    let mut cell = cell.clone();
                    cell["name"] = format!("cell {number} \u{1b}[2J").into();
                    (cell["workload"], cell["nemesis"]) = (format!("w{number}").into(), format!("n{number}").into());
                    cell["runs"][0]["cell"] = cell["name"].clone();
                    cell["runs"][0]["folder"] = "../../../../../../etc".into();
                    cell
                });
                json["cells"] = many.collect();
            });
        },
        command: "suite --merge SENT",
        code: 0,
        says: "All 1500 cells",
    },
    Trap {
        name: "a matrix nested without end",
        made: |place| place.write("matrix.json", &"[".repeat(10_000_000)),
        command: "suite --merge SENT",
        code: 254,
        says: "matrix.json: ",
    },
    Trap {
        name: "a matrix of gigabytes that take no room",
        made: |place| File::create(place.sent().join("matrix.json")).unwrap().set_len(10 << 30).unwrap(),
        command: "suite --merge SENT",
        code: 254,
        says: "it is larger than 256 MiB, the limit",
    },
    Trap {
        name: "a store whose latest run is elsewhere",
        made: |place| {
            fs::create_dir_all(place.sent().join("store/redlock-none")).unwrap();
            for link in ["store/latest", "store/redlock-none/latest"] {
                symlink(place.outside(), place.sent().join(link)).unwrap();
            }
        },
        command: "run --cluster sim --nemesis none --time-limit 2s --seed 3 --store SENT/store",
        code: 0,
        says: "VALID",
    },
    Trap {
        name: "a store whose runs are elsewhere",
        made: |place| {
            fs::create_dir(place.sent().join("store")).unwrap();
            symlink(place.outside(), place.sent().join("store/redlock-none")).unwrap();
        },
        command: "run --cluster sim --nemesis none --time-limit 2s --seed 3 --store SENT/store",
        code: 255,
        says: "it is a link, not a folder",
    },
    Trap {
        name: "a store whose suites are elsewhere",
        made: |place| {
            place.small_suite("redlock");
            fs::create_dir(place.sent().join("store")).unwrap();
            symlink(place.outside(), place.sent().join("store/suites")).unwrap();
        },
        command: "suite SENT/small.toml --cluster sim --store SENT/store",
        code: 255,
        says: "it is a link, not a folder",
    },
    Trap {
        name: "a store with a suite to go on with that has no end",
        made: |place| {
            place.small_suite("redlock");
            let unfinished = place.sent().join("store/suites/small/20990101T000000.000Z");
            fs::create_dir_all(&unfinished).unwrap();
            File::create(unfinished.join("state.jsonl")).unwrap().set_len(100 << 30).unwrap();
            let other = unfinished.with_file_name("20980101T000000.000Z");
            fs::create_dir(&other).unwrap();
            pipe(&other.join("state.jsonl"));
        },
        command: "suite SENT/small.toml --cluster sim --store SENT/store",
        code: 0,
        says: "AS EXPECTED",
    },
    Trap {
        name: "scripts of a hunt that would be written elsewhere",
        made: |place| {
            fs::create_dir(place.sent().join("store")).unwrap();
            symlink(place.outside(), place.sent().join("store/fuzz")).unwrap();
        },
        command: "fuzz --workload none --time 5s --seed 3 --jobs 1 --store SENT/store",
        code: 1,
        says: "it is a link, not a folder",
    },
    Trap {
        name: "a suite that is only looked at, of a workload with programs",
        made: |place| {
            place.own_workload();
            place.small_suite("./own.toml");
        },
        command: "suite SENT/small.toml --dry-run",
        code: 0,
        says: "small",
    },
    Trap {
        name: "the same suite in virtual time, where no program is started",
        made: |place| {
            place.own_workload();
            place.small_suite("./own.toml");
        },
        command: "suite SENT/small.toml --cluster sim",
        code: 254,
        says: "only redjepsen's own clients can be simulated",
    },
    Trap {
        name: "a nemesis that never rests",
        made: |place| {
            let faults = "[[faults]]\nfault = \"pause holder\"\nevery = \"1ns\"\nfor = \"1ns\"\n".repeat(1000);
            place.write("storm.toml", &format!("description = \"\\u001b[2J\"\nstory = \"\\u001b[2J\"\n{faults}"));
        },
        command: "run --cluster sim --nemesis SENT/storm.toml",
        code: 254,
        says: "some fault would always be in effect",
    },
    Trap {
        name: "pauses that are no numbers",
        made: |place| place.write("pauses.csv", "1e308\ninf\nNaN\n-1\n\u{1b}[2J\n"),
        command: "risk --pauses SENT/pauses.csv --measured-over 1h",
        code: 254,
        says: "pauses.csv",
    },
    Trap {
        name: "a cache that is somebody else's",
        made: |place| {
            fs::create_dir_all(place.path("cache/redjepsen/clients")).unwrap();
            place.belongs_to_another(place.path("cache/redjepsen"));
        },
        command: "install redis-py",
        code: 255,
        says: "but redjepsen runs programs from this folder",
    },
    Trap {
        name: "a cache that leads elsewhere",
        made: |place| {
            fs::create_dir_all(place.path("cache/redjepsen")).unwrap();
            fs::set_permissions(place.path("cache/redjepsen"), fs::Permissions::from_mode(0o700)).unwrap();
            symlink(place.outside(), place.path("cache/redjepsen/clients")).unwrap();
        },
        command: "install redis-py",
        code: 255,
        says: "it is not a folder, but redjepsen runs programs from this folder",
    },
    Trap {
        name: "Python's modules in the working directory",
        made: |place| {
            place.write("adapter.py", "import json\n");
            let client = "[client.python]\nadapter = \"adapter.py\"\n";
            place.write("own.toml", &workload().replace("[client.command]\n", client).replace("CLIENT", ""));
        },
        command: "install SENT/own.toml",
        code: 0,
        says: "python3",
    },
    Trap {
        name: "temporary folders of runs, and unfinished installations, that lead elsewhere",
        made: |place| {
            fs::create_dir_all(place.path("cache/redjepsen/clients")).unwrap();
            symlink(place.outside(), place.path("cache/redjepsen/clients/x.1-0.new")).unwrap();
            symlink(place.outside(), place.path("tmp/redjepsen-run-evil")).unwrap();
        },
        command: "clean",
        code: 0,
        says: "",
    },
];

#[test]
fn nothing_of_a_stranger_does_harm() {
    let honest = honest_run();
    // A folder that a user without rights can enter, which may not be so for the build's folder.
    let shared = tempfile::tempdir().unwrap();
    open(shared.path());
    let program = shared.path().join("redjepsen");
    fs::copy(env!("CARGO_BIN_EXE_redjepsen"), &program).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let users: &[Option<u32>] = if is_root { &[None, Some(NOBODY)] } else { &[None] };
    let all_of = |user: Option<u32>| {
        let who = if user.is_some() { "nobody" } else { "who runs the test" };
        let sprung = |trap: &Trap| {
            let place = Place::new(&program, user);
            place.copy(honest.path());
            (trap.made)(&place);
            place.sprung(trap).into_iter().map(|what| format!("{} ({who}): {what}", trap.name)).collect::<Vec<_>>()
        };
        TRAPS.iter().flat_map(sprung).collect::<Vec<String>>()
    };
    let failures = std::thread::scope(|scope| {
        let threads: Vec<_> = users.iter().map(|user| scope.spawn(|| all_of(*user))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The hostile folder, the folder where the program is called, and a folder that must not change.
struct Place {
    all: TempDir,
    program: PathBuf,
    user: Option<u32>,
    /// A folder that must belong to another user.
    theirs: RefCell<Option<PathBuf>>,
}

impl Place {
    fn new(program: &Path, user: Option<u32>) -> Place {
        let (all, program) = (tempfile::tempdir().unwrap(), program.to_path_buf());
        let place = Place { all, program, user, theirs: RefCell::new(None) };
        open(place.all.path());
        for folder in ["sent", "here", "here/pip", "outside", "cache", "tmp"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        fs::write(place.outside().join("theirs"), "as it was").unwrap();
        // A Python process started here would import these files.
        let evil = format!("open({:?}, 'w')\n", place.trace().display().to_string());
        for name in ["json.py", "sysconfig.py", "os.py", "pip/__main__.py", "pip/__init__.py", "redjepsen.py"] {
            fs::write(place.path("here").join(name), &evil).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.all.path().join(name)
    }

    fn sent(&self) -> PathBuf {
        self.path("sent")
    }

    fn outside(&self) -> PathBuf {
        self.path("outside")
    }

    /// A file that exists once a hostile file was executed.
    fn trace(&self) -> PathBuf {
        self.path("outside/ran")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.sent().join(name), text).unwrap();
    }

    fn copy(&self, run: &Path) {
        for name in ["scenario.toml", "history.jsonl", "facts.json"] {
            fs::copy(run.join(name), self.sent().join(name)).unwrap();
        }
    }

    fn scenario(&self, change: impl FnOnce(&str) -> String) {
        self.changed("scenario.toml", change);
    }

    fn history(&self, change: impl FnOnce(&str) -> String) {
        self.changed("history.jsonl", change);
    }

    fn changed(&self, name: &str, change: impl FnOnce(&str) -> String) {
        let before = fs::read_to_string(self.sent().join(name)).unwrap();
        let after = change(&before);
        assert_ne!(before, after, "there is nothing to be seen of the change");
        self.write(name, &after);
    }

    fn link(&self, name: &str, target: &str) {
        fs::remove_file(self.sent().join(name)).unwrap();
        symlink(target, self.sent().join(name)).unwrap();
    }

    /// A hostile program.
    fn program(&self) -> PathBuf {
        let program = self.sent().join("redis-server");
        fs::write(&program, format!("#!/bin/sh\ntouch {}\n", self.trace().display())).unwrap();
        open(&program);
        program
    }

    fn with_client(&self, text: &str) -> String {
        let mut scenario: Scenario = toml::from_str(text).unwrap();
        let other = Options::default().scenario("redis-py", "none", 7, Path::new("")).unwrap();
        scenario.workload = other.workload;
        (scenario.workload_name, scenario.nodes) = ("redis-py".into(), 1);
        let program = self.program();
        let client = format!("[command]\ncommand = [{program:?}]\ninstall = [{program:?}]\n");
        scenario.workload.client = Some(toml::from_str(&client).unwrap());
        toml::to_string(&scenario).unwrap()
    }

    fn own_workload(&self) {
        let program = self.program();
        let client = format!("command = [{program:?}]\ninstall = [{program:?}]\n");
        self.write("own.toml", &workload().replace("CLIENT", &client));
    }

    fn small_suite(&self, workload: &str) {
        let cells = format!("[[cells]]\nworkload = \"{workload}\"\nnemesis = \"none\"\nexpect = \"valid\"\n");
        self.write(
            "small.toml",
            &format!("description = \"Small\"\nruns = 1\nwith = {{ time_limit = \"2s\" }}\n{cells}"),
        );
    }

    /// A compressed history of more than a gigabyte: a few events, and blanks.
    fn bomb(&self, name: &str, pack: fn(&[u8]) -> Vec<u8>) {
        fs::remove_file(self.sent().join("history.jsonl")).unwrap();
        let blanks = " ".repeat(1 << 20);
        let invoke = format!("{{\"type\":\"invoke\",\"process\":0,\"f\":\"write\",\"value\":1}}{blanks}\n");
        let block = [invoke.clone(), invoke.replace("invoke", "ok")].concat();
        let packed = pack(block.as_bytes());
        let mut file = File::create(self.sent().join(name)).unwrap();
        for _ in 0..520 {
            file.write_all(&packed).unwrap();
        }
        assert!(file.metadata().unwrap().len() < 10 << 20, "it looks harmless");
    }

    /// A part of a suite as a suite writes it, with one change.
    fn matrix(&self, change: fn(&mut serde_json::Value)) {
        let cell = cell("redlock", "none", Some(Valid), 1);
        let made = run(&cell, 1, Some(Validity::Valid));
        let matrix = Matrix::new(&suite(vec![cell]), &[made], Circumstances::default());
        let mut json: serde_json::Value = serde_json::from_str(&pages::json(&matrix)).unwrap();
        change(&mut json);
        self.write("matrix.json", &json.to_string());
    }

    fn belongs_to_another(&self, folder: PathBuf) {
        if rustix::process::geteuid().is_root() {
            self.theirs.replace(Some(folder));
        } else {
            // A user without rights cannot give files away, but root's folders can be linked.
            fs::remove_dir_all(&folder).unwrap();
            symlink("/etc", &folder).unwrap();
        }
    }

    /// Gives everything to the user, except the folder that must belong to another user.
    fn hand_over(&self) {
        let theirs = self.theirs.borrow();
        let Some(user) = self.user else {
            if let Some(theirs) = theirs.as_deref() {
                lchown(theirs, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            return;
        };
        let mut folders = vec![self.all.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                if theirs.as_deref().is_none_or(|theirs| entry.path() != theirs) {
                    lchown(entry.path(), Some(user), Some(user)).unwrap();
                }
            }
        }
    }

    /// Runs the program on the hostile file. Returns everything that should not have happened.
    fn sprung(&self, trap: &Trap) -> Vec<String> {
        self.hand_over();
        let before = [self.content("outside"), self.content("here")];
        let said = self.path("said");
        let output = File::create(&said).unwrap();
        let mut command = Command::new(&self.program);
        command.args(trap.command.split(' ').map(|word| word.replace("SENT", &self.sent().display().to_string())));
        command.current_dir(self.path("here")).stdin(Stdio::null());
        command.stdout(output.try_clone().unwrap()).stderr(output);
        command
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("HOME", self.path("here"))
            .env("TMPDIR", self.path("tmp"));
        command.env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let (code, most_memory) = ended(command);
        let said = String::from_utf8_lossy(&fs::read(said).unwrap()).into_owned();

        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                wrong.push(format!("{what}\n  {} ends with {code:?}: {:.600}", trap.command, said));
            }
        };
        must(code == Some(trap.code), &format!("not the exit code {}", trap.code));
        must(said.contains(trap.says), &format!("it does not say `{}`", trap.says));
        must(!said.contains(|c: char| c.is_control() && c != '\n'), "it steers the terminal");
        must(!said.contains("panicked") && !said.contains("memory allocation"), "it breaks down");
        must(most_memory < MEMORY, &format!("it takes {} MiB", most_memory >> 20));
        must(!self.trace().exists(), "something of the stranger's was run");
        let mut after = [self.content("outside"), self.content("here")];
        after[1].retain(|(path, _)| !path.starts_with(self.path("here/store")));
        must(after == before, "something was written outside of the store");
        let left: Vec<_> = self.content("tmp").into_iter().filter(|(path, _)| !path.is_symlink()).collect();
        must(left.is_empty(), &format!("it leaves temporary files: {left:?}"));
        wrong
    }

    /// The files and links in a folder, with their contents.
    fn content(&self, folder: &str) -> Vec<(PathBuf, String)> {
        let (mut found, mut folders) = (Vec::new(), vec![self.path(folder)]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                }
                let text = if kind.is_file() { fs::read_to_string(entry.path()).unwrap() } else { format!("{kind:?}") };
                found.push((entry.path(), text));
            }
        }
        found.retain(|(path, _)| *path != self.path("here/store"));
        found.sort();
        found
    }
}

/// Runs the command to its end. Returns its exit code (None if it was killed) and its peak memory in bytes.
#[expect(clippy::zombie_processes, reason = "`wait4` takes it, and says how much memory it had")]
fn ended(mut command: Command) -> (Option<i32>, u64) {
    let bound = || {
        let limit = libc::rlimit { rlim_cur: ADDRESSES, rlim_max: ADDRESSES };
        // SAFETY: `setrlimit` is safe to call between fork and exec, and only reads its argument.
        match unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: see above; the closure does nothing else.
    let mut child = unsafe { command.pre_exec(bound) }.spawn().unwrap();
    let (began, mut status) = (Instant::now(), 0);
    // SAFETY: an `rusage` consists of numbers, which may all be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let id = child.id().cast_signed();
    // SAFETY: both pointers are valid, and nothing else waits for this child.
    while unsafe { libc::wait4(id, &raw mut status, libc::WNOHANG, &raw mut usage) } == 0 {
        if began.elapsed() > LONG {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    (code, usage.ru_maxrss.unsigned_abs() * 1024)
}

/// A simulated run under pauses, as the program saves it.
fn honest_run() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_redjepsen"));
    let words = "run --cluster sim --nemesis pause --seed 7 --store store";
    let output = command.args(words.split(' ')).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let run = folder.path().join("store/latest").canonicalize().unwrap();
    for name in ["scenario.toml", "history.jsonl", "facts.json"] {
        fs::rename(run.join(name), folder.path().join(name)).unwrap();
    }
    folder
}

/// A workload with its own client, which replaces `CLIENT`.
fn workload() -> String {
    let head = "description = \"Own\"\nsource = \"Here\"\nnodes = 1\nclaims = [\"updates\"]\n";
    let parts = "[library]\nname = \"own\"\nversion = \"1\"\n[lock.library]\nnode_timeout = \"1ttl\"\nretry_delay = \"20ms..100ms\"\n[resource]\nkind = \"register\"\nfencing = \"none\"\n";
    format!("{head}{parts}[client.command]\nCLIENT\n")
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
