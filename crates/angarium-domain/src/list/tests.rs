//! Lists: what is read, what is refused, and that what is written is read again as the same.

use proptest::prelude::*;

use super::*;

fn kind_of(channel: &ChannelName) -> Option<ChannelKind> {
    match channel.as_str() {
        "mail" => Some(ChannelKind::Email),
        "hooks" => Some(ChannelKind::Webhook),
        _ => None,
    }
}

fn parse(json: &str) -> Result<List, Vec<Complaint>> {
    List::parse(json, &kind_of)
}

fn refused(json: &str) -> Vec<String> {
    parse(json).unwrap_err().iter().map(Complaint::to_string).collect()
}

#[test]
fn a_list_is_read_and_written() {
    let json = r#"{"channel":"mail","members":["a@example.com",{"address":"b@example.com","name":"Bé"}]}"#;
    let list = parse(json).unwrap();
    assert_eq!(list.channel.as_str(), "mail");
    let members: Vec<_> =
        list.members.iter().map(|member| (member.address.as_str(), member.name.as_deref())).collect();
    assert_eq!(members, [("a@example.com", None), ("b@example.com", Some("Bé"))]);
    assert_eq!(list.to_json(), json);
}

#[test]
fn an_address_that_stands_twice_is_taken_once_as_it_stands_first() {
    let json = r#"{"channel":"mail","members":["b@Example.com",{"address":"a@example.com","name":"A"},
                   {"address":"b@example.COM","name":"B"},"a@example.com"]}"#;
    assert_eq!(
        parse(json).unwrap().to_json(),
        r#"{"channel":"mail","members":["b@example.com",{"address":"a@example.com","name":"A"}]}"#
    );
}

#[test]
fn a_list_that_makes_no_sense_is_refused() {
    for (json, expected) in [
        ("{}", vec!["channel is required", "members is required"]),
        (r#"{"channel":"fax","members":["1"]}"#, vec!["channel is not the name of a configured channel"]),
        (r#"{"channel":"mail","members":[]}"#, vec!["members must not be empty"]),
        (r#"{"channel":"mail","members":"a@example.com"}"#, vec!["members must be an array"]),
        (
            r#"{"channel":"mail","members":["a@example.com"],"member":[]}"#,
            vec!["member is not known here; did you mean members?"],
        ),
        (
            r#"{"channel":"mail","members":["ops",{"name":"x"},{"address":"a@example.com","name":"","x":1},5,null]}"#,
            vec![
                "members[0] is not an e-mail address such as ops@example.com",
                "members[1].address is required",
                "members[2].name must not be empty",
                "members[2].x is not known here",
                "members[3] must be an address, or an object with address and name",
                "members[4] must be an address, or an object with address and name",
            ],
        ),
        (
            r#"{"channel":"hooks","members":["https://example.com:25/"]}"#,
            vec!["members[0] names a port that no webhook listens on"],
        ),
    ] {
        assert_eq!(refused(json), expected, "{json}");
    }
}

#[test]
fn a_list_is_bounded() {
    let json = |n: usize| {
        let members: Vec<_> = (0..n).map(|i| format!("\"a{i}@example.com\"")).collect();
        format!("{{\"channel\":\"mail\",\"members\":[{}]}}", members.join(","))
    };
    assert_eq!(parse(&json(10_000)).unwrap().members.len(), 10_000);
    assert_eq!(refused(&json(10_001)), ["members has 10001 entries, at most 10000 are allowed"]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_as_the_same(
        members in proptest::collection::btree_map("[a-z+]{1,9}", proptest::option::of("[a-zé\"]{1,9}"), 1..20),
    ) {
        let member = |(local, name): (String, Option<String>)| {
            let address = Address::parse(ChannelKind::Email, &format!("{local}@Bücher.example")).unwrap();
            Member { address, name }
        };
        let channel = ChannelName::parse("mail").unwrap();
        let list = List { channel, members: members.into_iter().map(member).collect() };
        prop_assert_eq!(parse(&list.to_json()), Ok(list));
    }
}
