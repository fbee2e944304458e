//! What a careful client never does.

use super::*;

/// The sins of a session in which the client greets and then sends these bytes and reads so many replies.
async fn sins(options: Options, bytes: &str, replies: usize) -> Vec<String> {
    let receiver = Receiver::start(options).await.unwrap();
    let mut client = Client::greet(&receiver).await;
    client.send(bytes).await;
    for _ in 0..replies {
        client.reply().await;
    }
    receiver.sessions().remove(0).sins
}

/// The mail that came of these bytes between DATA and the final dot, and the sins.
async fn mail_of(options: Options, data: &[u8]) -> (Receiver, String) {
    let receiver = Receiver::start(options).await.unwrap();
    let reply = Client::greet(&receiver).await.deliver(data).await;
    (receiver, reply)
}

#[tokio::test]
async fn bare_line_ends_in_a_mail_are_noted_and_refused() {
    for data in ["a\nb\r\n", "a\rb\r\n", "a\n.\r\nb\r\n", "a\r\r\n"] {
        let (receiver, reply) = mail_of(Options::default(), data.as_bytes()).await;
        assert!(reply.starts_with("550 5.6.11"), "{data:?}: {reply}");
        assert!(receiver.mails().is_empty() && receiver.refused()[0].bare_line_ends);
        assert_eq!(receiver.refused()[0].raw, data.as_bytes());
        assert_eq!(receiver.sessions()[0].sins, ["a bare CR or LF in the mail"]);
    }
}

#[tokio::test]
async fn bare_line_ends_can_be_let_pass() {
    let options = Options { refuse_bare_line_ends: false, ..Options::default() };
    let (receiver, reply) = mail_of(options, b"a\nb\r\n").await;
    assert!(reply.starts_with("250"));
    assert!(receiver.mails()[0].bare_line_ends);
    assert_eq!(receiver.sessions()[0].sins, ["a bare CR or LF in the mail"]);
}

#[tokio::test]
async fn lines_have_up_to_998_octets() {
    // The dot that was stuffed in does not count.
    let exact = [b"..".as_slice(), &[b'x'; 997], b"\r\n"].concat();
    let (receiver, _) = mail_of(Options::default(), &exact).await;
    assert_eq!((receiver.mails()[0].longest_line, receiver.sessions()[0].sins.len()), (998, 0));
    for length in [999, 100_000] {
        let long = [&vec![b'x'; length], b"\r\n".as_slice()].concat();
        let (receiver, reply) = mail_of(Options::default(), &long).await;
        assert!(reply.starts_with("250"));
        assert_eq!((receiver.mails()[0].longest_line, receiver.mails()[0].raw.len()), (length, length + 2));
        assert_eq!(receiver.sessions()[0].sins, [format!("a line of {length} octets in the mail")]);
    }
}

#[tokio::test]
async fn octets_beyond_ascii_must_be_announced() {
    let (receiver, _) = mail_of(Options::default(), b"\xe9\r\n").await;
    assert!(receiver.mails()[0].eight_bit);
    assert_eq!(receiver.sessions()[0].sins, ["8-bit octets in the mail without BODY=8BITMIME"]);
}

#[tokio::test]
async fn commands_have_up_to_512_octets_and_end_with_crlf() {
    let exact = format!("NOOP {}\r\n", "x".repeat(505));
    assert_eq!(sins(Options::default(), &exact, 1).await, [""; 0]);
    let long = format!("NOOP {}\r\n", "x".repeat(506));
    assert_eq!(sins(Options::default(), &long, 1).await, ["a command line of 513 octets"]);
    for line in ["NOOP\n", "NOOP \r x\r\n", "NOOP x\r\r\n"] {
        assert_eq!(sins(Options::default(), line, 1).await, ["a bare CR or LF in a command"], "{line:?}");
    }
    let login = format!("AUTH PLAIN {}\r\n", "x".repeat(600));
    assert_eq!(
        sins(Options::default(), &login, 1).await,
        ["AUTH out of place: 502 5.5.1 AUTH is not offered"]
    );
}

