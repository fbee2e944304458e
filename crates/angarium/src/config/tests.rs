//! The configuration as operators meet it: what they write, and what they are told.

use std::io;
use std::path::Path;
use std::time::Duration;

use angarium_domain::channel::{ChannelKind, OnAmbiguous, OnSuspended};
use angarium_domain::retry::RetryPolicy;
use angarium_store::PostgresUrl;

use super::*;

mod database;
mod mail;
mod routes;

fn parse_as(text: &str, readable_by_others: bool) -> Result<Loaded, Vec<Problem>> {
    let env = |name: &str| match name {
        "SECRET" => Some(SECRET.to_owned()),
        "SMTP_PASSWORD" => Some("pa#s/s".to_owned()),
        "DATABASE_URL" => Some(DATABASE_URL.to_owned()),
        _ => None,
    };
    let read = |path: &Path| match path.to_str() {
        Some("/etc/angarium/hook.secret") => Ok(format!("{SECRET}\n")),
        Some("/etc/angarium/ca.pem") => Ok(AUTHORITY.to_owned()),
        Some("/etc/angarium/empty.pem") => Ok("no certificate".to_owned()),
        Some("/etc/angarium/odd.pem") => Ok(AUTHORITY.replace("MIIB", "MIIC")),
        _ => Err(io::Error::from(io::ErrorKind::NotFound)),
    };
    let source = Source {
        name: "angarium.toml",
        folder: Path::new("/etc/angarium"),
        readable_by_others,
        env: &env,
        read: &read,
    };
    Config::parse(text, &source)
}

const DATABASE_URL: &str = "postgres://ang:pa%23s@db.example.com/notes";

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The self-signed certificate of nobody, valid until 2126.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBiTCCAS+gAwIBAgIULH/Kt72ZKjvGW4Mtpw3SiKBOgAIwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwOVGVzdCBhdXRob3JpdHkwIBcNMjYxMTMwMTcyMTMxWhgPMjEy
NjExMDYxNzIxMzFaMBkxFzAVBgNVBAMMDlRlc3QgYXV0aG9yaXR5MFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEmX/VR2E5yPQKa9ii2upckdhzvC37iYf1n/VqzIeE
CnpQ1shruJINTjV9Y+hLCm/LwKhEikcxxl7U3fSVhA8NZKNTMFEwHQYDVR0OBBYE
FE1EQLXFKrPWbPPLZ7JTe8dvrUhaMB8GA1UdIwQYMBaAFE1EQLXFKrPWbPPLZ7JT
e8dvrUhaMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhALwELWlK
ajtZFUQWUDMrRioWzR5DvlDeOYkBGEiOq7apAiBjc7orihOpWuxkEGbVUBhJU1B2
nUiszk4PnvkVo3ogxg==
-----END CERTIFICATE-----
";

fn parse(text: &str) -> Result<Loaded, Vec<Problem>> {
    parse_as(text, false)
}

fn config(text: &str) -> Config {
    match parse(text) {
        Ok(loaded) => loaded.config,
        Err(problems) => panic!("{}", shown(&problems).join("\n")),
    }
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Each text must have exactly one problem, at the given line, with the given words in it.
fn each_has_one_problem(table: &[(&str, usize, &str)]) {
    for (text, line, needle) in table {
        let problems = parse(text).expect_err(text);
        let all = shown(&problems).join("\n");
        assert_eq!(problems.len(), 1, "{text}\n{all}");
        assert!(all.starts_with(&format!("angarium.toml:{line}:")), "{text}\n{all}");
        assert!(all.contains(needle), "{text}\n{all}");
    }
}

fn channel<'c>(config: &'c Config, name: &str) -> &'c Channel {
    &config.channels[&ChannelName::parse(name).unwrap()]
}

#[test]
fn nothing_said_means_the_defaults() {
    let config = config("");
    assert_eq!(config.server.database, Database::Sqlite("/etc/angarium/angarium.db".into()));
    let default = Config::default();
    let (folder, database) = (PathBuf::new(), Database::Sqlite("angarium.db".into()));
    let server = Server { database, folder, ..config.server.clone() };
    assert_eq!(Config { server, ..config }, default);
    assert_eq!(default.server.listen.to_string(), "127.0.0.1:7180");
    assert_eq!(default.outbox.max_parallel_deliveries, 256);
    assert_eq!(default.outbox.retention, Duration::from_secs(365 * 86_400));
}

