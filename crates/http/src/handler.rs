//! Handlers that block.

use axum::body::{Bytes, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// A request with its body.
pub type Request = axum::http::Request<Bytes>;

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The address that a request came from.
pub fn peer(request: &Request) -> Option<SocketAddr> {
    request.extensions().get::<Peer>().map(|peer| peer.0)
}

/// The answer, once there is one.
type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// An axum handler of a function that may block. A function that panics is answered with status 500.
pub fn blocking<F, A>(
    function: F,
) -> impl Fn(axum::extract::Request) -> Answering + Clone + Send + Sync + 'static
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: IntoResponse,
{
    let function = Arc::new(function);
    move |request| {
        let function = Arc::clone(&function);
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // It is there already, and within the limits.
            let Ok(body) = to_bytes(body, usize::MAX).await else {
                return StatusCode::BAD_REQUEST.into_response();
            };
            let request = Request::from_parts(head, body);
            let answered = tokio::task::spawn_blocking(move || function(request).into_response()).await;
            answered.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
        })
    }
}
