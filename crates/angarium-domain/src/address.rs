//! Addresses: what a kind of channel delivers to, parsed at the edge.
//!
//! For a webhook that is a URL. Only its form is judged here; whether the host behind it may be reached is
//! decided by the address guard each time it is dialled, because names change their meaning. For e-mail it is
//! `local@domain`: the domain in lower case and in A-labels, the local part as it was written. Quoted local
//! parts and address literals are refused: nothing that runs an alarm list needs them, and they are the usual
//! disguise.

use std::fmt;

use url::{Host, Url};

use crate::channel::ChannelKind;
use crate::limits::ADDRESS_BYTES;
use crate::text::is_invisible;

/// Where one message goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    text: String,
    receiver: String,
}

/// Why an address was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing, or longer than any address is.
    #[error("must have 1 to 2048 bytes")]
    Length,
    /// White space, a control character or a backslash, which URL parsers read in different ways.
    #[error("contains white space, a control character or a backslash")]
    Unclean,
    /// Not a URL with a host.
    #[error("is not a URL such as https://example.com/hook")]
    NotAUrl,
    /// A scheme other than http and https.
    #[error("must begin with https:// or http://")]
    Scheme,
    /// A user name or password inside the URL.
    #[error("must not contain a user name or password")]
    UserInfo,
    /// A port on which something other than HTTP is known to listen.
    #[error("names a port that no webhook listens on")]
    Port,
    /// Not `local@domain`.
    #[error("is not an e-mail address such as ops@example.com")]
    NotAMailbox,
}

/// Ports of services that an HTTP request must never be tricked into talking to.
const BLOCKED_PORTS: [u16; 20] =
    [0, 7, 9, 19, 20, 21, 22, 23, 25, 53, 110, 143, 389, 445, 465, 587, 3306, 5432, 6379, 11211];

impl Address {
    /// Reads an address of a channel of `kind`.
    pub fn parse(kind: ChannelKind, text: &str) -> Result<Self, AddressError> {
        if text.is_empty() || text.len() > ADDRESS_BYTES {
            return Err(AddressError::Length);
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(AddressError::Unclean);
        }
        match kind {
            ChannelKind::Webhook => Address::url(text),
            ChannelKind::Email => Address::mailbox(text),
            _ => Ok(Address { text: text.to_owned(), receiver: text.to_owned() }),
        }
    }

    fn url(text: &str) -> Result<Self, AddressError> {
        let url = Url::parse(text).map_err(|_| AddressError::NotAUrl)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(AddressError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(AddressError::UserInfo);
        }
        let host = url.host_str().ok_or(AddressError::NotAUrl)?;
        let port = url.port_or_known_default().ok_or(AddressError::Port)?;
        if BLOCKED_PORTS.contains(&port) {
            return Err(AddressError::Port);
        }
        let receiver = format!("{host}:{port}");
        let mut url = url;
        url.set_fragment(None);
        let text = String::from(url);
        // What was typed as é takes six bytes in normal form.
        if text.len() > ADDRESS_BYTES { Err(AddressError::Length) } else { Ok(Address { text, receiver }) }
    }

    fn mailbox(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NotAMailbox)?;
        let dot_atom = local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atext));
        if !dot_atom || local.len() > LOCAL_PART_BYTES {
            return Err(AddressError::NotAMailbox);
        }
        let domain = mail_domain(domain).ok_or(AddressError::NotAMailbox)?;
        if local.len() + 1 + domain.len() > MAILBOX_BYTES {
            return Err(AddressError::Length);
        }
        Ok(Address { text: format!("{local}@{domain}"), receiver: domain })
    }

    /// An address as it was stored; it was parsed when it came in.
    pub fn stored(kind: ChannelKind, text: String) -> Self {
        // A receiver is shown; a whole URL, which may hold secrets, must never stand in its place.
        Address::parse(kind, &text).unwrap_or_else(|_| Address { receiver: "unknown".to_owned(), text })
    }

    /// An address as it was stored together with its [`Address::receiver`]; it was parsed when it came in.
    pub fn from_parts(text: String, receiver: String) -> Self {
        Address { text, receiver }
    }

    /// The address as it is sent to, in normal form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Who is behind the address, for fairness and limits: host and port of a webhook, the domain of a mailbox.
    pub fn receiver(&self) -> &str {
        &self.receiver
    }
}

/// The longest local part, and the longest mailbox that fits into a path (RFC 5321, 4.5.3.1).
const LOCAL_PART_BYTES: usize = 64;
const MAILBOX_BYTES: usize = 254;

/// What may stand in a local part without quotes (RFC 5322, 3.2.3; RFC 6532, 3.2).
fn is_atext(c: char) -> bool {
    let plain = c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    plain || (!c.is_ascii() && !is_invisible(c))
}

