//! One connection: reads requests and does to each what the script says.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::Shared;
use super::journal::Received;
use super::reply::{Manner, Reply};
use super::request::{Head, Requests};

/// Serves until the client or the script ends the connection.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, number: u64, shared: Arc<Shared>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut requests = Requests::new(reader);
    loop {
        match exchange(&mut requests, &mut writer, number, &shared).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                // The client broke the protocol: tell it so. Whether it still listens is its own affair.
                let refusal = Reply::status(400).body(error.to_string());
                let _ = writer.write_all(&[&refusal.head_bytes(), refusal.body_bytes()].concat()).await;
                return;
            }
            Err(_) => return,
        }
    }
}

/// One request and what the script has for it; true when the connection goes on.
async fn exchange<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    requests: &mut Requests<R>,
    writer: &mut W,
    number: u64,
    shared: &Shared,
) -> io::Result<bool> {
    let Some(head) = requests.head().await? else { return Ok(false) };
    let reply = shared.next_reply(&head.path);
    tokio::time::sleep(reply.before_reading).await;

    let mut body = Vec::new();
    let read = match reply.manner {
        Manner::HangUpAfterHead => Ok(()),
        _ => requests.body(&head, &mut body).await,
    };
    let complete = read.is_ok() && !matches!(reply.manner, Manner::HangUpAfterHead);
    let keep_alive = head.keep_alive;
    shared.journal.record(received(head, body, complete, complete && reply.acts(), number));
    read?;

    if let Some(gate) = &reply.gate {
        gate.pass().await;
    }
    shared.gate.pass().await;
    tokio::time::sleep(reply.before_answering).await;
    Ok(answer(&reply, writer).await? && keep_alive && !reply.last)
}

fn received(head: Head, body: Vec<u8>, complete: bool, effect: bool, connection: u64) -> Received {
    Received {
        method: head.method,
        path: head.path,
        query: head.query,
        head: head.raw,
        headers: head.headers,
        body,
        complete,
        connection,
        effect,
    }
}

/// Gives the answer in the manner of the reply; true when it was whole, so that another can follow it.
async fn answer(reply: &Reply, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
    match &reply.manner {
        Manner::Whole => {
            writer.write_all(&[&reply.head_bytes(), reply.body_bytes()].concat()).await?;
            return Ok(true);
        }
        Manner::Drip(pause) => {
            writer.write_all(&reply.head_bytes()).await?;
            for byte in reply.body_bytes() {
                tokio::time::sleep(*pause).await;
                writer.write_all(&[*byte]).await?;
            }
            return Ok(true);
        }
        Manner::HangUpAfterHead | Manner::HangUpAfterBody => {}
        Manner::Silence => std::future::pending().await,
        Manner::Cut(bytes) => {
            let whole = [&reply.head_bytes(), reply.body_bytes()].concat();
            writer.write_all(&whole[..whole.len().min(*bytes)]).await?;
        }
        Manner::Raw(bytes) => writer.write_all(bytes).await?,
        Manner::Forever { start, unit } => {
            writer.write_all(start).await?;
            loop {
                writer.write_all(unit).await?;
            }
        }
    }
    Ok(false)
}
