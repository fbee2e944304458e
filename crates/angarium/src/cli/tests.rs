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
    const ID: &str = "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59";
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
        let line = format!("angarium {}", line.replace("ID", ID));
        assert!(parsed(&line).is_ok(), "{line}");
    }
}

#[test]
fn the_servers_commands_are_handed_back() {
    let command = |line| parsed(line).unwrap().command;
    assert!(matches!(command("angarium serve"), Command::Serve));
    assert!(matches!(command("angarium demo --exit"), Command::Demo { exit: true }));
    assert!(matches!(command("angarium openapi"), Command::Openapi));
    let globals = parsed("angarium serve --config a.toml -o json").unwrap().globals;
    assert_eq!((globals.config, globals.output), (Some("a.toml".into()), Format::Json));
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
    for line in ["x -o json", "x -ojson", "x -o=json y", "x --output json", "x --output=json"] {
        assert!(asks(line), "{line}");
    }
    for line in ["x", "x -o table", "x json", "x -o ids json"] {
        assert!(!asks(line), "{line}");
    }
}

#[test]
fn a_completion_script_names_the_commands() {
    let captured = output::tests::Captured::default();
    let mut out = captured.out(Format::Table);
    assert_eq!(completions(clap_complete::Shell::Bash, &mut out), Exit::Fine);
    assert!(captured.text().contains("notification"));
}