#[tokio::test]
async fn a_command_without_end_ends_the_session() {
    let receiver = started().await;
    let mut client = Client::greet(&receiver).await;
    // Just beyond the limit, so that all of it is read and nothing is in flight when the server closes.
    client.send([b'x'; 12 * 1024 + 1]).await;
    assert_eq!(client.reply().await, "500 5.5.6 Line too long");
    assert!(client.is_closed().await);
    assert_eq!(receiver.sessions()[0].sins, ["a command line without end"]);
}

#[tokio::test]
async fn nothing_may_be_sent_in_a_group_where_none_is_allowed() {
    for (bytes, replies, what) in [
        ("EHLO x\r\nNOOP\r\n", 2, "EHLO"),
        ("NOOP\r\nNOOP\r\n", 2, "NOOP"),
        ("AUTH PLAIN x\r\nNOOP\r\n", 2, "AUTH"),
        ("MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\nx\r\n.\r\n", 4, "DATA"),
    ] {
        let sins = sins(Options::default(), bytes, replies).await;
        assert_eq!(sins.last(), Some(&format!("more sent before the answer to {what}")), "{bytes}");
    }
    let receiver = started().await;
    let mut client = Client::greet(&receiver).await;
    client.deliver("x\r\n.\r\nQUIT\r\n").await;
    assert_eq!(receiver.sessions()[0].sins[0], "more sent before the answer to the final dot");
}

#[tokio::test]
async fn speaking_before_the_greeting_is_a_sin() {
    let receiver = started().await;
    let gate = Gate::closed();
    receiver.script(Phase::Greeting, [Reply::normal().gate(&gate)]);
    let mut hasty = Client::dial(receiver.address()).await;
    hasty.send("EHLO x\r\n").await;
    receiver.sessions_reach(1).await;
    // A whole exchange elsewhere: by then the hasty words have arrived.
    Client::greet(&receiver).await;
    gate.open();
    hasty.reply().await;
    hasty.reply().await;
    assert_eq!(receiver.sessions()[0].sins, ["more sent before the answer to the greeting"]);
}

#[tokio::test]
async fn groups_need_pipelining() {
    let group = "MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nRSET\r\n";
    assert_eq!(sins(Options::default(), group, 3).await, [""; 0]);
    let options = Options { keywords: Vec::new(), ..Options::default() };
    assert_eq!(
        sins(options, group, 3).await,
        ["more sent before the answer to MAIL", "more sent before the answer to RCPT"]
    );
}

#[tokio::test]
async fn commands_out_of_order_are_sins() {
    let lock_step = || Options { keywords: Vec::new(), ..Options::default() };
    for (bytes, sin) in [
        ("RCPT TO:<a@b>\r\n", "RCPT out of place: 503 5.5.1 RCPT is not in order here"),
        ("DATA\r\n", "DATA out of place"),
        ("MAIL FROM: <a@b>\r\n", "MAIL out of place: 501 5.5.4 Syntax: FROM:<address>"),
        ("MAIL FROM:<a@b> SIZE=1\r\n", "MAIL out of place: 555 5.5.4 Unsupported option: SIZE=1"),
        ("EHLO\r\n", "a greeting without a name"),
        ("BDAT 1 LAST\r\n", "an unknown command: BDAT"),
    ] {
        assert_eq!(sins(lock_step(), bytes, 1).await, [sin], "{bytes}");
    }
    let receiver = started().await;
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    client.expect("MAIL FROM:<a@b>", "503").await;
    client.expect("EHLO x", "250").await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    client.expect("MAIL FROM:<a@b>", "503").await;
    client.expect("RCPT TO:<>", "501").await;
    assert_eq!(receiver.sessions()[0].sins.len(), 3);
}

#[tokio::test]
async fn what_was_sent_together_with_a_refused_mail_is_no_sin() {
    let receiver = started().await;
    receiver.script(Phase::Mail, [Reply::text("450 4.3.2 busy")]);
    let mut client = Client::greet(&receiver).await;
    client.send("MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n").await;
    for start in ["450", "503", "503"] {
        assert!(client.reply().await.starts_with(start));
    }
    assert_eq!(receiver.sessions()[0].sins, [""; 0]);
}
