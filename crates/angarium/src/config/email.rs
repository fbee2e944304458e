//! What a channel of kind `email` needs of its own: the relay, the sender, the credentials.
//!
//! Credentials have keys of their own that take them as they are. Inside the URL they are percent-encoded,
//! and a URL in which they are not is refused: other readers would cut the password at its `#` and find the
//! wrong host.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use super::reader::{Field, Section};
use super::secret::Secret;

/// How mail is handed to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// The relay's name or address.
    pub host: String,
    /// The relay's port.
    pub port: u16,
    /// How the connection is protected.
    pub security: SmtpSecurity,
    /// Who logs in, and with what; none if nobody does.
    pub credentials: Option<(String, Secret)>,
    /// The sender: `a@example.com` or `Name <a@example.com>`.
    pub from: String,
    /// How long the reply after the final dot may take.
    pub final_timeout: Duration,
    /// The least wait after a greylisting reply.
    pub greylist_wait: Duration,
}

/// How the connection to a relay is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// TLS from the first byte (`smtps://`).
    Implicit,
    /// STARTTLS, or nothing is sent.
    Required,
    /// STARTTLS where the relay offers it.
    Offered,
    /// Never.
    Never,
}

const RAW_CHARACTER: &str = "has a user name or password in its URL with a character that must be percent-encoded there: \
     the keys `username` and `password` take them as they are";

/// Reads the keys; none if the relay or the sender is missing or wrong.
pub(super) fn read(section: &Section<'_, '_>) -> Option<Email> {
    let url = section.required("url");
    let relay = url.as_ref().and_then(relay);
    let from = section.required("from").and_then(|field| field.parse(sender));
    let username = section.field("username").and_then(|field| field.text());
    let password = section.field("password").and_then(|field| field.secret());
    let duration = |key, default| section.field(key).and_then(|f| f.duration()).unwrap_or(default);
    let final_timeout = duration("final_timeout", Duration::from_secs(600));
    let greylist_wait = duration("greylist_wait", Duration::from_secs(300));
    let own = match (username, password) {
        (Some(username), Some(password)) => Some((username, password)),
        (None, None) => None,
        _ => {
            section.problem("must have both `username` and `password` or neither");
            None
        }
    };
    let relay = relay?;
    if own.is_some() && relay.credentials.is_some() {
        section.problem("has credentials both in its `url` and in keys of their own");
    }
    let credentials = own.or(relay.credentials);
    let security = match relay.security {
        SmtpSecurity::Offered if credentials.is_some() => SmtpSecurity::Required,
        security => security,
    };
    let Relay { host, port, .. } = relay;
    Some(Email { host, port, security, credentials, from: from?, final_timeout, greylist_wait })
}

fn sender(text: &str) -> Result<String, &'static str> {
    let address = match text.split_once('<') {
        Some((_, rest)) => rest.strip_suffix('>').unwrap_or(""),
        None => text,
    };
    let parts = address.rsplit_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty());
    if parts && !text.chars().any(char::is_control) && !address.contains([' ', '<', '>']) {
        Ok(text.to_owned())
    } else {
        Err("is not a sender such as \"Alerts <alerts@example.com>\"")
    }
}

struct Relay {
    host: String,
    port: u16,
    security: SmtpSecurity,
    credentials: Option<(String, Secret)>,
}

fn relay(field: &Field<'_, '_>) -> Option<Relay> {
    let (text, literal) = field.url()?;
    let relay = parse_relay(&text).map_err(|fault| field.problem(fault)).ok()?;
    field.warn_of_exposure(literal && relay.credentials.is_some());
    Some(relay)
}

