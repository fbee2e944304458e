//! What a channel of kind `email` needs of its own: the relay, the sender, the credentials, the signature.
//!
//! Credentials have keys of their own that take them as they are. Inside the URL they are percent-encoded,
//! and a URL in which they are not is refused: other readers would cut the password at its `#` and find the
//! wrong host.

use std::time::Duration;

use angarium_channels::email::dkim::{KeyError, Signer, is_domain};
use angarium_channels::email::mailbox::Mailbox;
use angarium_channels::email::options::unsubscribe_url;
use angarium_channels::email::{Mechanism, Relay, Security};
use angarium_domain::address::Address;
use angarium_domain::channel::ChannelKind;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::reader::{Field, Section};
use super::secret::Secret;

/// How mail is handed to a relay.
#[derive(Clone, Debug, PartialEq)]
pub struct Email {
    /// Where it is handed to.
    pub relay: Relay,
    /// Who logs in there, and how; none if nobody does.
    pub login: Option<Login>,
    /// The sender.
    pub from: Mailbox,
    /// Where answers go, if not to the sender.
    pub reply_to: Option<Mailbox>,
    /// Where bounces go; none for the null sender.
    pub return_path: Option<Address>,
    /// The name given in EHLO; none for the machine's own.
    pub hello: Option<String>,
    /// The domain in Message-ID and List-Id.
    pub id_domain: String,
    /// Where to unsubscribe with one click.
    pub unsubscribe: Option<Url>,
    /// Who signs, and with what.
    pub dkim: Option<Dkim>,
    /// How long the reply after the final dot may take.
    pub final_timeout: Duration,
    /// The least wait after a greylisting reply.
    pub greylist_wait: Duration,
}

/// Who logs in at a relay.
#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// What proves it.
    pub proof: Proof,
    /// The way to log in; none for the best that both sides know.
    pub mechanism: Option<Mechanism>,
}

/// What proves who logs in.
#[derive(Clone, Debug, PartialEq)]
pub enum Proof {
    /// A password.
    Password(Secret),
    /// A token, got as told here.
    Token(Oauth),
}

/// How tokens are got (OAuth 2.0).
#[derive(Clone, Debug, PartialEq)]
pub struct Oauth {
    /// Where they are asked for.
    pub url: Url,
    /// Who asks.
    pub client_id: String,
    /// What proves that.
    pub client_secret: Option<Secret>,
    /// What the token is to allow.
    pub scope: Option<String>,
    /// A token to get tokens with; without one the client asks for itself.
    pub refresh_token: Option<Secret>,
}

/// A signature under every mail.
#[derive(Clone, Debug, PartialEq)]
pub struct Dkim {
    /// The domain that signs.
    pub domain: String,
    /// The name of the key in that domain.
    pub selector: String,
    /// The key, PEM.
    pub key: Secret,
}

const RAW_CHARACTER: &str = "has a user name or password in its URL with a character that must be percent-encoded there: \
     the keys `username` and `password` take them as they are";

/// Reads the keys; none if the relay or the sender is missing or wrong.
pub(super) fn read(section: &Section<'_, '_>) -> Option<Email> {
    let relay = section.required("url").as_ref().and_then(relay);
    let from = section.required("from").and_then(|field| field.parse(str::parse::<Mailbox>));
    let reply_to = section.field("reply_to").and_then(|field| field.parse(str::parse::<Mailbox>));
    let return_path = section.field("return_path").map(|field| field.parse(return_path));
    let hello = section.field("hello").and_then(|field| field.parse(host_name));
    let id_domain = section.field("message_id_domain").and_then(|field| field.parse(id_domain));
    let unsubscribe = section.field("unsubscribe").and_then(|field| field.parse(unsubscribe_url));
    let duration = |key, default| section.field(key).and_then(|f| f.duration()).unwrap_or(default);
    let final_timeout = duration("final_timeout", Duration::from_secs(600));
    let greylist_wait = duration("greylist_wait", Duration::from_secs(300));
    let dkim = section.section("dkim").and_then(|section| dkim(section, from.as_ref()));
    let id_domain = id_domain.or_else(|| {
        let domain = from.as_ref()?.address.receiver();
        if !is_domain(domain) {
            section.problem("needs `message_id_domain`: the sender's domain is too long to stand in an id");
        }
        Some(domain.to_owned())
    });
    let in_url = relay.as_ref().and_then(|(_, credentials)| credentials.clone());
    let login = login(section, in_url);
    let (mut relay, _) = relay?;
    let from = from?;
    if relay.security == Security::Offered && login.is_some() {
        relay.security = Security::Required;
    }
    let next_door = match &relay.host {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.to_canonical().is_loopback(),
        Host::Domain(name) => name == "localhost",
    };
    if relay.security == Security::Never && login.is_some() && !next_door {
        section.warning(
            "has credentials and \"?starttls=never\": they are sent to this machine's own relay alone",
        );
    }
    Some(Email {
        relay,
        login,
        return_path: return_path.unwrap_or_else(|| Some(Some(from.address.clone())))?,
        hello,
        id_domain: id_domain?,
        reply_to,
        unsubscribe,
        dkim,
        final_timeout,
        greylist_wait,
        from,
    })
}

