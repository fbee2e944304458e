//! Feeds, templates and subscriptions in the file.

use super::*;

/// The channels, the list and the feed that the others lean on: thirteen lines.
const GROUND: &str = r#"[channels.hooks]
kind = "webhook"
[channels.mail]
kind = "email"
url = "smtp://h"
from = "a@example.com"
[lists.ops]
channel = "mail"
members = ["a@example.com"]
[feeds."beneco.power-outages"]
event_types = ["NewOutage", "Restoration"]
fields.feeder = { match = "exact", alias = "feeders" }
fields.area = { match = "substring" }
"#;

/// The page that describes the product shows these.
const DESCRIBED: &str = r#"
[channels.hooks]
kind = "webhook"

[feeds."beneco.power-outages"]
name = "BENECO power outages"
event_types = ["NewOutage", "Restoration", "RestoredAnnouncement"]
user_subscriptions = true
fields.feeder = { match = "exact", alias = "feeders" }
fields.area = { match = "substring", alias = "locationKeywords" }      # exact | word | substring

[channels.orders]
kind = "webhook"
topology = "destination"

[[templates]]
event_type = "NewOutage"
channel = "hooks"
locale = "en-US"
subject = "Outage on {{ fields.feeder }}"
body = "{{ fields.area }} since {{ event.time }}"

[[subscriptions]]
name = "All power outages"
feed = "beneco.power-outages"
target = { channel = "hooks", address = "https://example.com/outages" }
"#;

fn grounded(text: &str) -> String {
    format!("{GROUND}{text}")
}

fn template(rest: &str) -> String {
    grounded(&format!(
        "[[templates]]\nevent_type = \"NewOutage\"\nchannel = \"hooks\"\nlocale = \"en-US\"\n{rest}"
    ))
}

fn subscription(rest: &str) -> String {
    let target = "target = { channel = \"hooks\", address = \"https://example.com/\" }";
    grounded(&format!("[[subscriptions]]\nname = \"S\"\nfeed = \"beneco.power-outages\"\n{target}\n{rest}"))
}

fn warnings(text: &str) -> Vec<String> {
    match parse(text) {
        Ok(loaded) => shown(&loaded.warnings),
        Err(problems) => panic!("{}", shown(&problems).join("\n")),
    }
}

/// FP-01, FP-03: feeds, templates and subscriptions stand in the file, each under its stable name.
#[test]
fn what_is_described_can_be_written() {
    let loaded = parse(DESCRIBED).unwrap();
    let config = loaded.config;
    let feed = config.feeds.values().next().unwrap();
    assert_eq!((feed.id.as_str(), feed.name.as_str()), ("beneco.power-outages", "BENECO power outages"));
    assert_eq!((feed.event_types.len(), feed.fields.len(), feed.user_subscriptions), (3, 2, true));
    assert_eq!(config.templates.keys().collect::<Vec<_>>(), ["NewOutage/hooks/en-US"]);
    let keys: Vec<&str> = config.subscriptions.keys().map(SubscriptionId::as_str).collect();
    assert_eq!(keys, ["all-power-outages"]);
    let told = shown(&loaded.warnings);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("no template in en-US for Restoration, RestoredAnnouncement"), "{told:?}");
}

/// FP-01: the two feeds of outages that are shipped are an entry in the file, with a template for each of their types.
#[test]
fn the_shipped_example_is_one_that_works() {
    let loaded = parse(include_str!("../../../../../examples/outages.toml")).unwrap();
    assert_eq!(shown(&loaded.warnings), [""; 0]);
    let ids: Vec<&str> = loaded.config.feeds.keys().map(|id| id.as_str()).collect();
    assert_eq!(ids, ["beneco.power-outages", "beneco.scheduled-outages"]);
}

/// FP-03: a subscription's key is its own, or its name's.
#[test]
fn a_subscription_has_a_stable_key() {
    let keys = |text: &str| -> Vec<String> {
        config(&subscription(text)).subscriptions.keys().map(ToString::to_string).collect()
    };
    assert_eq!(keys(""), ["s"]);
    assert_eq!(keys("key = \"Feeder_14\""), ["Feeder_14"]);
    let another = |name: &str, key: &str| {
        format!(
            "[[subscriptions]]\nname = \"{name}\"\n{key}\nfeed = \"beneco.power-outages\"\ntarget.list = \"ops\""
        )
    };
    assert_eq!(keys(&another(" Ops -- (Nacht) ".trim(), "")), ["ops-nacht", "s"]);
    each_has_one_problem(&[
        (&subscription(&another("S!", "")), 19, "makes the key s, which one before it has"),
        (&subscription(&another("T", "key = \"s\"")), 20, "subscriptions[1].key` makes the key s"),
        (&subscription(&another("T", "key = \"a b\"")), 20, "letters, digits"),
        (&subscription(&another("T", "key = 7")), 20, "must be a string"),
        (&subscription(&another("停電", "")), 19, "no letter from a to z and no digit"),
    ]);
}