const COMPLETE: &str = r#"
[server]
listen = "[::1]:0"
database = "sqlite:data/outbox.db"
node = "central-1"
shutdown_grace = "5s"
header_timeout = "2s"
body_timeout = "3s"

[outbox]
dispatch_interval = "250ms"
max_parallel_deliveries = 1
lease = "2m"
stuck_after = "1h"
retention = "30d"
poll_only = true
ledger_retention = "90d"

[limits]
subject_chars = 100
body_bytes = "64KiB"
request_bytes = 131072
batch_bytes = "1MiB"
batch_items = 10
json_depth = 16

[channels.hooks]
kind = "webhook"
enabled = false
topology = "destination"
format = "angarium"
secret = ["${env:SECRET}", "${file:hook.secret}"]
retry = { policy = "exponential", backoff = "1s", base = 2, cap = "10s", max_retries = 3, jitter = 0.5 }
max_parallel = 4
timeout = "5s"
on_ambiguous = "park"
on_suspended = "fail"

[lists.ops]
channel = "hooks"
members = ["HTTPS://Example.com/a", { address = "https://example.com/b", name = "B" }]

[security]
allow_private_addresses = ["10.0.0.0/8", "192.168.1.7"]
allow_plain_http = true
ca_file = "ca.pem"
"#;

/// OB-23: the settings of the outbox come from the file.
#[test]
fn everything_can_be_said() {
    let config = config(COMPLETE);
    assert_eq!(config.server.listen.to_string(), "[::1]:0");
    assert_eq!(config.server.database, Database::Sqlite("/etc/angarium/data/outbox.db".into()));
    assert_eq!(config.server.node.as_deref(), Some("central-1"));
    let outbox = Outbox {
        dispatch_interval: Duration::from_millis(250),
        max_parallel_deliveries: 1,
        lease: Duration::from_secs(120),
        stuck_after: Duration::from_secs(3600),
        retention: Duration::from_secs(30 * 86_400),
        ledger_retention: Duration::from_secs(90 * 86_400),
        poll_only: true,
    };
    assert_eq!(config.server.admin_key_file(), Path::new("/etc/angarium/data/outbox.db.admin-key"));
    assert_eq!(config.outbox, outbox);
    assert_eq!((config.limits.body_bytes, config.limits.json_depth), (65_536, 16));

    let hooks = channel(&config, "hooks");
    assert_eq!(hooks.topology, Some(Topology::Destination));
    let settings = &hooks.settings;
    assert!(!settings.enabled);
    assert_eq!((settings.max_parallel, settings.max_parallel_per_receiver), (4, 4));
    assert_eq!((settings.on_ambiguous, settings.on_suspended), (OnAmbiguous::Park, OnSuspended::Fail));
    let Transport::Webhook(webhook) = &hooks.transport else { panic!("a webhook") };
    let secret = Secret::new(SECRET.to_owned());
    assert_eq!(webhook.secrets, [secret.clone(), secret]);

    let list = config.lists.values().next().unwrap();
    let members: Vec<_> = list.members.iter().map(|m| (m.address.as_str(), m.name.as_deref())).collect();
    assert_eq!(members, [("https://example.com/a", None), ("https://example.com/b", Some("B"))]);
    assert_eq!(config.security.allow_private_addresses.len(), 2);
    assert_eq!(config.security.ca_file.as_deref(), Some(Path::new("/etc/angarium/ca.pem")));
}

