//! One connection and the exchanges on it, one at a time.
//!
//! The connection is driven by whoever waits for an answer on it, not by a task of its own. Dropping that wait
//! therefore drops the connection, and an idle connection costs no work.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use crate::fault::{Fault, FaultKind};
use crate::wire::{Meter, Metered, Stream};

/// Most bytes of an answer's head, its status line included.
const HEAD_BYTES: usize = 64 * 1024;
/// Most header fields of an answer.
const HEADERS: usize = 100;
/// Most interim answers (1xx) before the final one.
const INTERIM_ANSWERS: usize = 8;

type Driver = http1::Connection<TokioIo<Metered>, Full<Bytes>>;

/// A connection that is open, or was when it was last looked at.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Option<Driver>,
    meter: Meter,
}

impl Connection {
    pub(crate) async fn over(stream: Box<dyn Stream>) -> Result<Self, Fault> {
        let meter = Meter::default();
        let io = TokioIo::new(Metered::new(stream, meter.clone()));
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .max_header_size(HEAD_BYTES)
            .max_headers(HEADERS)
            .handshake(io)
            .await
            .map_err(|error| Fault::exchange(&error, false))?;
        Ok(Connection { sender, driver: Some(driver), meter })
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn ask(
        &mut self,
        mut request: http::Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<http::Response<Incoming>, Fault> {
        let length = request.body().size_hint().exact().unwrap_or_default();
        self.meter.start(usize::try_from(length).unwrap_or(usize::MAX));
        let interim = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&interim);
        hyper::ext::on_informational(&mut request, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut answer = pin!(self.sender.send_request(request));
        let meter = &self.meter;
        let driver = &mut self.driver;
        let head = poll_fn(|cx| {
            advance(driver, cx);
            if interim.load(Ordering::Relaxed) > INTERIM_ANSWERS {
                return Poll::Ready(Err(self.meter.fault(FaultKind::Protocol, "too many interim answers")));
            }
            answer.as_mut().poll(cx).map_err(|error| Fault::exchange(&error, meter.is_written()))
        });
        let head = timeout_at(deadline, head)
            .await
            .unwrap_or_else(|_| Err(meter.fault(FaultKind::Timeout, "no answer in time")))?;
        match head.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                Err(meter.fault(FaultKind::Protocol, "the answer switches to another protocol"))
            }
            _ => Ok(head),
        }
    }

    /// Reads an answer's body, and says whether it was cut: longer than is read, broken off, or too slow.
    pub(crate) async fn read(
        &mut self,
        mut incoming: Incoming,
        limit: usize,
        deadline: Instant,
    ) -> (Bytes, bool) {
        let mut body = BytesMut::new();
        loop {
            let frame = match timeout_at(deadline, self.drive(incoming.frame())).await {
                Ok(None) => return (body.freeze(), false),
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) | Err(_) => return (body.freeze(), true),
            };
            let Ok(data) = frame.into_data() else { continue };
            let room = limit - body.len();
            if data.len() > room {
                body.extend_from_slice(&data.slice(..room));
                return (body.freeze(), true);
            }
            body.extend_from_slice(&data);
        }
    }

    /// Whether no byte of the last request can have left.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.meter.is_touched()
    }

    /// Whether the last exchange is over on both sides and the connection open for another one. An answer may
    /// come before the request was written, and hyper counts as written what it holds in its buffer.
    pub(crate) fn is_idle(&mut self) -> bool {
        advance(&mut self.driver, &mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready() && self.meter.is_written()
    }

    async fn drive<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            advance(&mut self.driver, cx);
            wanted.as_mut().poll(cx)
        })
        .await
    }
}

impl Meter {
    fn fault(&self, kind: FaultKind, detail: &str) -> Fault {
        Fault { request_written: self.is_written(), ..Fault::unsent(kind, detail) }
    }
}

/// Moves the connection on. One that has ended is dropped, which answers whatever still waits on it; the error
/// it may have ended with reaches us through that answer.
fn advance(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        *driver = None;
    }
}
