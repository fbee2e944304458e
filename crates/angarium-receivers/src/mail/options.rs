//! What the server offers.

use std::sync::Arc;

use rustls::ServerConfig;

/// The longest mail the server takes, in octets on the wire, whatever its `SIZE` keyword says.
pub const MAIL_LIMIT: usize = 16 * 1024 * 1024;

/// How a server is set up for its whole life.
#[derive(Clone, Debug)]
pub struct Options {
    /// The lines of the answer to `EHLO` after the first, such as `SIZE 10485760`. Only the parameters of what
    /// stands here are allowed, and a mail over `SIZE` is refused. Those for TLS and AUTH come by themselves.
    pub keywords: Vec<String>,
    /// Writes all keywords in lower case, which clients must read as well.
    pub lower_case: bool,
    /// Whether and how TLS is to be had.
    pub tls: Tls,
    /// Who may log in; `None` offers no AUTH at all.
    pub auth: Option<Auth>,
    /// Refuses a mail with a bare CR or LF (550 5.6.11), as Exchange Online and Postfix do. Otherwise it is
    /// taken; a sin it is in any case.
    pub refuse_bare_line_ends: bool,
}

/// Whether and how TLS is to be had.
#[derive(Clone, Debug)]
pub enum Tls {
    /// Not at all.
    None,
    /// Offered in clear by `STARTTLS`, not required.
    StartTls(Arc<ServerConfig>),
    /// From the first byte on.
    Implicit(Arc<ServerConfig>),
}

/// The one login that a server knows.
#[derive(Clone, Debug)]
pub struct Auth {
    /// What is offered, in this order.
    pub mechanisms: Vec<Mechanism>,
    /// The name of the login.
    pub user: String,
    /// What [`Mechanism::Plain`] and [`Mechanism::Login`] take.
    pub password: String,
    /// What [`Mechanism::XOAuth2`] and [`Mechanism::OAuthBearer`] take.
    pub token: String,
    /// Refuses `MAIL` without login (530 5.7.0).
    pub required: bool,
    /// Offers AUTH, and takes it, in clear too.
    pub before_tls: bool,
}

/// A way to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// The older one without a standard: name and password apart.
    Login,
    /// The bearer token as Google and Microsoft began with it.
    XOAuth2,
    /// The bearer token of RFC 7628.
    OAuthBearer,
}

impl Default for Options {
    /// What a well-equipped server offers, without TLS and AUTH.
    fn default() -> Self {
        let keywords = ["PIPELINING", "SIZE 10485760", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "DSN"];
        Options {
            keywords: keywords.map(str::to_owned).to_vec(),
            lower_case: false,
            tls: Tls::None,
            auth: None,
            refuse_bare_line_ends: true,
        }
    }
}

impl Options {
    /// The lines of the answer to `EHLO` after the first; `secure` when the session is under TLS.
    pub(super) fn offer(&self, secure: bool) -> Vec<String> {
        let mut lines = self.keywords.clone();
        if matches!(self.tls, Tls::StartTls(_)) && !secure {
            lines.push("STARTTLS".to_owned());
        }
        if let Some(auth) = self.auth(secure) {
            let names: Vec<&str> = auth.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
            lines.push(format!("AUTH {}", names.join(" ")));
        }
        if self.lower_case {
            lines.iter_mut().for_each(|line| line.make_ascii_lowercase());
        }
        lines
    }

    /// The login, where it may be used; `secure` when the session is under TLS.
    pub(super) fn auth(&self, secure: bool) -> Option<&Auth> {
        self.auth.as_ref().filter(|auth| secure || auth.before_tls)
    }

    /// The longest mail in octets.
    pub(super) fn mail_limit(&self) -> usize {
        let sizes = self.keywords.iter().filter_map(|line| {
            let (keyword, size) = line.split_once(' ')?;
            // RFC 1870: zero means that there is no fixed limit.
            if keyword.eq_ignore_ascii_case("SIZE") {
                size.parse().ok().filter(|size| *size > 0)
            } else {
                None
            }
        });
        sizes.fold(MAIL_LIMIT, usize::min)
    }
}

impl Auth {
    /// A login by password, with PLAIN and LOGIN; required, and under TLS only.
    pub fn password(user: &str, password: &str) -> Auth {
        Auth {
            mechanisms: vec![Mechanism::Plain, Mechanism::Login],
            user: user.to_owned(),
            password: password.to_owned(),
            token: String::new(),
            required: true,
            before_tls: false,
        }
    }

    /// A login by token, with XOAUTH2 and OAUTHBEARER; required, and under TLS only.
    pub fn token(user: &str, token: &str) -> Auth {
        Auth {
            mechanisms: vec![Mechanism::XOAuth2, Mechanism::OAuthBearer],
            token: token.to_owned(),
            ..Auth::password(user, "")
        }
    }
}

impl Mechanism {
    /// As it stands in `EHLO` and `AUTH`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::XOAuth2 => "XOAUTH2",
            Mechanism::OAuthBearer => "OAUTHBEARER",
        }
    }
}