/// Every kind's keys are known; kinds without an adapter are warned of.
#[test]
fn every_kind_of_channel_can_be_written() {
    let text = r#"
[channels.mail]
kind = "email"
url = "smtps://user:${env:SMTP_PASSWORD}@mail.example.com"
from = "Alerts <alerts@example.com>"
final_timeout = "5m"
greylist_wait = "1m"
[channels.mail2]
kind = "email"
url = "smtp://localhost?starttls=never"
from = "a@example.com"
username = "noc"
password = "${env:SMTP_PASSWORD}"
[channels.sms]
kind = "sms"
provider = "twilio"
account_sid = "AC1"
auth_token = "x"
from = "+15005550001"
base_url = "https://api.twilio.com"
max_segments = 10
on_ambiguous = "lookup"
[channels.push]
kind = "ntfy"
url = "https://ntfy.example.com"
token = "x"
topology = "personal"
[channels.slack]
kind = "slack"
token = "x"
base_url = "https://slack.com/api"
[channels.teams]
kind = "teams"
url = "https://example.com/flow"
[channels.inbox]
kind = "in_app"
"#;
    let loaded = parse(text).unwrap();
    assert_eq!(loaded.warnings.len(), 5, "{:?}", shown(&loaded.warnings));
    assert!(loaded.warnings.iter().all(|warning| warning.message.contains("no adapter")));
    for kind in ChannelKind::ALL.into_iter().filter(|kind| *kind != ChannelKind::Webhook) {
        assert!(loaded.config.channels.values().any(|channel| channel.settings.kind == kind), "{kind}");
    }
    for name in ["mail", "mail2"] {
        let Transport::Email(email) = &channel(&loaded.config, name).transport else { panic!("{name}") };
        let Some(Login { proof: Proof::Password(password), .. }) = &email.login else { panic!("{name}") };
        assert_eq!(password.expose(), "pa#s/s", "C201: {name}");
    }
}

fn retry_of(kind: &str, retry: &str) -> RetryPolicy {
    let needs = match kind {
        "slack" => "token = \"x\"",
        "email" => "url = \"smtp://h\"\nfrom = \"a@b\"",
        _ => "",
    };
    let config = config(&format!("[channels.c]\nkind = \"{kind}\"\n{needs}\n{retry}"));
    channel(&config, "c").settings.retry
}

/// OB-13, WH-04: how retries are written, and what is meant by what is left out.
#[test]
fn retry_policies() {
    let seconds = Duration::from_secs;
    let exponential = |backoff, jitter| RetryPolicy::Exponential {
        backoff: seconds(backoff),
        base: 4.0,
        cap: seconds(52_000),
        max_retries: 7,
        jitter,
    };
    let table = [
        ("webhook", "", RetryPolicy::webhook_default()),
        ("email", "", RetryPolicy::fixed(seconds(60), 10)),
        ("slack", "", RetryPolicy::None),
        ("webhook", "retry = { policy = \"none\" }", RetryPolicy::None),
        ("webhook", "retry = { policy = \"fixed\" }", RetryPolicy::fixed(seconds(60), 10)),
        ("slack", "retry = { policy = \"fixed\", max_retries = 0 }", RetryPolicy::fixed(seconds(60), 0)),
        ("email", "retry = { interval = \"5m\" }", RetryPolicy::fixed(seconds(300), 10)),
        ("slack", "retry = { policy = \"exponential\" }", RetryPolicy::webhook_default()),
        ("webhook", "retry = { backoff = true }", exponential(1, 0.0)),
        ("webhook", "retry = { backoff = \"2s\", jitter = true }", exponential(2, 0.25)),
        ("webhook", "retry = { jitter = false }", exponential(25, 0.0)),
        ("webhook", "retry = { jitter = 1 }", exponential(25, 1.0)),
        ("webhook", "retry = { backoff = false }", RetryPolicy::fixed(seconds(180), 7)),
        (
            "webhook",
            "retry = { backoff = false, interval = \"1s\", max_retries = 2 }",
            RetryPolicy::fixed(seconds(1), 2),
        ),
    ];
    for (kind, retry, expected) in table {
        assert_eq!(retry_of(kind, retry), expected, "{kind} {retry}");
    }
}

/// WH-04: what has no effect is refused rather than ignored.
#[test]
fn retry_problems() {
    let table = [
        ("{ policy = \"linear\" }", "is none of none, fixed, exponential"),
        ("{ policy = \"fixde\" }", "did you mean \"fixed\"?"),
        ("{ policy = \"fixed\", base = 4 }", "retry.base` has no effect"),
        ("{ policy = \"none\", max_retries = 4 }", "retry.max_retries` has no effect"),
        ("{ backoff = false, cap = \"1s\" }", "retry.cap` has no effect"),
        ("{ backoff = true, interval = \"1s\" }", "retry.interval` has no effect"),
        ("{ backoff = 25 }", "needs a unit"),
        ("{ base = 0.5 }", "between 1 and 1000"),
        ("{ base = nan }", "between 1 and 1000"),
        ("{ jitter = 1.5 }", "between 0 and 1"),
        ("{ jitter = \"some\" }", "must be a number, not a string"),
        ("{ max_retries = -1 }", "between 0 and 1000"),
        ("{ max_retries = 7.0 }", "must be a whole number, not a float"),
        ("{ retries = 7 }", "unknown key `retries`"),
        ("\"fixed\"", "must be a table, not a string"),
    ];
    for (retry, needle) in table {
        let text = format!("[channels.c]\nkind = \"webhook\"\nretry = {retry}");
        each_has_one_problem(&[(&text, 3, needle)]);
    }
}

