//! What Postfix sends back when it cannot deliver what it has taken.

use std::io::Write;

use crate::relay::{self, results, to};
use crate::support::{id_of, text};

/// OB-12: a mail that was taken and bounced is written down where it belongs, though it was forwarded to another
/// address on the way.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian's mail servers: cargo xtask interop"]
async fn a_bounce_finds_its_notification() {
    let relay = relay::postfix();
    let server = relay.client("", &[]).await;
    server.hand_in(&to("late", "bounces later")).await;
    let id = id_of("bounces later");
    server.until(&id, "delivered").await;
    let envelope_id = format!("Original-Envelope-Id: {id}");
    relay.log_line(|line| line.contains("to=<late@gone.example>") && line.contains("status=bounced")).await;
    let report = relay.mail_with("alerts", &envelope_id).await;

    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(report.as_bytes()).unwrap();
    let output = server.angarium(&["bounce", file.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let row = server.view(&id).await;
    assert_eq!(results(&row), ["bounced"], "{row}");
    let detail = row["resolved_targets"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("5.1.1") && detail.contains("no such user"), "{detail}");
    assert_eq!(row["resolved_targets"][0]["address"], "late@example.com");
}
