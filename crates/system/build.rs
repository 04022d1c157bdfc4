//! Builds the preload library (`nemeses/clock/`), which is embedded in the program.
//!
//! The library is built with this same compiler and its linker, into OUT_DIR; nothing else is needed. The library needs no libc, so it
//! is built for the host's own target if the architecture is the same, even if the program itself is built for musl.
//! For another architecture it is built with the program's target and linker (so far only seen to compile on x86_64).

use std::env;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "../../nemeses/clock";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={SOURCE}");
    if let Err(reason) = build() {
        // Cargo prints what follows this, and fails.
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
    // musl's loader accepts shared objects, however this compiler links its programs.
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
    // Otherwise nobody would see the warnings of a build script's child processes.
    for line in messages.lines() {
        println!("cargo::warning={line}");
    }
    Ok(())
}