/// FP-01: whatever is wrong with a feed is told at the line of the member.
#[test]
fn problems_of_feeds() {
    let feed = |rest: &str| format!("[feeds.f]\nevent_types = [\"A\", \"B\"]\n{rest}");
    each_has_one_problem(&[
        ("[feeds.\"a b\"]\nevent_types = [\"A\"]", 1, "letters, digits"),
        ("[feeds.f]\nname = \"F\"", 1, "`feeds.f.event_types` is required"),
        ("[feeds.f]\nevent_types = []", 2, "must not be empty"),
        (
            "[feeds.f]\nevent_types = [\n\"A\",\n\"a b\"]",
            4,
            "`feeds.f.event_types[1]` must not contain white",
        ),
        ("feeds.f = 7", 1, "must be a table"),
        (&feed("user_subscriptions = \"yes\""), 3, "`feeds.f.user_subscriptions` must be true or false"),
        (&feed("nam = \"F\""), 3, "`feeds.f.nam` is not known here; did you mean name?"),
        (&feed("fields.x = { match = \"fuzzy\" }"), 3, "`feeds.f.fields.x.match` is none of"),
        (
            &feed("[feeds.f.fields.x]\nmatch = \"word\"\n[feeds.f.fields.\"y.z\"]\nalias = 7"),
            6,
            "must be a string",
        ),
        (&feed("[feeds.f.fields.x]\n[feeds.f.fields.y]\nalias = \"x\""), 5, "is the name of a field"),
        (&feed("[feeds.f.supersedes]\nB = [\n\"C\"]"), 4, "names C, which is none of the event types"),
        (&feed("ttl = 2026-01-01"), 3, "`feeds.f.ttl` is a date: write it as a string"),
        (&feed("ttl = \"0s\""), 3, "must be longer than zero"),
        (&feed("sources = [inf]"), 3, "`feeds.f.sources[0]` must be a finite number"),
    ]);
}

/// FP-12: a template that does not compile, or cannot be rendered on its sample, stops the start.
#[test]
fn problems_of_templates() {
    each_has_one_problem(&[
        (&template("subject = \"s\""), 14, "`templates[0].body` is required"),
        (&template("body = 7"), 18, "must be a string"),
        (
            &template("body = \"b\"\npriority = 0x9"),
            19,
            "`templates[0].priority` must be a whole number from 1 to 5",
        ),
        (&template("body = \"b\"\nbdy = \"c\""), 19, "did you mean body?"),
        (&template("body = \"b\"").replace("\"hooks\"", "\"pigeons\""), 16, "does not stand in this file"),
        (
            &template("body = \"b\"\nsubject = \"a {{ b\""),
            19,
            "`templates[0].subject` does not work (its line 1",
        ),
        (&template("body = \"b {{ c | upperr }}\""), 18, "upperr"),
        (&template("body = \"b\"\ntags = [\"x\",\n\"{{\"]"), 20, "`templates[0].tags[1]`"),
        (&template("body = \"{{ fields.feeder }}\"\nsample = { fields = { area = \"X\" } }"), 18, "feeder"),
        (
            &template("body = \"b\"\n[templates.sample]\nfields.x = [1]"),
            20,
            "`templates[0].sample.fields.x` must be",
        ),
        (&template("body = \"b\"\nsample = { fields = { x = 1979-05-27 } }"), 19, "is a date"),
        (&template("body = \"{{ 1 / 0 }}\""), 18, "does not work"),
        (
            &template(
                "body = \"{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}\"",
            ),
            18,
            "body",
        ),
        ("templates = 7", 1, "`templates` must be an array"),
        ("templates = [7]", 1, "`templates[0]` must be a table"),
    ]);
    let twice = template("body = \"b\"\n") + template("body = \"c\"").strip_prefix(GROUND).unwrap();
    each_has_one_problem(&[(&twice, 19, "same event type, channel and locale")]);
}

