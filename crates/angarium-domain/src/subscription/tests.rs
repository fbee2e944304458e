//! Subscriptions: what is read, what is refused, and that what is written is read again as the same.

use proptest::prelude::*;

use super::*;

fn kind_of(channel: &ChannelName) -> Option<ChannelKind> {
    match channel.as_str() {
        "mail" => Some(ChannelKind::Email),
        "hooks" => Some(ChannelKind::Webhook),
        "push" => Some(ChannelKind::Ntfy),
        _ => None,
    }
}

fn parse(json: &str) -> Result<Subscription, Vec<Complaint>> {
    Subscription::parse(json, &kind_of)
}

fn refused(json: &str) -> Vec<String> {
    parse(json).unwrap_err().iter().map(Complaint::to_string).collect()
}

/// A subscription with `more` members, each with a comma before it.
fn with(more: &str) -> String {
    format!("{{\"name\":\"Home\",\"feed\":\"outages\",\"target\":{{\"list\":\"ops\"}}{more}}}")
}

/// FP-03: a rule with a feed, a filter and one target.
#[test]
fn a_subscription_is_read_and_written() {
    let json = r#"{"name":"Home","feed":"beneco.power-outages",
        "target":{"channel":"push","address":"beneco-power-outages"},"options":{"ntfy":{"priority":5.0}},
        "active":false,"cooldown":"30m","daily_cap":50,"delivery":"at_most_once","scope":"user","owner":"u1",
        "expires_at":"2026-10-05T00:00:00Z","test":true}"#;
    let subscription = parse(json).unwrap();
    assert_eq!(subscription.name, "Home");
    assert_eq!(subscription.feed.as_str(), "beneco.power-outages");
    let channel = ChannelName::parse("push").unwrap();
    let address = Address::parse(ChannelKind::Ntfy, "beneco-power-outages").unwrap();
    assert_eq!(subscription.target, Target::Address { channel, address });
    assert_eq!(subscription.options.as_deref(), Some(r#"{"ntfy":{"priority":5.0}}"#), "word for word");
    assert!(!subscription.active && subscription.at_most_once && subscription.test);
    assert_eq!(subscription.cooldown, Duration::from_secs(1800));
    assert_eq!(subscription.daily_cap, Some(50));
    assert_eq!(subscription.scope, Scope::User);
    assert_eq!(subscription.owner.as_ref().unwrap().as_str(), "u1");
    assert_eq!(subscription.expires_at.unwrap().to_string(), "2026-10-05T00:00:00Z");
    assert_eq!(subscription.to_json(), json.replace("\n        ", ""));
}

#[test]
fn what_is_not_said_is_at_its_default_and_left_out() {
    let subscription = parse(&with("")).unwrap();
    assert_eq!(subscription.filter, Filter::default());
    assert_eq!(subscription.target, Target::List(ListName::parse("ops").unwrap()));
    assert!(subscription.active && !subscription.at_most_once && !subscription.test);
    assert_eq!((subscription.cooldown, subscription.daily_cap), (Duration::ZERO, None));
    assert_eq!((subscription.scope, &subscription.owner), (Scope::System, &None));
    assert!(subscription.expires_at.is_none() && subscription.options.is_none());
    assert_eq!(subscription.to_json(), with(""));
    let said = r#","active":true,"cooldown":"0s","delivery":"at_least_once","scope":"system","test":false,"filter":{}"#;
    assert_eq!(parse(&with(said)).unwrap(), subscription);
}

#[test]
fn a_subscription_that_makes_no_sense_is_refused() {
    for (json, expected) in [
        ("{}".to_owned(), vec!["name is required", "feed is required", "target is required"]),
        (
            with(r#","cooldown":"30""#),
            vec!["cooldown needs a unit: write for example \"60s\", \"10m\", \"12h\", \"365d\" or \"250ms\""],
        ),
        (with(r#","daily_cap":0"#), vec!["daily_cap must be a whole number from 1 to 1000000"]),
        (with(r#","daily_cap":1000001"#), vec!["daily_cap must be a whole number from 1 to 1000000"]),
        (with(r#","delivery":"once""#), vec!["delivery is none of at_least_once, at_most_once"]),
        (
            with(r#","scope":"admin","active":"yes""#),
            vec!["active must be true or false", "scope is none of system, user"],
        ),
        (
            with(r#","expires_at":"1969-01-01T00:00:00Z""#),
            vec!["expires_at lies outside the years 1970 to 9999"],
        ),
        (with(r#","options":[1],"owner":"""#), vec!["options must be an object", "owner must not be empty"]),
        (with(r#","fliter":{}"#), vec!["fliter is not known here; did you mean filter?"]),
        (
            with(&format!(",\"options\":{{\"a\":\"{}\"}}", "x".repeat(65_529))),
            vec!["options has 65537 bytes, at most 65536 are allowed"],
        ),
    ] {
        assert_eq!(refused(&json), expected, "{json}");
    }
}

#[test]
fn a_target_is_one_address_or_one_list() {
    for (target, expected) in [
        ("\"ops\"", vec!["target must be an object"]),
        ("{}", vec!["target.list is required, or channel and address"]),
        (r#"{"list":"ops","channel":"mail"}"#, vec!["target.channel must not stand beside list"]),
        (
            r#"{"list":"ops","channel":"mail","address":"a@b.example"}"#,
            vec!["target.channel must not stand beside list", "target.address must not stand beside list"],
        ),
        (r#"{"channel":"mail"}"#, vec!["target.address is required"]),
        (r#"{"address":"a@b.example"}"#, vec!["target.channel is required"]),
        (
            r#"{"channel":"fax","address":"1"}"#,
            vec!["target.channel is not the name of a configured channel"],
        ),
        (
            r#"{"channel":"mail","address":"https://a.example/"}"#,
            vec!["target.address is not an e-mail address such as ops@example.com"],
        ),
        (
            r#"{"channel":"hooks","address":"ftp://a.example/"}"#,
            vec!["target.address must begin with https:// or http://"],
        ),
        (
            r#"{"chanel":"mail","address":"a@b.example"}"#,
            vec!["target.channel is required", "target.chanel is not known here; did you mean channel?"],
        ),
    ] {
        let json = with("").replace(r#"{"list":"ops"}"#, target);
        assert_eq!(refused(&json), expected, "{json}");
    }
}

/// FP-04: what is wrong with a filter is said with the place in the filter.
#[test]
fn a_filter_is_read_by_its_own_reader() {
    let subscription = parse(&with(r#","filter":{"fields":{"n":[9007199254740993]}}"#)).unwrap();
    let values: Vec<_> = subscription.filter.fields.values().flatten().map(String::as_str).collect();
    assert_eq!(values, ["9007199254740993"], "numbers keep their digits");
    for (filter, field) in [("1", "filter"), (r#"{"keywords":{"area":[]}}"#, "filter.keywords.area")] {
        let found = parse(&with(&format!(",\"filter\":{filter}"))).unwrap_err();
        assert_eq!(found.iter().map(|complaint| complaint.field.as_str()).collect::<Vec<_>>(), [field]);
    }
}

prop_compose! {
    fn subscriptions()(
        name in "[a-zé]{1,10}", target in 0..4_usize, flags in any::<[bool; 4]>(),
        cooldown in 0..10_000_000_u64, daily_cap in proptest::option::of(1..=MOST_DAILY),
        owner in proptest::option::of("[a-z]{1,9}"), expires in proptest::option::of(0..4_000_000_000_000_000_i64),
        options in proptest::option::of("[a-z]{1,9}"), types in 0..3_usize,
    ) -> Subscription {
        let address = |channel: &str, text: &str| {
            let channel = ChannelName::parse(channel).unwrap();
            let address = Address::parse(kind_of(&channel).unwrap(), text).unwrap();
            Target::Address { channel, address }
        };
        let event_types = (0..types).map(|i| crate::text::EventType::parse(&format!("T{i}")).unwrap()).collect();
        Subscription {
            name,
            feed: FeedId::parse("outages").unwrap(),
            filter: Filter { event_types, ..Filter::default() },
            target: match target {
                0 => address("mail", "Jörg@Bücher.example"),
                1 => address("hooks", "HTTPS://example.com/é?a=1#b"),
                2 => address("push", "topic-1"),
                _ => Target::List(ListName::parse("Ops team (night)").unwrap()),
            },
            options: options.map(|word| format!("{{\"{word}\" : 1.50}}")),
            active: flags[0],
            cooldown: Duration::from_millis(cooldown),
            daily_cap,
            at_most_once: flags[1],
            scope: if flags[2] { Scope::User } else { Scope::System },
            owner: owner.map(|owner| SourceName::parse(&owner).unwrap()),
            expires_at: expires.map(Timestamp::from_micros),
            test: flags[3],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_the_same(subscription in subscriptions()) {
        prop_assert_eq!(parse(&subscription.to_json()), Ok(subscription));
    }
}