#[test]
fn problems_of_each_setting() {
    each_has_one_problem(&[
        ("[server]\nlisten = \"localhost:7180\"", 2, "is not an address and port"),
        ("[server]\nlisten = 7180", 2, "must be a string, not an integer"),
        ("[server]\ndatabase = \"angarium.db\"", 2, "must be \"sqlite:PATH\" or \"postgres://"),
        ("[server]\ndatabase = \"sqlite::memory:\"", 2, "must be a file"),
        ("[server]\ndatabase = \"sqlite:\"", 2, "names no file"),
        ("[server]\nnode = \"\"", 2, "1 to 64 visible ASCII characters"),
        ("[server]\nnode = \"central 1\"", 2, "no white space"),
        ("[server]\nbody_timeout = \"30\"", 2, "needs a unit"),
        ("[outbox]\nlease = 60", 2, "needs a unit"),
        ("[outbox]\nstuck_after = \"0s\"", 2, "must be more than nothing"),
        ("[outbox]\nretention = true", 2, "is not a duration"),
        ("[outbox]\nmax_parallel_deliveries = 0", 2, "between 1 and 65536"),
        ("[outbox]\nledger_retention = \"23h\"", 2, "must be at least 24h"),
        ("[outbox]\npoll_only = 1", 2, "must be true or false"),
        ("[outbox]\npurge_at = \"03:00\"", 2, "not supported by this build"),
        ("[outbox]\nleese = \"60s\"", 2, "unknown key `leese` in `outbox`; did you mean `lease`?"),
        ("[limits]\nbody_bytes = \"10GB\"", 2, "is not a size"),
        ("[limits]\njson_depth = 1000", 2, "between 1 and 126"),
        ("[limits]\nbody_bytes = \"2MiB\"", 1, "body_bytes ≤ request_bytes"),
        (
            "[security]\nallow_private_addresses = [\"10.0.0.0/8\", \"ten\"]",
            2,
            "allow_private_addresses[1]` is not",
        ),
        ("[security]\nallow_plain_http = \"yes\"", 2, "must be true or false"),
        ("[security]\nca_file = \"gone.pem\"", 2, "cannot be read"),
        ("[security]\nca_file = \"empty.pem\"", 2, "no certificate found"),
        ("[security]\nca_file = \"odd.pem\"", 2, "is not a certificate authority's certificate"),
        ("server = 1", 1, "`server` must be a table"),
        ("\n[chanels.x]", 2, "unknown key `chanels` in the file; did you mean `channels`?"),
    ]);
}