fn parse_relay(text: &str) -> Result<Relay, &'static str> {
    const FORM: &str = "is not a URL such as \"smtp://mail.example.com:587\" or \"smtps://mail.example.com\"";
    let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
    let credentials = match rest.rsplit_once('@') {
        Some((userinfo, _)) => Some(parse_userinfo(userinfo)?),
        None => None,
    };
    let url = Url::parse(text).map_err(|_| FORM)?;
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FORM)?;
    if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
        return Err(FORM);
    }
    let (default_port, security) = match (scheme, url.query()) {
        ("smtps", None) => (465, SmtpSecurity::Implicit),
        ("smtp", None) => (587, SmtpSecurity::Offered),
        ("smtp", Some("starttls=required")) => (587, SmtpSecurity::Required),
        ("smtp", Some("starttls=never")) => (587, SmtpSecurity::Never),
        ("smtp", Some(_)) => {
            return Err("may have no parameter but \"?starttls=required\" or \"?starttls=never\"");
        }
        _ => return Err(FORM),
    };
    Ok(Relay { host: host.to_owned(), port: url.port().unwrap_or(default_port), security, credentials })
}

fn parse_userinfo(userinfo: &str) -> Result<(String, Secret), &'static str> {
    let (user, password) = userinfo.split_once(':').ok_or("has a user name without a password in its URL")?;
    Ok((decode(user)?, Secret::new(decode(password)?)))
}

/// Undoes percent-encoding, strictly: what is not encoded must be a character that can stand there.
fn decode(part: &str) -> Result<String, &'static str> {
    let stray = part
        .split('%')
        .skip(1)
        .any(|rest| rest.get(..2).is_none_or(|digits| !digits.bytes().all(|b| b.is_ascii_hexdigit())));
    let raw = part.contains(['/', '?', '#', '[', ']', '@', ':', '\\'])
        || part.chars().any(|c| c.is_whitespace() || c.is_control());
    if stray || raw {
        return Err(RAW_CHARACTER);
    }
    percent_decode_str(part).decode_utf8().map(Into::into).map_err(|_| RAW_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C201: raw special characters are refused without being shown; encoded ones come out as they were.
    #[test]
    fn c201_special_characters_in_a_password() {
        for text in [
            "smtps://noc@example.com:pa#s/s@mail.example.com:465",
            "smtps://noc:pa%zz@mail.example.com",
            "smtps://noc:pa%@mail.example.com",
            "smtps://noc:p@ss@mail.example.com",
            "smtps://noc:a:b@mail.example.com",
            "smtps://noc:a\n@mail.example.com",
            "smtps://noc:%FF@mail.example.com",
        ] {
            let fault = parse_relay(text).err();
            assert_eq!(fault, Some(RAW_CHARACTER), "{text}");
        }
        let relay = parse_relay("smtps://noc%40example.com:pa%23s%2Fs@mail.example.com:465").unwrap();
        assert_eq!(relay.credentials, Some(("noc@example.com".into(), Secret::new("pa#s/s".into()))));
        assert_eq!((relay.host.as_str(), relay.port), ("mail.example.com", 465));
        let kept = parse_relay("smtp://u:a+b%C3%A9é@h").unwrap().credentials.unwrap().1;
        assert_eq!(kept, Secret::new("a+béé".into()));
    }

    #[test]
    fn relays() {
        let of = |text| parse_relay(text).map(|relay| (relay.host, relay.port, relay.security));
        assert_eq!(of("smtp://127.0.0.1:2525").unwrap(), ("127.0.0.1".into(), 2525, SmtpSecurity::Offered));
        assert_eq!(of("smtps://h/").unwrap(), ("h".into(), 465, SmtpSecurity::Implicit));
        assert_eq!(of("smtp://h?starttls=required").unwrap().2, SmtpSecurity::Required);
        assert_eq!(of("smtp://[::1]?starttls=never").unwrap().2, SmtpSecurity::Never);
        for text in [
            "mail.example.com",
            "http://h",
            "smtp://",
            "smtp://h/x",
            "smtp://h?x=1",
            "smtp://h#f",
            "smtp://u@h",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn senders() {
        for text in ["a@example.com", "Alerts <alerts@example.com>"] {
            assert!(sender(text).is_ok(), "{text}");
        }
        for text in ["", "alerts", "@example.com", "Alerts <alerts>", "A <a@b> x", "a\r\nBcc: x@y", "a b@c"] {
            assert!(sender(text).is_err(), "{text:?}");
        }
    }
}
