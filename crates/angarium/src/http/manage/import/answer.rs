//! The answer to an import, which goes out while the request still comes in.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of an answer that may wait for whoever reads it. Many programs read no answer before all is sent: for those this
/// holds what is said of a hundred thousand lines that are well.
pub(super) const WAITING_BYTES: usize = 8 * 1024 * 1024;

/// A part of the answer, and the room that it takes until it goes out.
type Part = (Bytes, OwnedSemaphorePermit);

/// Where the answer is written.
pub(super) struct Answer {
    parts: UnboundedSender<Part>,
    free: Arc<Semaphore>,
}

/// Where it goes out.
pub(super) struct Told(UnboundedReceiver<Part>);

impl Answer {
    /// An answer of which nothing is said yet. It ends when this is dropped.
    pub(super) fn begin() -> (Answer, Told) {
        let (parts, told) = unbounded_channel();
        (Answer { parts, free: Arc::new(Semaphore::new(WAITING_BYTES)) }, Told(told))
    }

    /// Says something more, as soon as there is room for it; false if nobody listens.
    pub(super) async fn tell(&self, text: String) -> bool {
        let bytes = u32::try_from(text.len().min(WAITING_BYTES)).unwrap_or(u32::MAX);
        let room = tokio::select! {
            room = Arc::clone(&self.free).acquire_many_owned(bytes) => room.ok(),
            () = self.parts.closed() => None,
        };
        room.is_some_and(|room| self.parts.send((text.into(), room)).is_ok())
    }
}

impl Body for Told {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = self.0.poll_recv(context);
        part.map(|part| part.map(|(bytes, _room)| Ok(Frame::data(bytes))))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// Whoever does not read is not waited for, up to a bound.
    #[tokio::test]
    async fn an_answer_waits_up_to_a_bound() {
        let (answer, mut told) = Answer::begin();
        assert!(answer.tell("x".repeat(WAITING_BYTES)).await);
        let mut more = Box::pin(answer.tell("y".to_owned()));
        assert!(std::future::poll_fn(|context| Poll::Ready(more.as_mut().poll(context))).await.is_pending());
        assert_eq!(told.frame().await.unwrap().unwrap().into_data().unwrap().len(), WAITING_BYTES);
        assert!(more.as_mut().await, "there is room again");
        drop(more);
        assert_eq!(told.frame().await.unwrap().unwrap().into_data().unwrap(), "y");
        drop(answer);
        assert!(told.frame().await.is_none());
    }

    #[tokio::test]
    async fn nobody_listens() {
        let (answer, told) = Answer::begin();
        assert!(answer.tell("x".repeat(WAITING_BYTES + 1)).await, "more than there is takes all there is");
        let more = answer.tell("y".to_owned());
        drop(told);
        assert!(!more.await);
    }
}
