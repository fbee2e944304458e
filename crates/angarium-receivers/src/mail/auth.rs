//! The server's side of an AUTH exchange, without the connection.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::options::{Auth, Mechanism};

const ACCEPTED: &str = "235 2.7.0 Authentication successful";
const WRONG: &str = "535 5.7.8 Authentication credentials invalid";
/// RFC 7628 (3.2.2) has the client acknowledge a refusal that comes as a challenge.
const TOKEN_REFUSAL: &str = r#"{"status":"400","schemes":"Bearer","scope":"https://mail.example.com/"}"#;

/// What the server is waiting for.
#[derive(Debug)]
pub(super) enum Exchange {
    /// All of it at once, for one of the mechanisms that do so.
    Response(Mechanism),
    LoginUser,
    LoginPassword {
        user: String,
    },
    /// That the client has read why its token was refused.
    Acknowledgement(Mechanism),
    /// Nothing: whatever the client sends now is wrong.
    Over,
}

impl Exchange {
    pub(super) fn new(mechanism: Mechanism) -> Exchange {
        match mechanism {
            Mechanism::Login => Exchange::LoginUser,
            _ => Exchange::Response(mechanism),
        }
    }

    /// The question to ask when the client has not said anything yet.
    pub(super) fn challenge(&self) -> String {
        match self {
            Exchange::LoginUser => format!("334 {}", STANDARD.encode("Username:")),
            Exchange::LoginPassword { .. } => format!("334 {}", STANDARD.encode("Password:")),
            _ => "334 ".to_owned(),
        }
    }

    /// Takes what the client said and gives what follows, and the answer.
    pub(super) fn next(self, auth: &Auth, line: &str) -> (Exchange, String) {
        if line == "*" {
            return (Exchange::Over, "501 5.7.0 Authentication cancelled".to_owned());
        }
        // An initial response that is empty is written as `=`.
        let Ok(response) = STANDARD.decode(if line == "=" { "" } else { line }) else {
            return (Exchange::Over, "501 5.5.2 Not base64".to_owned());
        };
        let response = String::from_utf8_lossy(&response).into_owned();
        match self {
            Exchange::LoginUser => {
                let next = Exchange::LoginPassword { user: response };
                let challenge = next.challenge();
                (next, challenge)
            }
            Exchange::LoginPassword { user } => {
                (Exchange::Over, verdict(user == auth.user && response == auth.password))
            }
            Exchange::Response(Mechanism::Plain) => (Exchange::Over, verdict(is_plain(auth, &response))),
            Exchange::Response(mechanism) if is_token(mechanism, auth, &response) => {
                (Exchange::Over, verdict(true))
            }
            Exchange::Response(mechanism) => {
                (Exchange::Acknowledgement(mechanism), format!("334 {}", STANDARD.encode(TOKEN_REFUSAL)))
            }
            Exchange::Acknowledgement(_) | Exchange::Over => (Exchange::Over, verdict(false)),
        }
    }

    /// What is wrong with this line, when its form alone is.
    pub(super) fn sin(&self, line: &str) -> Option<String> {
        let expected = match self {
            Exchange::Acknowledgement(Mechanism::OAuthBearer) => "AQ==",
            Exchange::Acknowledgement(_) => "",
            _ => return None,
        };
        (line != expected)
            .then(|| format!("acknowledged a refused token by {line:?} and not by {expected:?}"))
    }
}

fn verdict(right: bool) -> String {
    if right { ACCEPTED } else { WRONG }.to_owned()
}

/// `[authorization] NUL user NUL password`.
fn is_plain(auth: &Auth, response: &str) -> bool {
    let parts: Vec<&str> = response.split('\0').collect();
    matches!(parts[..], [authorization, user, password]
        if (authorization.is_empty() || authorization == user) && user == auth.user && password == auth.password)
}

fn is_token(mechanism: Mechanism, auth: &Auth, response: &str) -> bool {
    let bearer = format!("auth=Bearer {}", auth.token);
    if mechanism == Mechanism::XOAuth2 {
        return response == format!("user={}\x01{bearer}\x01\x01", auth.user);
    }
    // RFC 5801: comma and equals sign cannot stand in a name as they are.
    let name = auth.user.replace('=', "=3D").replace(',', "=2C");
    let Some(pairs) =
        response.strip_prefix(&format!("n,a={name},\x01")).and_then(|rest| rest.strip_suffix("\x01\x01"))
    else {
        return false;
    };
    let known = |pair: &str| pair == bearer || pair.starts_with("host=") || pair.starts_with("port=");
    pairs.split('\x01').all(known) && pairs.split('\x01').any(|pair| pair == bearer)
}
