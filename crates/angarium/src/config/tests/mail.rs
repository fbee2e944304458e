//! What operators write about e-mail, and what they are told.

use angarium_channels::email::Mechanism;

use super::*;

/// A key made for this test.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIN9VaQyRk6nCl9IAEg1bCVZf8NJFO3SSztcMtOSx+v1r\n-----END PRIVATE KEY-----\n";

fn mail(rest: &str) -> String {
    format!("[channels.m]\nkind = \"email\"\nurl = \"smtp://h\"\nfrom = \"a@b.example\"\n{rest}")
}

fn email(rest: &str) -> Email {
    let config = config(&mail(rest));
    match &channel(&config, "m").transport {
        Transport::Email(email) => (**email).clone(),
        other => panic!("{other:?}"),
    }
}

const OAUTH: &str = "oauth = { url = \"https://login.example/token\", client_id = \"c\", client_secret = \"${env:SECRET}\" }\n";

#[test]
fn what_a_mail_channel_may_say() {
    let plain = email("");
    assert_eq!(plain.return_path.as_ref().map(|path| path.as_str()), Some("a@b.example"));
    assert_eq!((plain.id_domain.as_str(), plain.login), ("b.example", None));
    let said = email(
        "return_path = \"\"\nhello = \"NODE.example\"\nmessage_id_domain = \"ids.example\"\n         reply_to = \"Ops <ops@b.example>\"\nunsubscribe = \"https://b.example/leave\"",
    );
    assert_eq!((said.return_path, said.hello.as_deref()), (None, Some("node.example")));
    assert_eq!(said.id_domain, "ids.example");
    assert_eq!(said.reply_to.unwrap().name.as_deref(), Some("Ops"));

    let login = email(&format!("username = \"u\"\nauth = \"XOAUTH2\"\n{OAUTH}")).login.unwrap();
    assert_eq!(login.mechanism, Some(Mechanism::Xoauth2));
    let Proof::Token(oauth) = login.proof else { panic!("a token") };
    assert_eq!(oauth.client_secret.unwrap().expose(), SECRET);
    assert!(email("username = \"u\"\npassword = \"${env:SMTP_PASSWORD}\"").login.is_some());
}

/// Mails for one domain go through the relay like all others: the channel's own bound is theirs.
#[test]
fn mails_for_one_domain_may_use_the_whole_channel() {
    for (written, bounds) in [
        ("", (4, 4)),
        ("max_parallel = 16", (16, 16)),
        ("max_parallel = 16\nmax_parallel_per_receiver = 2", (16, 2)),
    ] {
        let config = config(&mail(written));
        let settings = &channel(&config, "m").settings;
        assert_eq!((settings.max_parallel, settings.max_parallel_per_receiver), bounds, "{written}");
    }
}

#[test]
fn problems_of_mail_channels() {
    let table: &[(&str, usize, &str)] = &[
        ("from = 7", 5, "duplicate key"),
        ("return_path = \"nobody\"", 5, "is not an e-mail address"),
        ("reply_to = \"a\\r\\nBcc: x@y\"", 5, "control character"),
        ("hello = \"a b\"", 5, "is not a name such as"),
        ("message_id_domain = \"a..b\"", 5, "has a label without characters"),
        ("unsubscribe = \"http://b.example/\"", 5, "must begin with https://"),
        ("username = \"a\\u0000\"\npassword = \"x\"", 5, "must be one line"),
        ("unsubscribe = \"https://u:p@b.example/\"", 5, "user name or password"),
        ("auth = \"cram-md5\"", 5, "is none of plain, login, xoauth2, oauthbearer"),
        ("auth = \"plain\"", 1, "has `auth` but no credentials"),
        (
            "username = \"u\"\npassword = \"${env:SMTP_PASSWORD}\"\nauth = \"xoauth2\"",
            1,
            "does not fit its credentials",
        ),
        ("password = \"${env:SMTP_PASSWORD}\"", 1, "or none of them"),
        (
            "username = \"u\"\n[channels.m.oauth]\nurl = \"https://h/\"\nclient_id = \"c\"",
            6,
            "needs `client_secret`",
        ),
        (
            "username = \"u\"\n[channels.m.oauth]\nurl = \"ftp://h/\"\nclient_id = \"c\"\nclient_secret = \"${env:SECRET}\"",
            7,
            "is not a URL",
        ),
        (
            "[channels.m.dkim]\ndomain = \"b.example\"\nselector = \"s\"\nkey = \"${env:SECRET}\"",
            8,
            "`channels.m.dkim.key` is not a private key",
        ),
        ("[channels.m.dkim]\ndomain = \"b.example\"\nselector = \"s\"", 5, "lacks the key `key`"),
        ("[lists.l]\nchannel = \"m\"\nmembers = [\"a@b.example\", \"<script>@b.example\"]", 7, "members[1]"),
    ];
    for (rest, line, needle) in table {
        each_has_one_problem(&[(&mail(rest), *line, needle)]);
    }
}

/// C083: a member with a name keeps its address, whatever the name holds.
#[test]
fn c083_members_with_names() {
    let list = "[lists.l]\nchannel = \"m\"\nmembers = [\"=?utf-8?q?Jansen=2C_Piet?= <piet@example.com>\", \"Ann <ANN@Example.com>\"]";
    let config = config(&mail(list));
    let members = &config.lists.values().next().unwrap().members;
    let shown: Vec<_> = members.iter().map(|m| (m.name.as_deref().unwrap(), m.address.as_str())).collect();
    assert_eq!(shown, [("Jansen, Piet", "piet@example.com"), ("Ann", "ANN@example.com")]);
}

/// A key is several lines, in a file of its own or in the environment.
#[test]
fn a_key_stands_in_its_own_file() {
    let read = |path: &Path| match path.to_str() {
        Some("/etc/angarium/dkim.pem") => Ok(KEY.to_owned()),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let env = |name: &str| (name == "KEY").then(|| KEY.to_owned());
    let folder = Path::new("/etc/angarium");
    let source = Source { name: "angarium.toml", folder, readable_by_others: true, env: &env, read: &read };
    for reference in ["${file:dkim.pem}", "${env:KEY}"] {
        let dkim = format!("dkim = {{ domain = \"b.example\", selector = \"s\", key = \"{reference}\" }}");
        let loaded = Config::parse(&mail(&dkim), &source).map_err(|problems| shown(&problems)).unwrap();
        assert!(loaded.warnings.is_empty(), "{:?}", shown(&loaded.warnings));
    }
}

/// A signature for another domain than the sender's is worth nothing; that is a warning.
#[test]
fn a_signature_is_for_the_senders_domain() {
    for (domain, warnings) in [("b.example", 0), ("example", 0), ("c.example", 1)] {
        let dkim =
            format!("[channels.m.dkim]\ndomain = \"{domain}\"\nselector = \"s\"\nkey = \"\"\"{KEY}\"\"\"");
        let loaded = parse(&mail(&dkim)).unwrap();
        assert_eq!(loaded.warnings.len(), warnings, "{domain}: {:?}", shown(&loaded.warnings));
    }
}
