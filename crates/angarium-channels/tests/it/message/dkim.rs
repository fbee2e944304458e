//! Signatures, checked by other code than that which makes them: fields are looked up from the bottom as
//! verifiers do, and both canonical forms are written anew, byte by byte.

use angarium_channels::email::dkim::{KeyError, Signer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{
    ED25519, Ed25519KeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

use super::{letterhead, mail_on, message};

const RSA: &str = include_str!("keys/rsa-2048.pem");
const ED25519_KEY: &str = include_str!("keys/ed25519.pem");

/// The key between the lines of a PEM text.
fn der(pem: &str) -> Vec<u8> {
    let lines: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(lines).unwrap()
}

/// The RSA key in its older form: what follows the 26 bytes in which PKCS#8 says that it is one.
fn rsa_pkcs1() -> String {
    let base64 = STANDARD.encode(&der(RSA)[26..]);
    format!("-----BEGIN RSA PRIVATE KEY-----\n{base64}\n-----END RSA PRIVATE KEY-----\n")
}

/// Name, as it stands, and value with its folds.
fn raw_fields(header: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut start = 0;
    for (at, _) in header.match_indices("\r\n") {
        let next = header.as_bytes().get(at + 2);
        if next.is_none_or(|byte| !b" \t".contains(byte)) {
            fields.push(header[start..at].split_once(':').unwrap());
            start = at + 2;
        }
    }
    fields
}

fn canonical_field((name, value): (&str, &str)) -> Vec<u8> {
    let mut out = name.trim_end().to_lowercase().into_bytes();
    out.push(b':');
    let mut blank = false;
    for byte in value.replace("\r\n", "").bytes() {
        let is_blank = byte == b' ' || byte == b'\t';
        if !is_blank {
            if blank && out.len() > name.trim_end().len() + 1 {
                out.push(b' ');
            }
            out.push(byte);
        }
        blank = is_blank;
    }
    out
}

fn canonical_body(body: &str) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    for byte in body.bytes() {
        match byte {
            b'\t' | b' ' if out.ends_with(b" ") => {}
            b'\t' => out.push(b' '),
            b'\r' if out.ends_with(b" ") => *out.last_mut().unwrap() = b'\r',
            byte => out.push(byte),
        }
    }
    while out.ends_with(b"\r\n\r\n") {
        out.truncate(out.len() - 2);
    }
    if out == b"\r\n" { Vec::new() } else { out }
}

/// Whether the one signature of `mail` holds.
fn verifies(mail: &str, pem: &str) -> bool {
    let (header, body) = mail.split_once("\r\n\r\n").unwrap();
    let header = format!("{header}\r\n");
    let mut fields = raw_fields(&header);
    assert_eq!(fields[0].0, "DKIM-Signature");
    let signature = fields.remove(0);
    let tag = |name: &str| -> String {
        let tags = signature.1.split(';').map(|tag| tag.trim_start().split_once('=').unwrap());
        let value = tags.filter(|(n, _)| *n == name).map(|(_, value)| value).collect::<String>();
        value.split_ascii_whitespace().collect()
    };
    if tag("bh") != STANDARD.encode(Sha256::digest(canonical_body(body))) {
        return false;
    }
    let mut input = Vec::new();
    for name in tag("h").split(':') {
        if let Some(at) = fields.iter().rposition(|(n, _)| n.eq_ignore_ascii_case(name)) {
            input.extend(canonical_field(fields.remove(at)));
            input.extend(b"\r\n");
        }
    }
    let (unsigned, _) = signature.1.split_once("; b=").unwrap();
    input.extend(canonical_field((signature.0, &format!("{unsigned}; b="))));
    let bytes = STANDARD.decode(tag("b")).unwrap();
    if tag("a") == "rsa-sha256" {
        let pair = RsaKeyPair::from_pkcs8(&der(pem)).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public());
        public.verify(&input, &bytes).is_ok()
    } else {
        assert_eq!(tag("a"), "ed25519-sha256");
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der(pem)).unwrap();
        let public = UnparsedPublicKey::new(&ED25519, pair.public_key().as_ref());
        public.verify(&Sha256::digest(input), &bytes).is_ok()
    }
}

