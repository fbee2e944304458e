//! DKIM signatures (RFC 6376; Ed25519: RFC 8463), for channels whose relay does not sign by itself.
//!
//! Header and body are signed in relaxed form, which survives what relays do to white space. From and Subject are
//! signed once more than they stand there, so that nobody can add another one. Both algorithms are deterministic,
//! and a signature bears no time of its own (`t=`): every attempt has the same bytes, and a producer whose clock is
//! minutes ahead does not make signatures "from the future", which verifiers refuse.
//!
//! Receivers that check DMARC want the signing domain to be the sender's, or at least of the same organisation;
//! [`Signer::covers`] tells.
//!
//! Deliberately absent: keys in DNS, expiry (`x=`), partial bodies (`l=`), and reading encrypted keys.

use std::fmt;
use std::sync::Arc;

use angarium_domain::address::Address;
use angarium_domain::outcome::{Failure, FailureClass};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use sha2::{Digest, Sha256};

use super::header::{Field, Lines};

/// What is signed of a header, where it is there.
const SIGNED: [&str; 13] = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "List-Id",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "Auto-Submitted",
];

/// What nobody may add another one of.
const SEALED: [&str; 2] = ["From", "Subject"];

/// Signs for one domain. Its key cannot be shown.
#[derive(Clone)]
pub struct Signer {
    domain: String,
    selector: String,
    key: Arc<Key>,
}

enum Key {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// Why nothing can be signed with a key. Never names the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The signing domain is no domain.
    #[error("has a domain that is no name such as example.com (in A-labels where it is international)")]
    Domain,
    /// The selector is no part of a domain.
    #[error("has a selector that is no name such as mail2026")]
    Selector,
    /// No private key in PEM.
    #[error("is not a private key in PEM (-----BEGIN PRIVATE KEY-----)")]
    NotPem,
    /// A key that needs a passphrase.
    #[error("is an encrypted key; one without a passphrase is needed")]
    Encrypted,
    /// An RSA key that is too weak, or larger than what is supported.
    #[error("is an RSA key of fewer than 2048 or more than 4096 bits, or with an exponent that is too small")]
    Size,
    /// A key for other algorithms, or a damaged one.
    #[error("is a damaged key, or neither an RSA nor an Ed25519 key")]
    Unusable,
}

impl Signer {
    /// A signer for `domain`, whose public key stands in DNS at `selector._domainkey.domain`. `pem` is an RSA key
    /// of 2048 to 4096 bits (PKCS#8 or PKCS#1) or an Ed25519 key (PKCS#8). DKIM itself allows RSA keys from 1024
    /// bits; they are too weak by now and the library refuses them.
    pub fn new(domain: &str, selector: &str, pem: &str) -> Result<Self, KeyError> {
        if !is_domain(domain) {
            return Err(KeyError::Domain);
        }
        if !is_domain(selector) {
            return Err(KeyError::Selector);
        }
        let key = Arc::new(Key::from_pem(pem)?);
        Ok(Signer { domain: domain.to_ascii_lowercase(), selector: selector.to_owned(), key })
    }

    /// Whether a signature of this domain speaks for `from`: for its domain or one below (the relaxed alignment of
    /// DMARC, short of looking up who owns what).
    pub fn covers(&self, from: &Address) -> bool {
        let domain = from.receiver();
        domain.strip_suffix(self.domain.as_str()).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    }

    /// The field that signs `fields` and `body`.
    pub(crate) fn sign(&self, fields: &[Field], body: &str) -> Result<Field, Failure> {
        let present = |name: &&str| fields.iter().find(|field| field.name == *name);
        let signed: Vec<&Field> = SIGNED.iter().filter_map(present).collect();
        let names = signed.iter().map(|field| field.name).chain(SEALED);
        let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();

        let mut lines = Lines::of("DKIM-Signature");
        lines.add("", "v=1;");
        lines.add(" ", &format!("a={};", self.key.algorithm()));
        lines.add(" ", "c=relaxed/relaxed;");
        lines.add(" ", &format!("d={};", self.domain));
        lines.add(" ", &format!("s={};", self.selector));
        lines.add(" ", "h=");
        for (i, name) in names.iter().enumerate() {
            let end = if i + 1 == names.len() { ";" } else { ":" };
            lines.add("", &format!("{name}{end}"));
        }
        lines.add(" ", &format!("bh={};", STANDARD.encode(Sha256::digest(relaxed_body(body)))));
        lines.add(" ", "b=");

        let mut input: String =
            signed.iter().map(|field| relaxed_field(field.name, &field.value) + "\r\n").collect();
        input.push_str(&relaxed_field("DKIM-Signature", lines.value()));
        let signature = STANDARD.encode(self.key.sign(input.as_bytes())?);
        for piece in signature.as_bytes().chunks(4) {
            lines.add("", &String::from_utf8_lossy(piece));
        }
        Ok(lines.end())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("domain", &self.domain)
            .field("selector", &self.selector)
            .field("algorithm", &self.key.algorithm())
            .finish_non_exhaustive()
    }
}

