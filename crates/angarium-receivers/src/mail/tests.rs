//! The receiver as a client sees it, line by line.

mod auth;
mod script;
mod sink;
mod sins;
mod tls;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::*;

/// A client that sends what it is told and reads whole replies.
struct Client<S> {
    stream: BufReader<S>,
}

impl Client<TcpStream> {
    /// Connects, and reads no further than that.
    async fn dial(address: SocketAddr) -> Client<TcpStream> {
        Client::over(TcpStream::connect(address).await.unwrap())
    }

    /// Connects, reads the greeting and says EHLO.
    async fn greet(receiver: &Receiver) -> Client<TcpStream> {
        let mut client = Client::dial(receiver.address()).await;
        assert_eq!(client.reply().await, "220 mail.test ESMTP");
        assert!(client.say("EHLO client.test").await.starts_with("250"));
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    fn over(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// One reply, its lines joined by `\n`; what had come of it when the connection ended.
    async fn reply(&mut self) -> String {
        let mut reply = String::new();
        loop {
            let mut line = String::new();
            // A reset ends a reply as much as a close does.
            let _ = self.stream.read_line(&mut line).await;
            reply.push_str(line.strip_suffix("\r\n").unwrap_or(&line));
            if !line.ends_with('\n') || line.get(3..4) != Some("-") {
                return reply;
            }
            reply.push('\n');
        }
    }

    /// Sends a line and reads the reply.
    async fn say(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n")).await;
        self.reply().await
    }

    /// Sends a line and checks how the reply begins.
    async fn expect(&mut self, line: &str, start: &str) {
        let reply = self.say(line).await;
        assert!(reply.starts_with(start), "{line} was answered with {reply}");
    }

    /// From MAIL to the reply to the final dot; `data` ends with CRLF and has its dots stuffed.
    async fn deliver(&mut self, data: impl AsRef<[u8]>) -> String {
        self.expect("MAIL FROM:<a@example.com>", "250").await;
        self.expect("RCPT TO:<b@example.com>", "250").await;
        self.body(data).await
    }

    /// From DATA to the reply to the final dot.
    async fn body(&mut self, data: impl AsRef<[u8]>) -> String {
        self.expect("DATA", "354").await;
        self.send([data.as_ref(), b".\r\n"].concat()).await;
        self.reply().await
    }

    /// Whether the connection has ended properly: no more bytes, and no error.
    async fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]).await, Ok(0))
    }
}

fn mailbox(address: &str, parameters: &[&str]) -> Mailbox {
    let parameters = parameters.iter().map(|parameter| (*parameter).to_owned()).collect();
    Mailbox { address: address.to_owned(), parameters }
}

async fn started() -> Receiver {
    Receiver::start(Options::default()).await.unwrap()
}

