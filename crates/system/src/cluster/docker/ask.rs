//! Requests to the engine: each has a time limit, and its error names the request's purpose.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use crate::cluster::error::{ClusterError, one_line};

/// Time limit of one request to the engine. On a loaded machine, a start can take seconds.
pub const ENGINE_LIMIT: Duration = Duration::from_secs(30);

/// Awaits one request to the engine with a time limit; an error names the request's purpose. bollard's own timeout covers only
/// the response's headers, so a body that never arrives would hang the run.
pub async fn ask<T>(
    doing: impl Into<String>,
    request: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ClusterError> {
    ask_within(ENGINE_LIMIT, doing, request).await
}

/// [`ask`] with a given limit.
pub async fn ask_within<T>(
    limit: Duration,
    doing: impl Into<String>,
    request: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ClusterError> {
    match tokio::time::timeout(limit, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(bollard::errors::Error::RequestTimeoutError)) | Err(_) => {
            Err(ClusterError::Timeout { doing: doing.into(), seconds: limit.as_secs() })
        }
        Ok(Err(error)) => {
            let (reason, status) = in_words(&error);
            Err(ClusterError::Engine { doing: doing.into(), reason, status })
        }
    }
}

/// The engine's error message on one line, and the HTTP status if the error has one.
pub fn in_words(error: &bollard::errors::Error) -> (String, Option<u16>) {
    use bollard::errors::Error;
    match error {
        Error::DockerResponseServerError { status_code, message } => (one_line(message), Some(*status_code)),
        Error::DockerStreamError { error } => (one_line(error), None),
        other => (one_line(&with_causes(other)), None),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        // hyper sometimes repeats its source in its own text.
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// Labels in the form that bollard's filters take.
pub fn label_filters(labels: Vec<String>) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_string(), labels)])
}
