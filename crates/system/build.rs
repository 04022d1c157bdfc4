//! Builds the preload library (`nemeses/clock/`), which is embedded in the program.
//!
//! The build uses this same compiler and its linker, writes into OUT_DIR, and needs nothing else.
//! On the host's own architecture, it builds for the host's target, even if the program is built for musl: the library needs no
//! libc. For another architecture, it builds with the program's target and linker (so far only seen to compile on x86_64).

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "../../nemeses/clock";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    if let Err(reason) = build() {
        // Cargo prints the text after this prefix, and fails.
        println!("cargo::error=cannot build the preload library in {SOURCE}: {reason}");
    }
}

fn build() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let (host, target) = (variable("HOST")?, variable("TARGET")?);
    let library = PathBuf::from(variable("OUT_DIR")?).join("libredjepsen_clock.so");

    let mut rustc = Command::new(variable("RUSTC")?);
    rustc.arg(format!("{SOURCE}/lib.rs")).arg("-o").arg(&library);
    rustc.args(["--crate-name=redjepsen_clock", "--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["-Copt-level=2", "-Cpanic=abort", "-Ccodegen-units=1", "-Cstrip=symbols"]);
    // Without crt-static, a musl target can build a shared object, however this compiler links programs.
    rustc.arg("-Ctarget-feature=-crt-static");
    for argument in ["-nostdlib", "-nostartfiles", "-Wl,--hash-style=both", "-Wl,-soname,redjepsen-clock"] {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    let architecture = |triple: &str| triple.split('-').next().unwrap_or_default().to_string();
    if architecture(&host) != architecture(&target) {
        rustc.args(["--target", &target]);
        if let Ok(linker) = variable("RUSTC_LINKER") {
            rustc.arg(format!("-Clinker={linker}"));
        }
    }
    let output = rustc.output().map_err(|error| error.to_string())?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}, {}", output.status, messages.trim().replace('\n', " | ")));
    }
    // Cargo hides the output of a build script's child processes, so print their warnings again.
    for line in messages.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}