#[tokio::test]
async fn a_normal_session_is_answered_and_journalled_in_full() {
    let receiver = started().await;
    let mut client = Client::dial(receiver.address()).await;
    assert_eq!(client.reply().await, "220 mail.test ESMTP");
    let offer = "250-mail.test\n250-PIPELINING\n250-SIZE 10485760\n250-8BITMIME\n250-SMTPUTF8\n\
                 250-ENHANCEDSTATUSCODES\n250 DSN";
    assert_eq!(client.say("EHLO client.test").await, offer);
    let parameters = "SIZE=20 BODY=8BITMIME RET=HDRS ENVID=e1";
    assert_eq!(client.say(&format!("MAIL FROM:<a@example.com> {parameters}")).await, "250 2.1.0 Ok");
    assert_eq!(client.say("RCPT TO:<b@example.com> NOTIFY=FAILURE").await, "250 2.1.5 Ok");
    assert_eq!(client.say("rcpt to:<c@example.com>").await, "250 2.1.5 Ok");
    assert_eq!(client.say("DATA").await, "354 End data with <CR><LF>.<CR><LF>");
    client.send("Subject: x\r\n\r\n..dot\r\nGröße\r\n.\r\n").await;
    assert_eq!(client.reply().await, "250 2.0.0 Ok: queued as 1");
    assert_eq!(client.say("NOOP").await, "250 2.0.0 Ok");
    assert_eq!(client.say("VRFY b@example.com").await, "252 2.0.0 Send some mail");
    assert_eq!(client.say("QUIT").await, "221 2.0.0 Bye");
    assert!(client.is_closed().await);

    let [mail] = receiver.mails().try_into().unwrap();
    assert_eq!((mail.session, mail.queue_id), (1, Some(1)));
    assert_eq!(mail.sender, mailbox("a@example.com", &["SIZE=20", "BODY=8BITMIME", "RET=HDRS", "ENVID=e1"]));
    assert_eq!(
        mail.recipients,
        [mailbox("b@example.com", &["NOTIFY=FAILURE"]), mailbox("c@example.com", &[])]
    );
    assert_eq!(mail.to(), ["b@example.com", "c@example.com"]);
    assert_eq!(mail.raw, "Subject: x\r\n\r\n..dot\r\nGröße\r\n".as_bytes());
    assert_eq!(mail.text(), "Subject: x\r\n\r\n.dot\r\nGröße\r\n");
    assert_eq!((mail.bare_line_ends, mail.longest_line, mail.eight_bit), (false, 10, true));

    let [session] = receiver.wait_until(|sessions| sessions[0].over).await.try_into().unwrap();
    assert_eq!((session.number, session.tls, session.sins), (1, false, Vec::new()));
    let verbs: Vec<&str> = session.commands.iter().map(|line| &line[..4]).collect();
    assert_eq!(verbs, ["EHLO", "MAIL", "RCPT", "rcpt", "DATA", "NOOP", "VRFY", "QUIT"]);
    assert_eq!(session.commands[1], format!("MAIL FROM:<a@example.com> {parameters}"));
}

#[tokio::test]
async fn a_pipelined_batch_is_answered_one_by_one() {
    let receiver = started().await;
    let mut client = Client::greet(&receiver).await;
    for id in 1..=2 {
        client.send("RSET\r\nMAIL FROM:<>\r\nRCPT TO:<b@c>\r\nRCPT TO:<d@e>\r\nDATA\r\n").await;
        for start in ["250 2.0.0", "250 2.1.0", "250 2.1.5", "250 2.1.5", "354"] {
            assert!(client.reply().await.starts_with(start));
        }
        client.send(".\r\n").await;
        assert_eq!(client.reply().await, format!("250 2.0.0 Ok: queued as {id}"));
    }
    let mails = receiver.mails();
    assert_eq!(
        (mails[1].sender.address.as_str(), mails[1].to(), mails[1].text().as_str()),
        ("", vec!["b@c", "d@e"], "")
    );
    assert_eq!(receiver.sessions()[0].sins, [""; 0]);
}

#[tokio::test]
async fn helo_offers_nothing_and_rset_forgets_the_transaction() {
    let receiver = started().await;
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    assert_eq!(client.say("HELO client.test").await, "250 mail.test");
    client.expect("MAIL FROM:<a@b> SIZE=1", "555 5.5.4").await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    client.expect("RCPT TO:<c@d>", "250").await;
    client.expect("RSET", "250").await;
    client.expect("RCPT TO:<c@d>", "503").await;
    assert!(client.deliver("x\r\n").await.starts_with("250"));
    assert_eq!(receiver.mails()[0].to(), ["b@example.com"]);
}

#[tokio::test]
async fn keywords_are_what_the_options_say() {
    let keywords = vec!["SIZE 100".to_owned(), "X-Odd one".to_owned()];
    let options = Options { keywords, lower_case: true, ..Options::default() };
    let receiver = Receiver::start(options).await.unwrap();
    let mut client = Client::dial(receiver.address()).await;
    client.reply().await;
    assert_eq!(client.say("EHLO x").await, "250-mail.test\n250-size 100\n250 x-odd one");
    client.expect("MAIL FROM:<a@b> BODY=8BITMIME", "555 5.5.4").await;
    client.expect("MAIL FROM:<a@b> SIZE=101", "552 5.3.4").await;
    client.expect("MAIL FROM:<a@b> SIZE=100 SIZE=100", "501 5.5.4").await;
    client.expect("MAIL FROM:<jörg@b>", "553 5.6.7").await;
    client.expect("MAIL FROM:<a@b> SIZE=100", "250").await;
    client.expect("RCPT TO:<c@d>", "250").await;
    assert!(
        client
            .body([b'x'; 98].iter().chain(b"\r\n\r\n").copied().collect::<Vec<u8>>())
            .await
            .starts_with("552 5.3.4")
    );
    assert!(receiver.mails().is_empty() && receiver.refused().is_empty());
    assert!(
        client
            .deliver([b'x'; 98].iter().chain(b"\r\n").copied().collect::<Vec<u8>>())
            .await
            .starts_with("250")
    );
}

