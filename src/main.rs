//! Only what the tests of clusters need, for now.

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("agent") => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            runtime.block_on(redjepsen::faults::run_agent())
        }
        Some("client") => {
            std::io::copy(&mut std::io::stdin().lock(), &mut std::io::stdout())?;
            Ok(())
        }
        _ => Ok(()),
    }
}