#[test]
fn problems_of_channels_and_lists() {
    let hook = "[channels.h]\nkind = \"webhook\"\n";
    let list = |rest: &str| format!("{hook}[lists.l]\n{rest}");
    each_has_one_problem(&[
        ("[channels.c]", 1, "`channels.c` lacks the key `kind`"),
        ("[channels.c]\nkind = \"webhok\"", 2, "did you mean \"webhook\"?"),
        ("[channels.\"a b\"]\nkind = \"webhook\"", 1, "letters, digits"),
        (&format!("{hook}retyr = 1"), 3, "did you mean `retry`?"),
        (&format!("{hook}format = \"cloudevents-binary\""), 3, "does not support"),
        (&format!("{hook}rate = \"1/s\""), 3, "`channels.h.rate` is not supported"),
        (&format!("{hook}secret = []"), 3, "1 to 10 secrets"),
        (&format!("{hook}secret = \"whsec_c2hvcnQ=\""), 3, "24 to 64 are needed"),
        (&format!("{hook}secret = \"{}\"", SECRET.replace("whsec_", "whsk_")), 3, "asymmetric"),
        (&format!("{hook}secret = \"${{env:NONE}}\""), 3, "variable NONE, which is not set"),
        (&format!("{hook}on_ambiguous = \"lookup\""), 3, "nobody to ask"),
        (&format!("{hook}max_parallel = 0"), 3, "between 1 and"),
        (&format!("{hook}url = \"https://h\""), 3, "unknown key `url`"),
        ("[channels.s]\nkind = \"slack\"", 1, "lacks the key `token`"),
        ("[channels.s]\nkind = \"slack\"\ntoken = \"x\"\ntopology = \"personal\"", 4, "cannot be chosen"),
        ("[channels.n]\nkind = \"ntfy\"\nurl = \"https://u:p@h\"", 3, "user name or password"),
        (
            "[channels.m]\nkind = \"email\"\nurl = \"smtp://h\"\nfrom = \"a@b\"\nusername = \"u\"",
            1,
            "or none of them",
        ),
        (
            "[channels.m]\nkind = \"email\"\nurl = \"smtp://h\"\n[lists.l]\nchannel = \"m\"\nmembers = [\"a@b\"]",
            1,
            "lacks the key `from`",
        ),
        ("[lists.l]\nchannel = \"none\"\nmembers = [\"https://h\"]", 2, "does not stand in this file"),
        (&list("channel = \"h\"\nmembers = []"), 5, "must not be empty"),
        (&list("channel = \"h\""), 3, "lacks the key `members`"),
        (
            &list("channel = \"h\"\nmembers = [\"https://h\",\n 7]"),
            6,
            "`lists.l.members[1]` must be a string",
        ),
        (&list("channel = \"h\"\nmembers = [\"a@example.com\"]"), 5, "is not a URL"),
        (&list("channel = \"h\"\nmembers = [{ name = \"A\" }]"), 5, "lacks the key `address`"),
        (
            &list("channel = \"h\"\nmembers = [{ address = \"https://h\", nam = \"A\" }]"),
            5,
            "did you mean `name`?",
        ),
    ]);
}

/// All that is wrong with a file is told at once, in its order, each with its line and column.
#[test]
fn ten_problems_at_once() {
    let text = r#"[server]
listen = "everywhere"
databse = "sqlite:x"
[outbox]
lease = 60
lease = "60s"
max_parallel_deliveries = 0
[channels.hooks]
kind = "webhook"
retry = { policy = "exponential", backoff = "25", bse = 4 }
secret = "${env:MISSING}"
[channels.mail]
kind = "email"
url = "smtps://noc:pa#s/s@mail.example.com"
from = "a@example.com"
[lists.ops]
channel = "nowhere"
members = []
"#;
    let problems = parse(text).unwrap_err();
    let places: Vec<_> = problems.iter().filter_map(|problem| problem.position).collect();
    let lines: Vec<_> = places.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 5, 6, 7, 10, 10, 11, 14, 17, 18], "{}", shown(&problems).join("\n"));
    assert_eq!(places.first(), Some(&(2, 10)));
    assert!(problems[3].message.contains("duplicate key"));
    assert!(!shown(&problems).join("\n").contains("pa#s"), "C201: the password is not shown");
}

/// C202: a duplicate table and a misspelt key are refused with line and key.
#[test]
fn c202_broken_files_are_refused() {
    each_has_one_problem(&[
        ("[channels.a]\nkind = \"webhook\"\n[channels.a]", 3, "duplicate key"),
        ("[channels.a]\nkind = \"webhook\"\nretyr = { policy = \"none\" }", 3, "unknown key `retyr`"),
        ("[outbox]\nlease = ", 2, ""),
        ("[outbox\nlease = \"60s\"", 1, ""),
    ]);
}

/// C126: a lease that does not outlast a delivery is refused, naming both.
#[test]
fn c126_lease_shorter_than_a_timeout() {
    let hook = |timeout: &str, enabled: bool| {
        format!("[channels.h]\nkind = \"webhook\"\nenabled = {enabled}\ntimeout = \"{timeout}\"\n")
    };
    let short = format!("[outbox]\nlease = \"10s\"\n{}", hook("30s", true));
    each_has_one_problem(&[
        (&short, 2, "`outbox.lease` (10s) must be at least 5s longer than `channels.h.timeout` (30s)"),
        (&hook("56s", true), 4, "`outbox.lease` (1m)"),
        ("[outbox]\nlease = \"20s\"\n[channels.h]\nkind = \"webhook\"", 2, "timeout` (20s)"),
    ]);
    assert!(parse(&hook("55s", true)).is_ok());
    assert!(parse(&hook("56s", false)).is_ok(), "a disabled channel delivers nothing");
}