#[tokio::test]
async fn addresses_beyond_ascii_need_smtputf8() {
    let receiver = started().await;
    let mut client = Client::greet(&receiver).await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    client.expect("RCPT TO:<jörg@b>", "553 5.6.7").await;
    client.expect("RSET", "250").await;
    client.expect("MAIL FROM:<jörg@b> SMTPUTF8", "250").await;
    client.expect("RCPT TO:<jörg@b>", "250").await;
    assert!(client.body("Subject: Größe\r\n").await.starts_with("250"));
    assert_eq!(receiver.sessions()[0].sins.len(), 1);
}

#[tokio::test]
async fn a_mail_whose_recipients_were_all_refused_is_not_asked_for() {
    let receiver = started().await;
    receiver.refuse_rcpt("b@example.com", "550 5.1.1 unknown");
    let mut client = Client::greet(&receiver).await;
    client.expect("MAIL FROM:<a@b>", "250").await;
    for _ in 0..2 {
        assert_eq!(client.say("RCPT TO:<b@example.com>").await, "550 5.1.1 unknown");
    }
    client.expect("DATA", "554 5.5.1").await;
    client.expect("RCPT TO:<c@example.com>", "250").await;
    assert!(client.body("x\r\n").await.starts_with("250"));
    assert_eq!(receiver.mails()[0].to(), ["c@example.com"]);
}

#[tokio::test]
async fn a_transaction_has_no_more_recipients_than_the_limit() {
    let receiver = started().await;
    receiver.limit_rcpt(2, "452 4.5.3 too many recipients");
    let mut client = Client::greet(&receiver).await;
    for _ in 0..2 {
        client.expect("MAIL FROM:<a@b>", "250").await;
        client.expect("RCPT TO:<1@b>", "250").await;
        client.expect("RCPT TO:<2@b>", "250").await;
        client.expect("RCPT TO:<3@b>", "452 4.5.3").await;
        assert!(client.body("x\r\n").await.starts_with("250"));
    }
    assert!(receiver.mails().iter().all(|mail| mail.to() == ["1@b", "2@b"]));
}

#[tokio::test]
async fn a_mail_beyond_what_the_server_takes_at_all_is_read_and_refused() {
    let options = Options { keywords: vec!["SIZE 99999999".to_owned()], ..Options::default() };
    let receiver = Receiver::start(options).await.unwrap();
    let mut client = Client::greet(&receiver).await;
    let line = [[b'x'; 1022].as_slice(), b"\r\n"].concat();
    assert!(client.deliver(line.repeat(MAIL_LIMIT / 1024 + 1)).await.starts_with("552 5.3.4"));
    client.expect("NOOP", "250").await;
}

#[tokio::test]
async fn waits_end_when_their_time_has_come() {
    let receiver = started().await;
    let (mails, sessions, _) =
        tokio::join!(receiver.mail_count_reaches(2), receiver.sessions_reach(2), async {
            for _ in 0..2 {
                Client::greet(&receiver).await.deliver("x\r\n").await;
            }
        });
    assert_eq!((mails.len(), sessions.len()), (2, 2));
    assert_eq!((mails[0].session, mails[1].session), (1, 2));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited 60s for 1 mails; 0 mails taken, 0 refused, sessions: []")]
async fn a_wait_that_nothing_ends_fails() {
    started().await.mail_count_reaches(1).await;
}

#[tokio::test]
async fn a_dropped_receiver_closes_its_sessions_and_can_come_back() {
    let receiver = started().await;
    let address = receiver.address();
    let mut client = Client::greet(&receiver).await;
    drop(receiver);
    assert!(client.is_closed().await);
    assert!(TcpStream::connect(address).await.is_err());
    let back = Receiver::start_on(address, Options::default()).await.unwrap();
    assert!(Client::greet(&back).await.deliver("x\r\n").await.starts_with("250"));
}