/// The credentials, in the URL or in keys of their own.
fn login(section: &Section<'_, '_>, in_url: Option<(String, Secret)>) -> Option<Login> {
    let user = section.field("username").and_then(|field| field.parse(one_line));
    let password = section.field("password").and_then(|field| field.secret());
    let mechanism = section.field("auth").and_then(|field| field.parse(str::parse::<Mechanism>));
    let oauth = section.section("oauth").and_then(oauth);
    let has = |key| section.field(key).is_some();
    let (has_user, has_password, has_oauth) = (has("username"), has("password"), has("oauth"));
    let own = has_user || has_password || has_oauth;
    if in_url.is_some() && own {
        section.problem("has credentials both in its `url` and in keys of their own");
    } else if has_password && has_oauth {
        section.problem("must have either `password` or `oauth`, not both");
    } else if own && !(has_user && (has_password || has_oauth)) {
        section.problem("must have `username` with `password` or `oauth`, or none of them");
    } else if mechanism.is_some() && !own && in_url.is_none() {
        section.problem("has `auth` but no credentials");
    }
    let (user, proof) = match (in_url, user, password, oauth) {
        (Some((user, password)), ..) => (user, Proof::Password(password)),
        (None, Some(user), Some(password), _) => (user, Proof::Password(password)),
        (None, Some(user), None, Some(oauth)) => (user, Proof::Token(oauth)),
        _ => return None,
    };
    let takes_token = matches!(proof, Proof::Token(_));
    if mechanism.is_some_and(|mechanism| mechanism.takes_token() != takes_token) {
        section.problem("has an `auth` that does not fit its credentials: plain and login take a `password`, xoauth2 and oauthbearer take `oauth`");
        return None;
    }
    Some(Login { user, proof, mechanism })
}

fn oauth(section: Section<'_, '_>) -> Option<Oauth> {
    let url = section.required("url").and_then(|field| field.parse(token_url));
    let client_id = section.required("client_id").and_then(|field| field.text());
    let client_secret = section.field("client_secret").and_then(|field| field.secret());
    let scope = section.field("scope").and_then(|field| field.text());
    let refresh_token = section.field("refresh_token").and_then(|field| field.secret());
    if client_secret.is_none() && refresh_token.is_none() {
        section.problem("needs `client_secret`, or `refresh_token`, or both");
    }
    section.finish();
    Some(Oauth { url: url?, client_id: client_id?, client_secret, scope, refresh_token })
}

fn dkim(section: Section<'_, '_>, from: Option<&Mailbox>) -> Option<Dkim> {
    let domain = section.required("domain").and_then(|field| field.text());
    let selector = section.required("selector").and_then(|field| field.text());
    let field = section.required("key");
    let key = field.as_ref().and_then(|field| field.key());
    let dkim = match (domain, selector, key) {
        (Some(domain), Some(selector), Some(key)) => {
            let signer = Signer::new(&domain, &selector, key.expose());
            let refuse = |error: KeyError| match (&error, &field) {
                (KeyError::Domain | KeyError::Selector, _) | (_, None) => section.problem(error),
                (_, Some(key)) => key.problem(error),
            };
            let signer = signer.map_err(refuse).ok();
            let aligned = |signer: &Signer| from.is_none_or(|from| signer.covers(&from.address));
            if signer.is_some_and(|signer| !aligned(&signer)) {
                section
                    .warning("signs for another domain than the sender's: receivers give nothing for that");
            }
            Some(Dkim { domain, selector, key })
        }
        _ => None,
    };
    section.finish();
    dkim
}

/// An address, or nothing at all for the null sender.
fn return_path(text: &str) -> Result<Option<Address>, angarium_domain::address::AddressError> {
    if text.is_empty() { Ok(None) } else { Address::parse(ChannelKind::Email, text).map(Some) }
}

