//! What the arguments mean, and what is refused.

use clap::CommandFactory;

use super::*;

fn parsed(line: &str) -> Result<Invocation, ExitCode> {
    parse(line.split_whitespace().map(OsString::from))
}

fn fails(line: &str) -> clap::error::ErrorKind {
    Invocation::try_parse_from(line.split_whitespace()).unwrap_err().kind()
}

#[test]
fn the_definition_is_sound() {
    Invocation::command().debug_assert();
}

#[test]
fn every_command_can_be_written() {
    for line in [
        "serve --config a.toml",
        "demo",
        "demo --exit",
        "openapi",
        "send --list ops --subject S --body B",
        "send --to hooks:https://h/ --subject S --body-file - --data {} --site s --instance i --script c --node n",
        "notification list --status parked --all -o ids",
        "notifications list --stuck --output json",
        "notification show ID",
        "notification retry ID ID --reason again",
        "notification discard ID",
        "notification cancel ID",
        "config check --config a.toml -o json",
        "kpi --server http://127.0.0.1:7180 --key-file k",
        "key create erp --scope publish,read --scope operate",
        "key create erp --scope read --expires-in 30d",
        "key create erp --scope read --expires-at 2026-07-07T01:02:03Z",
        "key list",
        "key revoke k1 k2",
        "suppression list",
        "suppression lift hooks https://h/",
        "channel list",
        "channels list -o json",
        "channel test mail mailto:a@example.com",
        "channel reopen mail",
        "node list",
        "nodes list -o json",
        "db status --config a.toml",
        "db migrate -o json",
        "bounce",
        "bounce -",
        "bounce report.eml --server http://127.0.0.1:7180 --key-file k",
        "completions bash",
    ] {
        can_be_written(line);
    }
}

#[test]
fn every_command_about_events_can_be_written() {
    for line in [
        "event publish --feed f --type T --key k",
        "event publish --feed f --type T --key k --field a=b --field c=d=e --data {} --id i --source s --test",
        "event publish --feed f --type T --key k --time 2026-07-07T01:02:03Z --locale nl-NL --entity a/b --ttl 6h --supersede-key s",
        "event publish --file events.ndjson --dry-run",
        "event publish --file -",
        "event try --feed f --type T --key k --data @d.json",
        "event try --file -",
        "events list --feed f --type T --key k --source s --since 2h --until 1h --limit 500 --cursor c --all -o ndjson",
        "event show ID",
        "event explain ID",
        "event explain ID --subscription ns_a",
        "event announce f --subject S --body B --field a=b --test",
        "event announce f --subject S --body-file -",
        "event gone f 42",
        "feed list",
        "feeds show f -o json",
        "feed create --file feed.json",
        "feed update f --file - --if-match 17",
        "feed update f --file - --merge",
        "feed delete f g",
        "list list",
        "lists show ops",
        "list create --file -",
        "list update ops --file l.json",
        "list delete ops",
        "template list",
        "templates show t",
        "template create --file -",
        "template update t --file t.json --if-match \"17\"",
        "template delete t",
        "template preview t",
        "template preview t --event e.json",
        "template preview --file - --event e.json",
        "subscription list --feed f --channel c --owner o --q t --active --limit 1 --cursor c --all",
        "subscriptions list --inactive",
        "subscription show ns_a",
        "subscription create --name N --feed f --channel hooks --address https://h/",
        "subscription create --name N --feed f --list ops --type A,B --field a=b --keyword *=c --match all",
        "subscription create --name N --feed f --list ops --cooldown 30m --daily-cap 20 --at-most-once --inactive",
        "subscription create --file -",
        "subscription update ns_a --active --if-match 17",
        "subscription update ns_a --at-least-once --no-daily-cap",
        "subscription update ns_a --file s.json --merge",
        "subscription delete ns_a ns_b",
        "subscription import s.ndjson",
        "subscription import -",
        "subscription export -o ndjson",
        "subscription export --feed f",
    ] {
        can_be_written(line);
    }
}

fn can_be_written(line: &str) {
    let line = format!("angarium {}", line.replace("ID", "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59"));
    assert!(parsed(&line).is_ok(), "{line}");
}

#[test]
fn the_servers_commands_are_handed_back() {
    let command = |line| parsed(line).unwrap().command;
    assert!(matches!(command("angarium serve"), Command::Serve));
    assert!(matches!(command("angarium demo --exit"), Command::Demo { exit: true }));
    assert!(matches!(command("angarium openapi"), Command::Openapi));
    let globals = parsed("angarium serve --config a.toml -o json").unwrap().globals;
    assert_eq!((globals.config, globals.output), (Some("a.toml".into()), Output::Json));
}

