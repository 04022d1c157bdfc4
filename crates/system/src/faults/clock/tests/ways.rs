//! The ways in which programs read the time, and the effect and messages of a clock fault for each.

use super::*;
use crate::faults::this_host::{member::Member, skew};
use crate::faults::{Observation, Scope};

/// A program without libc: it waits for a signal forever and never reads the time.
const NO_LIBC: &str = "void _start(void) { for (;;) { long n = WAIT; __asm__ volatile (CALL); } }\n";
#[cfg(target_arch = "x86_64")]
const CALL: [&str; 2] = ["34", r#""syscall" : "+a"(n) : : "rcx", "r11", "memory""#];
#[cfg(target_arch = "aarch64")]
const CALL: [&str; 2] = ["0", r#""wfi""#];

impl Root {
    /// Compiles this program with the linker that Rust uses.
    fn without_libc(&self, name: &str, how: &[&str]) -> PathBuf {
        let (source, program) = (self.path("program.c"), self.path(name));
        fs::write(&source, NO_LIBC.replace("WAIT", CALL[0]).replace("CALL", CALL[1])).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-nostdlib", "-fno-stack-protector", "-o"]).arg(&program).arg(source).args(how);
        assert!(compiler.status().unwrap().success());
        program
    }

    fn member(&self, process: &Child) -> Member {
        let mut member = Member::adopt("c0", process.id(), Scope::Descendants).unwrap();
        member.control = Some(self.control());
        member
    }

    /// The messages of a clock fault on a program that runs in this root, and of its heal.
    fn skewed(&self, mut command: Command) -> (Observation, Observation) {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut member = self.member(&process);
        let injected = skew::inject(&mut member, Skew::Jump { ms: 30_000 }).unwrap();
        let healed = skew::heal(&mut member).unwrap();
        for held in member.processes().unwrap() {
            held.signal(rustix::process::Signal::KILL).unwrap();
        }
        process.wait().unwrap();
        (injected, healed)
    }
}

#[test]
fn a_program_that_asks_the_kernels_own_function_is_skewed_as_well() {
    let root = Root::new();
    let control = root.control();
    let mut reader = root.reader();
    assert!(samples(&reader.ask("vdso"))[0].ahead().contains(&0));
    control.set(Skew::Jump { ms: 30_000 }).unwrap();
    let ahead = samples(&reader.ask("vdso"))[0].ahead();
    let is_replaced = cfg!(target_arch = "x86_64");
    assert!(ahead.contains(&if is_replaced { 30 * SECOND } else { 0 }), "{ahead:?}");
    assert_eq!(asks(reader.process.id()).unwrap(), Asks::Library);
}

#[test]
fn a_program_that_reads_its_clock_is_skewed_also_while_it_is_idle() {
    let root = Root::new();
    let mut reader = root.reader();
    reader.assert_ahead(0);
    let mut member = root.member(&reader.process);
    let seen = skew::inject(&mut member, Skew::Jump { ms: 30_000 }).unwrap();
    assert!(seen.observed && seen.text.contains("+30.000 s, and the member has not read it since"), "{}", seen.text);
    reader.assert_ahead(30);
    assert!(skew::heal(&mut member).unwrap().observed);
    reader.assert_ahead(0);
}

#[test]
fn a_child_that_has_ended_and_was_not_waited_for_refuses_nothing() {
    let root = Root::new();
    let mut command = root.command("sh");
    command.args(["-c", "true & exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    let mut reader = Reader::start(command);
    reader.assert_ahead(0);
    let mut member = root.member(&reader.process);
    let states = |member: &Member| -> String {
        member.processes().unwrap().iter().filter_map(|held| Some(held.describe()?.states)).collect()
    };
    let from = Instant::now();
    while !states(&member).contains('Z') {
        assert!(from.elapsed() < Duration::from_secs(20), "{}", states(&member));
        thread::sleep(Duration::from_millis(5));
    }
    assert!(skew::inject(&mut member, Skew::Jump { ms: 30_000 }).unwrap().observed);
    assert!(member.skewed);
    assert!(skew::heal(&mut member).unwrap().observed && !member.skewed);
}

#[test]
fn a_program_that_does_not_ask_the_library_is_refused() {
    let root = Root::new();
    let (linked, never) = (root.without_libc("linked", &["-static"]), root.without_libc("never", &["-pie"]));
    let (injected, healed) = root.skewed(root.command(&linked));
    assert!(!injected.observed && healed.observed);
    let text = &injected.text;
    assert!(text.starts_with("c0: its program (linked) does not read its clock through libc"), "{text}");
    assert_eq!(root.control().shown_offset_ns(), 0, "nothing was done");

    let (injected, healed) = root.skewed(root.command(&never));
    assert!(!injected.observed && healed.observed);
    let text = &injected.text;
    assert!(text.starts_with("c0: its program (never) has never asked libc for the time"), "{text}");
}

#[test]
fn a_program_is_not_vouched_for_by_the_shell_around_it() {
    let root = Root::new();
    let linked = root.without_libc("linked", &["-static"]);
    let within = |program: &str| {
        let mut command = root.command("sh");
        command.args(["-c", &format!("{program}; true")]);
        command
    };
    let (injected, _) = root.skewed(within(&linked.display().to_string()));
    assert!(!injected.observed && injected.text.contains("(linked)"), "{}", injected.text);

    // The counterpart: a program inside the shell reads the time, and the shell only waits.
    let reads = "while :; do date > /dev/null; done";
    let (injected, _) = root.skewed(within(&format!("bash -c '{reads}'")));
    assert!(injected.observed, "{}", injected.text);
}
