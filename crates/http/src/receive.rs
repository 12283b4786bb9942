//! A request as a whole, or the reason why it is refused.

use crate::Limits;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// How much of a refused body is taken in, and for how long: a socket that is closed with bytes unread
/// would take the answer away from its client.
const DRAINED: usize = 1 << 20;
const DRAINING: Duration = Duration::from_millis(500);

/// Why a request is refused.
pub(crate) type Refusal = (StatusCode, &'static str);

/// Bytes of bodies that count until this is dropped.
pub(crate) struct Held {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Held {
        Held { all: all.clone(), bytes: 0 }
    }

    fn add(&mut self, bytes: usize, most: usize) -> Result<(), Refusal> {
        self.bytes += bytes;
        match self.all.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= most {
            true => Ok(()),
            false => Err((StatusCode::SERVICE_UNAVAILABLE, "too many bodies at one time")),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads the body, unless the request is refused already.
pub(crate) async fn whole<B>(
    request: Request<B>,
    limits: &Limits,
    refused: Option<Refusal>,
    held: &mut Held,
) -> Result<Request<Body>, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let (head, mut body) = request.into_parts();
    let refused = refused.or_else(|| refused_by_head(&head.headers)).or_else(|| {
        let too_long = body.size_hint().lower() > limits.body as u64;
        too_long.then_some((StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"))
    });
    let read = match refused {
        Some(refusal) => Err(refusal),
        None => read(&mut body, limits, held).await,
    };
    match read {
        Ok(bytes) => Ok(Request::from_parts(head, Body::from(bytes))),
        Err(refusal) => {
            // A client that waits for permission has sent nothing.
            if !head.headers.contains_key(header::EXPECT) {
                _ = timeout(DRAINING, drain(&mut body)).await;
            }
            Err(refusal)
        }
    }
}

fn refused_by_head(headers: &HeaderMap) -> Option<Refusal> {
    let encoded = headers.get(header::CONTENT_ENCODING).is_some_and(|value| value != "identity");
    encoded.then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send it uncompressed"))
}

/// Takes memory as bytes come, so that a length alone reserves nothing.
async fn read<B>(body: &mut B, limits: &Limits, held: &mut Held) -> Result<Vec<u8>, Refusal>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    const LATE: Refusal = (StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    const BROKEN: Refusal = (StatusCode::BAD_REQUEST, "the body ended early or is malformed");
    let end = Instant::now() + limits.whole;
    let mut bytes = Vec::new();
    loop {
        let until = end.min(Instant::now() + limits.pause);
        let Some(frame) = timeout_at(until, body.frame()).await.map_err(|_| LATE)? else {
            return Ok(bytes);
        };
        // Trailers say nothing that counts here.
        let Ok(data) = frame.map_err(|_| BROKEN)?.into_data() else { continue };
        if data.len() > limits.body - bytes.len() {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"));
        }
        held.add(data.len(), limits.bodies)?;
        bytes.extend_from_slice(&data);
    }
}

async fn drain<B>(body: &mut B)
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut left = DRAINED;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}