impl Key {
    fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, der) = read_pem(pem).ok_or(KeyError::NotPem)?;
        let rsa = match label {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der),
            "PRIVATE KEY" => match Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
                Ok(key) => return Ok(Key::Ed25519(key)),
                Err(_) => RsaKeyPair::from_pkcs8(&der),
            },
            "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Encrypted),
            _ => return Err(KeyError::NotPem),
        };
        rsa.map(Key::Rsa).map_err(|rejected| match rejected.to_string().as_str() {
            "TooSmall" | "TooLarge" => KeyError::Size,
            _ => KeyError::Unusable,
        })
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Key::Rsa(_) => "rsa-sha256",
            Key::Ed25519(_) => "ed25519-sha256",
        }
    }

    fn sign(&self, input: &[u8]) -> Result<Vec<u8>, Failure> {
        match self {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                // This padding takes no random bytes; the interface wants a source all the same.
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), input, &mut signature)
                    .map_err(|_| Failure::new(FailureClass::Internal, "the DKIM key does not sign"))?;
                Ok(signature)
            }
            Key::Ed25519(key) => Ok(key.sign(&Sha256::digest(input)).as_ref().to_vec()),
        }
    }
}

/// The label and the bytes of the first block of a PEM text; what stands around it is passed over (RFC 7468).
fn read_pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, text) = text.split_once("-----BEGIN ")?;
    let (label, text) = text.split_once("-----")?;
    let (base64, _) = text.split_once(&format!("-----END {label}-----"))?;
    let base64: String = base64.split_ascii_whitespace().collect();
    STANDARD.decode(base64).ok().map(|der| (label, der))
}

/// Whether `text` is made of labels as domains are, and of at most 200 bytes, so that ids made with it fit a line.
pub fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        let clean = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        clean && (1..=63).contains(&label.len())
    };
    text.len() <= 200 && text.split('.').all(label)
}

/// A field in relaxed form, without its end (RFC 6376, 3.4.2).
fn relaxed_field(name: &str, value: &str) -> String {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    format!("{}:{}", name.to_ascii_lowercase(), words.join(" "))
}

/// A body in relaxed form (RFC 6376, 3.4.4).
fn relaxed_body(body: &str) -> String {
    let mut out = String::with_capacity(body.len() + 2);
    for line in body.split("\r\n") {
        let mut after_blank = false;
        for c in line.trim_end_matches([' ', '\t']).chars() {
            let is_blank = matches!(c, ' ' | '\t');
            match is_blank {
                true if after_blank => {}
                true => out.push(' '),
                false => out.push(c),
            }
            after_blank = is_blank;
        }
        out.push_str("\r\n");
    }
    out.truncate(out.trim_end_matches("\r\n").len());
    if !out.is_empty() {
        out.push_str("\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6376, 3.4.5, and what they leave out.
    #[test]
    fn relaxed_forms() {
        assert_eq!(relaxed_field("A", " X"), "a:X");
        assert_eq!(relaxed_field("B ".trim(), " Y\t\r\n\tZ  "), "b:Y Z");
        assert_eq!(relaxed_field("Subject", ""), "subject:");
        assert_eq!(relaxed_body(" C \r\nD \t E\r\n\r\n\r\n"), " C\r\nD E\r\n");
        assert_eq!(relaxed_body("a"), "a\r\n");
        for empty in ["", "\r\n", " \r\n\r\n\t"] {
            assert_eq!(relaxed_body(empty), "", "{empty:?}");
        }
    }

    /// The hash of a body without content (RFC 6376, 3.4.4).
    #[test]
    fn an_empty_body_has_the_known_hash() {
        let hash = STANDARD.encode(Sha256::digest(relaxed_body("\r\n")));
        assert_eq!(hash, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
