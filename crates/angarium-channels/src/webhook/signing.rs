//! Signatures as Standard Webhooks 1.0.0 has them: HMAC-SHA256 over `id.timestamp.body`, scheme `v1`.
//!
//! Deliberately absent: the asymmetric scheme `v1a`.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";

/// A shared secret. Its value cannot be shown.
#[derive(Clone)]
pub struct SigningSecret {
    keyed: Hmac<Sha256>,
    /// As it was written, without prefix and padding.
    text: String,
}

/// Why a text is no secret. Never names the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Neither `whsec_` and base64 nor base64 alone.
    #[error("is not a secret such as whsec_ followed by base64")]
    NotBase64,
    /// A key of another length than the standard allows.
    #[error("is a key of {0} bytes; 24 to 64 are needed")]
    Length(usize),
    /// A key of the asymmetric scheme.
    #[error("is a key of the asymmetric scheme; a shared secret (whsec_) is needed")]
    Asymmetric,
}

impl FromStr for SigningSecret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        if text.starts_with("whsk_") || text.starts_with("whpk_") {
            return Err(SecretError::Asymmetric);
        }
        let text = text.strip_prefix(PREFIX).unwrap_or(text);
        let key = STANDARD_PAD_INDIFFERENT.decode(text).map_err(|_| SecretError::NotBase64)?;
        if !(24..=64).contains(&key.len()) {
            return Err(SecretError::Length(key.len()));
        }
        let keyed = Hmac::new_from_slice(&key).map_err(|_| SecretError::Length(key.len()))?;
        Ok(SigningSecret { keyed, text: text.trim_end_matches('=').to_owned() })
    }
}

impl SigningSecret {
    /// One item of `webhook-signature` for these bytes, `v1,` and base64. `timestamp` is in seconds since 1970.
    pub fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let mut keyed = self.keyed.clone();
        keyed.update(format!("{id}.{timestamp}.").as_bytes());
        keyed.update(body);
        format!("v1,{}", STANDARD.encode(keyed.finalize().into_bytes()))
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret")
    }
}

/// The texts of an attempt that must never be shown: its secrets and its signatures.
pub(crate) fn texts(secrets: &[SigningSecret], signatures: &[String]) -> impl Iterator<Item = String> {
    let secrets = secrets.iter().map(|secret| secret.text.clone());
    let signatures = signatures.iter().filter_map(|item| item.strip_prefix("v1,"));
    secrets.chain(signatures.map(|signature| signature.trim_end_matches('=').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
        secret.parse::<SigningSecret>().unwrap().sign(id, timestamp, body.as_bytes())
    }

    /// The published sample of the standard, and vectors computed by other means.
    #[test]
    fn known_signatures() {
        let sample = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(sample, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let rotated = "whsec_ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
        for (secret, body, signature) in [
            (SECRET, r#"{"a":1}"#, "v1,xB9pSlOPIfm0BtvLgVlBFcwgRgl32mF5EdJ+G+Cr/bY="),
            (SECRET, "", "v1,hOfIUkmI4GiUE6hkCRumt1O16Rxjn1aZen65qqSIeb8="),
            (SECRET, r#"{"t":"é😀"}"#, "v1,ORIlCYfUcYyWH7t/nEz9Re/5QkfdOODkyMuHdw2TI6w="),
            (rotated, r#"{"a":1}"#, "v1,T/sgR+v1hy517YcRJ5Jnk0MQxPKfQcTAoYabABQFGLw="),
        ] {
            assert_eq!(sign(secret, "msg_0001", 1_700_000_000, body), signature);
        }
    }

    #[test]
    fn prefix_and_padding_may_be_left_out() {
        let bare = SECRET.strip_prefix("whsec_").unwrap();
        for secret in [bare, bare.trim_end_matches('='), SECRET.trim_end_matches('=')] {
            assert_eq!(sign(secret, "a", 1, "b"), sign(SECRET, "a", 1, "b"));
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_without_being_shown() {
        let of_length = |bytes| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        let parse = |text: &str| text.parse::<SigningSecret>().map(|_| ());
        for bytes in [24, 64] {
            assert_eq!(parse(&of_length(bytes)), Ok(()));
        }
        for bytes in [0, 23, 65] {
            assert_eq!(parse(&of_length(bytes)), Err(SecretError::Length(bytes)));
        }
        for text in ["hunter2!", "v1,whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "whsec_ AAEC", "whsec_AAEC\n"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, SecretError::NotBase64, "{text}");
            assert!(!error.to_string().contains(text));
        }
        assert_eq!(parse("whsk_AAEC"), Err(SecretError::Asymmetric));
        assert_eq!(format!("{:?}", SECRET.parse::<SigningSecret>().unwrap()), "SigningSecret");
    }
}