/// A domain in lower case and A-labels; none if it is no name that mail can go to.
fn mail_domain(text: &str) -> Option<String> {
    // The parser of hosts would undo percent-encoding, and takes more than names.
    if text.contains(['%', '[', ']', ':']) {
        return None;
    }
    let Ok(Host::Domain(domain)) = Host::parse(text) else { return None };
    let label = |label: &str| {
        let edges = label.starts_with('-') || label.ends_with('-');
        (1..=63).contains(&label.len())
            && !edges
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    domain.split('.').all(label).then_some(domain)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook(text: &str) -> Result<Address, AddressError> {
        Address::parse(ChannelKind::Webhook, text)
    }

    #[test]
    fn a_webhook_address_is_a_plain_url() {
        let address = webhook("HTTPS://Example.COM/hook?a=1#part").unwrap();
        assert_eq!(address.as_str(), "https://example.com/hook?a=1");
        assert_eq!(address.receiver(), "example.com:443");
        assert_eq!(webhook("http://example.com:8080").unwrap().receiver(), "example.com:8080");
    }

    #[test]
    fn what_parsers_disagree_about_is_refused() {
        for text in
            ["https://exam\nple.com/", "https://exam ple.com/", "https:\\\\example.com", "https://a\t.b/"]
        {
            assert_eq!(webhook(text), Err(AddressError::Unclean), "{text:?}");
        }
        assert_eq!(webhook("https://user:pw@example.com/"), Err(AddressError::UserInfo));
        assert_eq!(webhook("http://1.1.1.1@127.0.0.1/"), Err(AddressError::UserInfo));
        for text in ["file:///etc/passwd", "gopher://h/", "ftp://h/x", "javascript:alert(1)", "data:,x"] {
            assert_eq!(webhook(text), Err(AddressError::Scheme), "{text}");
        }
        for text in ["http://h:0/", "http://h:22/", "http://h:25/", "https://h:6379/"] {
            assert_eq!(webhook(text), Err(AddressError::Port), "{text}");
        }
        assert_eq!(webhook("example.com/hook"), Err(AddressError::NotAUrl));
        assert_eq!(webhook(&format!("https://h/{}", "x".repeat(2048))), Err(AddressError::Length));
        assert_eq!(
            webhook(&format!("https://h/{}", "é".repeat(900))),
            Err(AddressError::Length),
            "5,400 bytes encoded"
        );
        assert!(webhook(&format!("https://h/{}", "é".repeat(300))).is_ok());
    }

    fn mailbox(text: &str) -> Result<Address, AddressError> {
        Address::parse(ChannelKind::Email, text)
    }

    /// C090: an international domain is translated, a local part stays as it is.
    #[test]
    fn c090_a_mailbox_in_normal_form() {
        for (text, normal, receiver) in [
            ("Ops@Example.COM", "Ops@example.com", "example.com"),
            ("ops@bücher.example", "ops@xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("jörg@example.com", "jörg@example.com", "example.com"),
            ("a.b+c/d=e@x-y.example", "a.b+c/d=e@x-y.example", "x-y.example"),
            ("root@localhost", "root@localhost", "localhost"),
        ] {
            let address = mailbox(text).unwrap();
            assert_eq!((address.as_str(), address.receiver()), (normal, receiver));
        }
    }

    #[test]
    fn what_is_no_mailbox_is_refused() {
        for text in [
            "ops",
            "@example.com",
            "ops@",
            "a@b@c",
            ".a@example.com",
            "a.@example.com",
            "a..b@example.com",
            "<script>@example.com",
            "a@example.com>",
            "a,b@example.com",
            "\"a\"@example.com",
            "user@[127.0.0.1]",
            "user@127.0.0.1",
            "user@127.1",
            "user@[IPv6:::1]",
            "a@example..com",
            "a@.example.com",
            "a@example.com.",
            "a@-example.com",
            "a@ex%61mple.com",
            "a@exa_mple!.com",
            "ann\u{200B}@example.com",
            "a\u{202E}b@example.com",
            "a\u{FEFF}@example.com",
        ] {
            assert_eq!(mailbox(text), Err(AddressError::NotAMailbox), "{text}");
        }
        for text in
            ["a b@example.com", "a@example.com\r\nRCPT TO:<x@y>", "a\0@example.com", "a\\@example.com"]
        {
            assert_eq!(mailbox(text), Err(AddressError::Unclean), "{text:?}");
        }
        assert!(mailbox(&format!("{}@example.com", "x".repeat(64))).is_ok());
        assert_eq!(mailbox(&format!("{}@example.com", "x".repeat(65))), Err(AddressError::NotAMailbox));
        let long = [["x"; 60].concat(), ["y"; 60].concat(), ["z"; 60].concat(), ["w"; 60].concat()].join(".");
        assert_eq!(mailbox(&format!("{}@{long}", "x".repeat(20))), Err(AddressError::Length));
    }
}