/// FP-12: a sample is an event; what it does not say, every event has.
#[test]
fn a_sample_may_be_short() {
    let sample = "sample = { fields = { feeder = 14 }, data = { since = 1.50 } }";
    let body = "body = \"{{ fields.feeder }} {{ data.since }} {{ event.key }} {{ event.feed }}\"\n";
    assert_eq!(warnings(&template(&format!("{body}{sample}"))), [""; 0]);
    let whole =
        "sample = { feed = \"other\", type = \"NewOutage\", key = \"4\", time = \"2026-07-07T00:00:00Z\" }";
    assert_eq!(warnings(&template(&format!("body = \"{{{{ event.time }}}}\"\n{whole}"))), [""; 0]);
}

/// FP-12: what cannot be known before an event comes in is told of and stops nothing.
#[test]
fn what_is_odd_about_a_template() {
    let one = |text: &str, line: usize, needle: &str| {
        let told = warnings(text);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&format!("angarium.toml:{line}:")), "{told:?}");
        assert!(told[0].contains(needle), "{told:?}");
    };
    assert_eq!(warnings(&template("body = \"{{ fields.feeder }} {{ event.type }}\"")), [""; 0]);
    one(&template("body = \"{{ fields.feder }}\""), 18, "feder");
    one(&template("body = \"{{ data.cause }}\""), 18, "cannot be tried out without a `sample`");
    one(
        &template("body = \"b\"").replace("\"NewOutage\"\nchannel", "\"Outage\"\nchannel"),
        15,
        "no feed in this file",
    );
    let announcement = "body = \"{{ data.body }}\"\nsubject = \"{{ data.subject }}\"";
    let announcement =
        template(announcement).replace("\"NewOutage\"\nchannel", "\"ManualAnnouncement\"\nchannel");
    assert_eq!(warnings(&announcement), [""; 0]);
}

/// FP-04: a subscription leads from a feed in the file to a channel or a list in the file, by a filter that makes sense.
#[test]
fn problems_of_subscriptions() {
    each_has_one_problem(&[
        (&subscription("cooldown = 30"), 18, "`subscriptions[0].cooldown` must be a string"),
        (&subscription("expires_at = 2026-07-07T00:00:00Z"), 18, "is a date"),
        (&subscription("nmae = \"T\""), 18, "did you mean name?"),
        (
            &subscription("filter.event_types = [\n\"Outage\"]"),
            19,
            "`subscriptions[0].filter.event_types[0]`",
        ),
        (&subscription("filter.fields.colour = [\"red\"]"), 18, "`subscriptions[0].filter.fields.colour`"),
        (
            &subscription("[subscriptions.filter.keywords]\narea = []"),
            19,
            "`subscriptions[0].filter.keywords.area`",
        ),
        (
            &subscription("").replace("beneco.power-outages\"\nt", "elsewhere\"\nt"),
            16,
            "does not stand in this file",
        ),
        (&subscription("").replace("\"hooks\", address", "\"pigeons\", address"), 17, "configured channel"),
        (&subscription("").replace("https://example.com/", "a@example.com"), 17, "is not a URL"),
        (&subscription("").replace("https://example.com/", "${env:NONE}"), 17, "NONE, which is not set"),
        (
            &grounded(
                "[[subscriptions]]\nname = \"S\"\nfeed = \"beneco.power-outages\"\ntarget.list = \"none\"",
            ),
            17,
            "names a list",
        ),
        ("[subscriptions.s]\nname = \"S\"", 1, "`subscriptions` must be an array"),
        ("[[bindings]]\nref = \"x\"", 1, "knows no bindings"),
    ]);
}

/// A fault in a feed, a list or a channel is told once, and not again wherever it is named.
#[test]
fn a_fault_is_told_once() {
    let broken = subscription("").replace("event_types = [\"NewOutage\", ", "event_types = [7, ");
    each_has_one_problem(&[(&broken, 11, "event_types[0]` must be a string")]);
    let broken =
        grounded("[[subscriptions]]\nname = \"S\"\nfeed = \"beneco.power-outages\"\ntarget.list = \"ops\"");
    each_has_one_problem(&[(&broken.replace("[\"a@example.com\"]", "[]"), 9, "must not be empty")]);
    let alone = "[[templates]]\nevent_type = \"A\"\nchannel = \"h\"\nlocale = \"en\"\nbody = \"b\"\n[channels.h]\nkind = \"webhook\"\n";
    each_has_one_problem(&[(&format!("{alone}[feeds.f]\nevent_types = [7]"), 9, "must be a string")]);
}