fn one_line(text: &str) -> Result<String, &'static str> {
    let clean = !text.is_empty() && !text.chars().any(char::is_control);
    if clean { Ok(text.to_owned()) } else { Err("must be one line of text") }
}

fn host_name(text: &str) -> Result<String, &'static str> {
    const FORM: &str = "is not a name such as \"alerts.example.com\"";
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let edges = text.starts_with(['.', '-']) || text.ends_with(['.', '-']);
    if text.is_empty() || text.len() > 200 || edges || !text.chars().all(fits) {
        return Err(FORM);
    }
    Ok(text.to_ascii_lowercase())
}

fn id_domain(text: &str) -> Result<String, &'static str> {
    let domain = host_name(text)?;
    if is_domain(&domain) {
        Ok(domain)
    } else {
        Err("has a label without characters, or one of more than 63")
    }
}

fn token_url(text: &str) -> Result<Url, &'static str> {
    const FORM: &str = "is not a URL such as \"https://login.example.com/token\"";
    let url = Url::parse(text).map_err(|_| FORM)?;
    let plain = url.username().is_empty() && url.password().is_none();
    let web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if plain && web { Ok(url) } else { Err(FORM) }
}

type Credentials = Option<(String, Secret)>;

fn relay(field: &Field<'_, '_>) -> Option<(Relay, Credentials)> {
    let (text, literal) = field.url()?;
    let (relay, credentials) = parse_relay(&text).map_err(|fault| field.problem(fault)).ok()?;
    field.warn_of_exposure(literal && credentials.is_some());
    Some((relay, credentials))
}

fn parse_relay(text: &str) -> Result<(Relay, Credentials), &'static str> {
    const FORM: &str = "is not a URL such as \"smtp://mail.example.com:587\" or \"smtps://mail.example.com\"";
    let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
    let credentials = match rest.rsplit_once('@') {
        Some((userinfo, _)) => Some(parse_userinfo(userinfo)?),
        None => None,
    };
    let url = Url::parse(text).map_err(|_| FORM)?;
    // For schemes that are not the web's, the parser leaves names as they are.
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(FORM)?;
    let host = Host::parse(host).map_err(|_| FORM)?;
    if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
        return Err(FORM);
    }
    let (default_port, security) = match (scheme, url.query()) {
        ("smtps", None) => (465, Security::Implicit),
        ("smtp", None) => (587, Security::Offered),
        ("smtp", Some("starttls=required")) => (587, Security::Required),
        ("smtp", Some("starttls=never")) => (587, Security::Never),
        ("smtp", Some(_)) => {
            return Err("may have no parameter but \"?starttls=required\" or \"?starttls=never\"");
        }
        _ => return Err(FORM),
    };
    if url.port() == Some(0) {
        return Err(FORM);
    }
    Ok((Relay { host, port: url.port().unwrap_or(default_port), security }, credentials))
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
        let (relay, credentials) =
            parse_relay("smtps://noc%40example.com:pa%23s%2Fs@mail.example.com:465").unwrap();
        assert_eq!(credentials, Some(("noc@example.com".into(), Secret::new("pa#s/s".into()))));
        assert_eq!((relay.host.to_string().as_str(), relay.port), ("mail.example.com", 465));
        let kept = parse_relay("smtp://u:a+b%C3%A9é@h").unwrap().1.unwrap().1;
        assert_eq!(kept, Secret::new("a+béé".into()));
    }

    #[test]
    fn relays() {
        let of =
            |text| parse_relay(text).map(|(relay, _)| (relay.host.to_string(), relay.port, relay.security));
        assert_eq!(of("smtp://127.0.0.1:2525").unwrap(), ("127.0.0.1".into(), 2525, Security::Offered));
        assert_eq!(of("smtps://h/").unwrap(), ("h".into(), 465, Security::Implicit));
        assert_eq!(of("smtp://h?starttls=required").unwrap().2, Security::Required);
        assert_eq!(of("smtp://[::1]?starttls=never").unwrap().2, Security::Never);
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
    fn names_that_a_relay_is_greeted_with() {
        for text in ["alerts.example.com", "alerts", "a-b.example"] {
            assert!(host_name(text).is_ok(), "{text}");
        }
        for text in ["", ".a", "a.", "-a", "a_b.example", "a b", "a\r\nQUIT", "[192.0.2.1]"] {
            assert!(host_name(text).is_err(), "{text:?}");
        }
    }
}
