//! The sink, by clients of both kinds.

use super::*;

#[tokio::test]
async fn counts_what_a_lock_step_client_sends_before_it_answers() {
    let sink = Sink::start().await.unwrap();
    let mut client = Client::dial(sink.address()).await;
    assert!(client.reply().await.starts_with("220"));
    client.expect("EHLO x", "250").await;
    let large = "a line like all the others\r\n".repeat(50_000);
    for (count, data) in (1..).zip(["", "x\r\n..\r\n", "x\r\n.x\r\n", &large]) {
        assert_eq!(client.deliver(data).await, "250 2.0.0 Ok: queued");
        assert_eq!(sink.mails(), count);
    }
    client.expect("XYZ", "500").await;
    client.expect("quit", "221").await;
    assert!(client.is_closed().await);
}

#[tokio::test]
async fn answers_all_of_a_group_in_order() {
    let sink = Sink::start().await.unwrap();
    let mut client = Client::dial(sink.address()).await;
    let mail = "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n";
    client.send(format!("EHLO x\r\n{mail}{mail}QUIT\r\n")).await;
    for start in
        ["220", "250", "250", "250", "354", "250 2.0.0 Ok: q", "250", "250", "354", "250 2.0.0 Ok: q", "221"]
    {
        assert!(client.reply().await.starts_with(start));
    }
    assert!(client.is_closed().await);
    sink.mail_count_reaches(2).await;
    assert_eq!(sink.mails(), 2);
}