#[test]
fn what_is_odd_about_a_subscription() {
    let told = warnings(&subscription("filter.event_types = [\"NewOutage\"]"));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("angarium.toml:17:"), "{told:?}");
    assert!(told[0].contains("hooks, which has no template in en-US for NewOutage: "), "{told:?}");

    let german = template("body = \"b\"\n").replace("\"en-US\"", "\"de\"");
    let one = "[[subscriptions]]\nname = \"S\"\nfeed = \"beneco.power-outages\"\nfilter.event_types = [\"NewOutage\"]\n";
    let hook = "target = { channel = \"hooks\", address = \"https://10.0.0.1/\" }\n";
    let text = format!("{german}{one}{hook}");
    let told = warnings(&text);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|told| told.contains("target.address` is never sent to")), "{told:?}");
    let told = warnings(&format!("[server]\ndefault_locale = \"de\"\n{text}"));
    assert_eq!(told.len(), 1, "a template in the default language serves: {told:?}");
    let again = one.replace("\"S\"", "\"T\"");
    assert_eq!(warnings(&format!("{text}{again}{hook}")).len(), 3, "what lacks a template is told of once");
}

/// References stand for something else in subscriptions; in templates nothing is touched.
#[test]
fn references_in_objects() {
    let from_env =
        subscription("").replace("https://example.com/", "https://example.com/${env:SMTP_PASSWORD}");
    let config = config(&from_env);
    let subscription = config.subscriptions.values().next().unwrap();
    let angarium_domain::subscription::Target::Address { address, .. } = &subscription.target else {
        panic!()
    };
    assert!(!address.as_str().contains("env"), "{address:?}");
    let kept = super::config(&template("body = \"${env:SECRET} ${\""));
    assert_eq!(kept.templates.values().next().unwrap().body, "${env:SECRET} ${");
}

/// Numbers go to the domain digit by digit.
#[test]
fn numbers_keep_their_digits() {
    let body = "body = \"{{ data.a }}/{{ data.b }}/{{ data.c }}/{{ data.d }}\"\n";
    let sample = "sample = { data = { a = 12_345_678_901_234_567_890, b = 0xff, c = +1.10, d = -0.5e+07 } }";
    let config = config(&template(&format!("{body}{sample}")));
    let sample = config.templates.values().next().unwrap().sample.clone().unwrap();
    assert_eq!(sample, r#"{"data":{"a":12345678901234567890,"b":255,"c":1.10,"d":-0.5e+07}}"#);
}

/// How new a file is says the file, or else the time of its last change.
#[test]
fn a_file_says_how_new_it_is() {
    assert_eq!(config("[server]\nconfig_epoch = 7").server.config_epoch, Some(7));
    assert_eq!(config("").server.config_epoch, None);
    each_has_one_problem(&[
        ("[server]\nconfig_epoch = \"7\"", 2, "must be a whole number"),
        ("[server]\nconfig_epoch = 99999999999999999999", 2, "too large"),
        ("[server]\ndefault_locale = \"en US\"", 2, "letters, digits"),
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let changed = std::time::UNIX_EPOCH + Duration::from_secs(1_234_567_890);
    std::fs::write(&path, "").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
    assert_eq!(Config::load(Some(&path)).unwrap().config.server.config_epoch, Some(1_234_567_890));
    std::fs::write(&path, "[server]\nconfig_epoch = -3").unwrap();
    assert_eq!(Config::load(Some(&path)).unwrap().config.server.config_epoch, Some(-3));
}

/// FP-03: a list in the file is judged as one that comes in through the API.
#[test]
fn problems_of_lists_are_those_of_the_api() {
    let list = |members: &str| {
        format!("[channels.h]\nkind = \"webhook\"\n[lists.l]\nchannel = \"h\"\nmembers = {members}")
    };
    let many: Vec<String> = (0..10_001).map(|i| format!("\"https://example.com/{i}\"")).collect();
    let nameless = "[\n{ address = \"https://h\", name = \"\" }]";
    let hidden = "[\"https://g\",\n{ address = \"https://h\", name = \"a\\u202Eb\" }]";
    each_has_one_problem(&[
        (&list(&format!("[{}]", many.join(","))), 5, "has 10001 entries, at most 10000 are allowed"),
        (&list(nameless), 6, "`lists.l.members[0].name` must not be empty"),
        (&list(hidden), 6, "`lists.l.members[1].name` contains the invisible character"),
    ]);
}