/// A mail with everything in it that can be signed.
fn signed(pem: &str) -> String {
    let mut letterhead = letterhead();
    letterhead.signer = Some(Signer::new("example.com", "mail2031", pem).unwrap());
    letterhead.reply_to = Some("Leitstelle Süd <desk@example.com>".parse().unwrap());
    letterhead.unsubscribe = Some("https://example.com/u?list=ops".parse().unwrap());
    let mut message = message();
    message.subject = "Störung Pumpwerk Süd – ".repeat(8);
    message.body = " two  blanks,\ttab \n\n  and lines at the end\n\n\n".to_owned();
    message.data = Some(r#"{"email": {"html": "<p>a  b</p>\n\n"}}"#.to_owned());
    String::from_utf8(mail_on(&letterhead, &message).bytes).unwrap()
}

#[test]
fn a_signature_holds_until_something_signed_changes() {
    for pem in [RSA, ED25519_KEY] {
        let mail = signed(pem);
        assert!(verifies(&mail, pem), "{mail}");
        assert!(verifies(&mail.replace("To: undis", "To:  undis"), pem), "relaxed");
        for (from, to) in [
            ("desk@", "spy@"),
            ("<p>", "<q>"),
            ("u?list=ops", "u?list=x"),
            ("One-Click", "Two-Click"),
            ("\r\nDate: ", "\r\nSubject: another\r\nDate: "),
            ("\r\nDate: ", "\r\nFrom: spy@example.net\r\nDate: "),
        ] {
            let changed = mail.replacen(from, to, 1);
            assert!(changed != mail && !verifies(&changed, pem), "{from}");
        }
    }
    assert!(verifies(&signed(&rsa_pkcs1()), RSA));
}

#[test]
fn a_signature_is_the_same_on_every_attempt() {
    for pem in [RSA, ED25519_KEY] {
        let mail = signed(pem);
        assert_eq!(mail, signed(pem));
        assert!(mail.contains(" s=mail2031; h=from:to:subject:"), "{mail}");
    }
}

#[test]
fn a_key_that_cannot_sign_is_refused_with_the_reason() {
    let rsa_cut = RSA.lines().take(5).chain(["-----END PRIVATE KEY-----"]).collect::<Vec<_>>().join("\n");
    for (pem, error) in [
        ("", KeyError::NotPem),
        (&RSA[..200], KeyError::NotPem),
        ("-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----", KeyError::NotPem),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", KeyError::NotPem),
        (
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
            KeyError::Encrypted,
        ),
        (include_str!("keys/rsa-1024.pem"), KeyError::Size),
        (include_str!("keys/p256.pem"), KeyError::Unusable),
        (&rsa_cut, KeyError::Unusable),
    ] {
        assert_eq!(Signer::new("example.com", "a", pem).unwrap_err(), error, "{pem}");
    }
    for domain in
        ["", "bücher.example", "a..b", "example.com; x=y", "a\r\nb", &format!("{}b", "a.".repeat(100))]
    {
        assert_eq!(Signer::new(domain, "a", ED25519_KEY).unwrap_err(), KeyError::Domain, "{domain}");
        assert_eq!(Signer::new("a.b", domain, ED25519_KEY).unwrap_err(), KeyError::Selector, "{domain}");
    }
}

#[test]
fn a_signer_shows_no_key_and_knows_whom_it_speaks_for() {
    let signer = Signer::new("Example.com", "mail", ED25519_KEY).unwrap();
    let shown = "Signer { domain: \"example.com\", selector: \"mail\", algorithm: \"ed25519-sha256\", .. }";
    assert_eq!(format!("{signer:?}"), shown);
    let from = |text: &str| text.parse::<angarium_channels::email::mailbox::Mailbox>().unwrap().address;
    for address in ["a@example.com", "a@mail.example.com"] {
        assert!(signer.covers(&from(address)), "{address}");
    }
    for address in ["a@example.net", "a@badexample.com", "a@com", "example.com@example.net"] {
        assert!(!signer.covers(&from(address)), "{address}");
    }
}