#[test]
fn what_is_odd_is_a_warning() {
    let twice = "[channels.h]\nkind = \"webhook\"\n[lists.l]\nchannel = \"h\"\nmembers = [\"https://h/\", \"https://H\"]";
    let loaded = parse(twice).unwrap();
    assert!(loaded.warnings[0].message.contains("sent to once"));
    assert_eq!(loaded.config.lists.values().next().unwrap().members.len(), 1);

    let open = parse("[server]\nlisten = \"0.0.0.0:80\"").unwrap();
    assert!(open.warnings[0].message.contains("in the clear"));
}

/// A member that no delivery could reach is told of before the first one is parked.
#[test]
fn a_member_that_the_guard_refuses_is_a_warning() {
    let warnings = |member: &str, security: &str| {
        let list = format!("[lists.l]\nchannel = \"h\"\nmembers = [\n{member}]\n");
        let text = format!("[channels.h]\nkind = \"webhook\"\n{list}[security]\n{security}");
        shown(&parse(&text).unwrap().warnings)
    };
    for member in ["\"http://127.0.0.1:8080/\"", "{ address = \"https://10.0.0.7/\" }"] {
        let told = warnings(member, "");
        assert!(told[0].starts_with("angarium.toml:6:") && told[0].contains("not public"), "{told:?}");
        assert_eq!(told.len(), 1, "{told:?}");
        let allowed = "allow_private_addresses = [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
        assert!(warnings(member, allowed).is_empty(), "{member}");
    }
    assert!(warnings("\"http://192.88.98.1/\"", "")[0].contains("plain http"));
    assert!(warnings("\"http://192.88.98.1/\"", "allow_plain_http = true").is_empty());
    assert!(warnings("\"http://example.com/\"", "").is_empty(), "names are not resolved");
}

/// A secret may stand without the padding of its base64.
#[test]
fn a_secret_needs_no_padding() {
    let hook = |secret: &str| format!("[channels.h]\nkind = \"webhook\"\nsecret = \"{secret}\"");
    assert!(parse(&hook("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")).is_ok());
}

/// A secret that stands in a file others can read is told of; one that is referred to is not.
#[test]
fn literal_secrets_in_an_open_file() {
    let hook = |secret: &str| format!("[channels.h]\nkind = \"webhook\"\nsecret = \"{secret}\"");
    let mail = |url: &str| {
        format!("[channels.m]\nkind = \"email\"\nenabled = false\nurl = \"{url}\"\nfrom = \"a@b\"")
    };
    let warnings = |text: &str, open| parse_as(text, open).unwrap().warnings.len();
    assert_eq!(warnings(&hook(SECRET), true), 1);
    assert_eq!(warnings(&hook(SECRET), false), 0);
    assert_eq!(warnings(&hook("${env:SECRET}"), true), 0);
    assert_eq!(warnings(&mail("smtps://u:p@h"), true), 1);
    assert_eq!(warnings(&mail("smtps://u:${env:SMTP_PASSWORD}@h"), true), 0);
    assert_eq!(warnings(&mail("smtps://h"), true), 0);
    let shown = format!("{:?}", parse(&hook(SECRET)).unwrap());
    assert!(!shown.contains(SECRET));
}

/// C200: whether a receiver can be reached is nothing the configuration asks.
#[test]
fn c200_a_relay_that_is_down_is_no_fault_of_the_file() {
    let text = "[channels.m]\nkind = \"email\"\nurl = \"smtp://127.0.0.1:1\"\nfrom = \"a@b\"\n[channels.h]\nkind = \"webhook\"\n[lists.l]\nchannel = \"h\"\nmembers = [\"https://no-such-host.invalid/\"]";
    assert!(parse(text).is_ok());
}

#[test]
fn a_named_file_must_be_there() {
    let problems = Config::load(Some(Path::new("/nonexistent/angarium.toml"))).unwrap_err();
    assert!(problems[0].to_string().starts_with("/nonexistent/angarium.toml: cannot be read"));
}

#[test]
fn a_file_that_is_not_utf8_is_reported_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    std::fs::write(&path, b"[server]\n# \xC3\xBC \xFF\n").unwrap();
    let problems = Config::load(Some(&path)).unwrap_err();
    assert_eq!(shown(&problems), [format!("{}:2:5: the file is not UTF-8", path.display())]);
}
