//! Waiting for many members at once.

use std::time::Duration;

use tokio::time::sleep;

use super::all_or_first_error;

#[tokio::test]
async fn all_are_waited_for_unless_one_fails() {
    let slowest_first = (0..40_u64).map(|place| async move {
        sleep(Duration::from_millis(40 - place)).await;
        Ok::<u64, ()>(place)
    });
    assert_eq!(all_or_first_error(slowest_first).await, Ok((0..40).collect()));
    let last_fails = (0..40).map(|place| async move {
        match place {
            39 => Err("broken"),
            _ => std::future::pending::<Result<(), _>>().await,
        }
    });
    assert_eq!(all_or_first_error(last_fails).await, Err("broken"));
}