#[test]
fn what_makes_no_sense_is_refused() {
    use clap::error::ErrorKind;
    for (line, kind) in [
        ("angarium", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("angarium frobnicate", ErrorKind::InvalidSubcommand),
        ("angarium send --subject S --body B", ErrorKind::MissingRequiredArgument),
        ("angarium send --list a --subject S", ErrorKind::MissingRequiredArgument),
        ("angarium send --list a --to b:c --subject S --body B", ErrorKind::ArgumentConflict),
        ("angarium send --list a --channel c --subject S --body B", ErrorKind::ArgumentConflict),
        ("angarium send --list a --subject S --body B --body-file -", ErrorKind::ArgumentConflict),
        ("angarium send --list a --subject S --body B --data {", ErrorKind::ValueValidation),
        ("angarium send --list a --subject S --body B --id 42", ErrorKind::ValueValidation),
        ("angarium notification list --status lost", ErrorKind::ValueValidation),
        ("angarium notification list --limit 501", ErrorKind::ValueValidation),
        ("angarium notification retry", ErrorKind::MissingRequiredArgument),
        ("angarium key create erp --scope read --expires-in 30", ErrorKind::ValueValidation),
        ("angarium key create erp --scope read --expires-at tomorrow", ErrorKind::ValueValidation),
        (
            "angarium key create erp --scope read --expires-in 1d --expires-at 2026-07-07T01:02:03Z",
            ErrorKind::ArgumentConflict,
        ),
        ("angarium kpi --server ftp://h", ErrorKind::ValueValidation),
        ("angarium kpi --server http://u:p@h", ErrorKind::ValueValidation),
        ("angarium channel test mail", ErrorKind::MissingRequiredArgument),
        ("angarium channel reopen", ErrorKind::MissingRequiredArgument),
        ("angarium kpi -o yaml", ErrorKind::InvalidValue),
        ("angarium event publish --feed f --type T", ErrorKind::MissingRequiredArgument),
        ("angarium event publish", ErrorKind::MissingRequiredArgument),
        ("angarium event publish --file e --feed f", ErrorKind::ArgumentConflict),
        ("angarium event publish --file e --test", ErrorKind::ArgumentConflict),
        ("angarium event publish --feed f --type T --key k --field a", ErrorKind::ValueValidation),
        ("angarium event publish --feed f --type T --key k --field =a", ErrorKind::ValueValidation),
        ("angarium event publish --feed f --type T --key k --entity a", ErrorKind::ValueValidation),
        ("angarium event publish --feed f --type T --key k --ttl 6", ErrorKind::ValueValidation),
        ("angarium event publish --feed f --type T --key k --time now", ErrorKind::ValueValidation),
        ("angarium event show 42", ErrorKind::ValueValidation),
        ("angarium event announce f --subject S", ErrorKind::MissingRequiredArgument),
        ("angarium event announce f --subject S --body B --body-file -", ErrorKind::ArgumentConflict),
        ("angarium feed create", ErrorKind::MissingRequiredArgument),
        ("angarium feed delete", ErrorKind::MissingRequiredArgument),
        ("angarium template preview", ErrorKind::MissingRequiredArgument),
        ("angarium template preview t --file f", ErrorKind::ArgumentConflict),
        ("angarium subscription create --name N --feed f", ErrorKind::MissingRequiredArgument),
        ("angarium subscription create --feed f --list ops", ErrorKind::MissingRequiredArgument),
        ("angarium subscription create --name N --list ops", ErrorKind::MissingRequiredArgument),
        (
            "angarium subscription create --name N --feed f --list ops --channel c --address a",
            ErrorKind::ArgumentConflict,
        ),
        ("angarium subscription create --file f --name N", ErrorKind::ArgumentConflict),
        ("angarium subscription create --name N --feed f --list l --match some", ErrorKind::InvalidValue),
        ("angarium subscription create --name N --feed f --list l --cooldown 30", ErrorKind::ValueValidation),
        ("angarium subscription update ns_a", ErrorKind::MissingRequiredArgument),
        ("angarium subscription update ns_a --active --inactive", ErrorKind::ArgumentConflict),
        ("angarium subscription update ns_a --file f --inactive", ErrorKind::ArgumentConflict),
        ("angarium subscription list --active --inactive", ErrorKind::ArgumentConflict),
        ("angarium subscription import", ErrorKind::MissingRequiredArgument),
    ] {
        assert_eq!(fails(line), kind, "{line}");
    }
}

/// RELIABILITY CL3: a key is no argument, for all processes of the machine can read those.
#[test]
fn a_key_is_no_argument() {
    assert_eq!(fails("angarium kpi --key ak_1"), clap::error::ErrorKind::UnknownArgument);
}

/// A password in the address is refused and not repeated, neither to people nor to programs.
#[test]
fn a_password_in_the_address_is_not_repeated() {
    for url in [
        "http://someone:pa55w0rd@host/",
        "ftp://someone:pa55w0rd@host",
        "http://someone:pa55w0rd@x@host:99999",
    ] {
        let mut error = Invocation::try_parse_from(["angarium", "kpi", "--server", url]).unwrap_err();
        hide_credentials(&mut error);
        let text = error.render().to_string();
        assert!(!text.contains("pa55w0rd") && !text.contains("someone") && text.contains("@host"), "{text}");
    }
}

#[test]
fn json_is_known_before_the_arguments_are_understood() {
    let asks = |line: &str| asks_for_json(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
    for line in [
        "x -o json",
        "x -ojson",
        "x -o=json y",
        "x --output json",
        "x --output=json",
        "x -o ndjson",
        "x -ondjson",
    ] {
        assert!(asks(line), "{line}");
    }
    for line in ["x", "x -o table", "x json", "x -o ids json", "x -oids", "x --outputjson"] {
        assert!(!asks(line), "{line}");
    }
}

#[test]
fn a_completion_script_names_the_commands() {
    let captured = output::tests::Captured::default();
    let mut out = captured.out(Format::Table);
    assert_eq!(completions(clap_complete::Shell::Bash, &mut out), Exit::Fine);
    for command in ["notification", "event", "subscription", "feed", "template", "--supersede-key", "ndjson"]
    {
        assert!(captured.text().contains(command), "{command}");
    }
}
