//! What is escaped, what is one line, what is cut, and in which language.

use angarium_domain::channel::ChannelKind;
use angarium_domain::text::Locale;

use super::super::{choose, without_template};
use super::*;

/// C068: a text that needs escaping in HTML is escaped there and stays itself everywhere else, whatever a text is called.
#[test]
fn c068_only_html_is_escaped() {
    let title = r#"Pump 4 < 20% & O'Neil's "alarm""#;
    let mut pump = template("{{ fields.title }}");
    pump.subject = "{{ fields.title }}".to_owned();
    pump.html = Some("<p>{{ fields.title }}</p>".to_owned());
    pump.tags = vec!["{{ fields.title }}".to_owned()];
    let rendered = render(&pump, &event(&[("title", title)])).unwrap();
    assert_eq!((rendered.title.as_str(), rendered.body.as_str()), (title, title));
    assert_eq!(rendered.tags, [title]);
    let html = "<p>Pump 4 &lt; 20% &amp; O&#x27;Neil&#x27;s &quot;alarm&quot;</p>";
    assert_eq!(rendered.html.as_deref(), Some(html));
}

/// C069: markup in an event is text in HTML, unless the template asks for it by name, and that it can in HTML alone.
#[test]
fn c069_an_event_brings_no_markup() {
    let link = r#"<a href="https://evil.example/">reset password</a><img src=x>"#;
    let mut mail = template("{{ fields.title }}");
    mail.html = Some(
        "{{ fields.title }}{% for c in [fields.title] %}{{ c }}{% endfor %}{{ 'a' ~ fields.title }}"
            .to_owned(),
    );
    let rendered = render(&mail, &event(&[("title", link)])).unwrap();
    assert_eq!(rendered.body, link);
    let html = rendered.html.unwrap();
    assert!(!html.contains('<') && html.matches("&lt;a href=").count() == 3, "{html}");

    mail.html = Some("{{ fields.title | safe }}".to_owned());
    assert_eq!(render(&mail, &event(&[("title", link)])).unwrap().html.as_deref(), Some(link));
    assert!(body("{{ fields.area | safe }}").unwrap_err().message.contains("for the html alone"));
    mail.html = Some("{% autoescape false %}{{ fields.title }}{% endautoescape %}".to_owned());
    assert!(render(&mail, &event(&[])).unwrap_err().message.contains("no statement `autoescape`"));
}

/// C071: a part that cannot be made leaves nothing to send, however well the others can.
#[test]
fn c071_one_broken_part_is_a_fault_of_the_whole() {
    let whole = template("fine");
    for part in ["subject", "body", "html", "sequence_id", "tags[1]"] {
        let mut broken = whole.clone();
        broken.tags = vec!["fine".to_owned(), "fine".to_owned()];
        let bad = "{{ fields.htlm }}".to_owned();
        match part {
            "subject" => broken.subject = bad,
            "body" => broken.body = bad,
            "html" => broken.html = Some(bad),
            "sequence_id" => broken.sequence_id = Some(bad),
            _ => broken.tags[1] = bad,
        }
        let fault = render(&broken, &event(&[])).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("render_undefined: {part}, line 1, column 4: `fields.htlm` is undefined")
        );
    }
    assert!(render(&whole, &event(&[])).is_ok());
}

/// FP-07: the text is the newest source row's, and what it is about stays the signal.
#[test]
fn the_newest_row_is_told_under_the_signals_name() {
    let signal = event(&[("area", "old")]);
    let mut row = event(&[("area", "new")]);
    row.key = SourceKey::parse("43").unwrap();
    row.kind = EventType::parse("Restoration").unwrap();
    row.at = "2026-07-08T00:00:00Z".parse().unwrap();
    row.data = Some(r#"{"n": 2}"#.to_owned());
    let source =
        "{{ event.type }} {{ event.key }} {{ event.id }} {{ event.time }} {{ fields.area }} {{ data.n }}";
    let facts = Facts { row: &row, ..facts(&signal) };
    let rendered = Compiled::compile(&template(source)).unwrap().render(&facts).unwrap();
    let expected = "NewOutage 42 01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59 2026-07-08T00:00:00Z new 2";
    assert_eq!(rendered.body, expected);
}

#[test]
fn a_template_sees_what_is_told_and_nothing_else() {
    let locale = Locale::parse("nl-NL").unwrap();
    let mut event = event(&[]);
    let source = "{{ event.feed }} {{ event.source }} {{ entity.type }} {{ entity.id }} {{ recipient.locale }} {{ subscription.name }}";
    let compiled = Compiled::compile(&template(source)).unwrap();
    let all = Facts { subscription: Some("Home"), locale: Some(&locale), ..facts(&event) };
    assert_eq!(compiled.render(&all).unwrap().body, "beneco.power-outages poller Feeder f-14 nl-NL Home");
    event.entity = None;
    let source = "{{ entity is defined }} {{ recipient is defined }} {{ subscription is defined }} {{ data }} {{ fields }}";
    assert_eq!(render(&template(source), &event).unwrap().body, "false false false {} {}");
    for name in ["env", "config", "self", "secret", "state"] {
        assert!(body(&format!("{{{{ {name} }}}}")).is_err(), "{name}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    let mut event = event(&[]);
    event.data = Some(
        r#"{"n": [1, -7, 2.50, 1e3, 12345678901234567890123, -0, 9007199254740993], "t": [true, null, "é"]}"#
            .to_owned(),
    );
    let source = "{{ data.n | join(' ') }} {{ data.n[0] + 1 }} {{ data.n[2] | float * 2 }} {{ data.t[0] }} {{ data.t[1] }} {{ data.t[2] }}";
    let text = render(&template(source), &event).unwrap().body;
    assert_eq!(text, "1 -7 2.50 1e3 12345678901234567890123 -0 9007199254740993 2 5.0 true null é");
}

#[test]
fn titles_and_tags_are_one_line() {
    let mut lines = template("a\r\nb");
    lines.subject = "\n{{ fields.area }}\n".to_owned();
    lines.tags = vec!["{{ fields.area }}".to_owned(), " {{ '' }} ".to_owned()];
    let rendered = render(&lines, &event(&[("area", "one\r\nBcc: x\u{1b}[2J\u{2028}two")])).unwrap();
    assert_eq!(rendered.title, "one  Bcc: x [2J two");
    assert_eq!(rendered.tags, ["one  Bcc: x [2J two"]);
    assert_eq!(rendered.body, "a\r\nb");
    assert_eq!(body("a{{ '\\u0000' }}b").unwrap(), "ab");
}

#[test]
fn without_a_template_the_fields_are_told() {
    let event = event(&[("feeder", "14"), ("area", "Bakakeng")]);
    let rendered = without_template(&facts(&event));
    assert_eq!(
        (rendered.title.as_str(), rendered.body.as_str()),
        ("NewOutage: 42", "area: Bakakeng\nfeeder: 14")
    );
    assert_eq!(rendered.sequence_id, "beneco-power-outages-newoutage-42");
}

/// FP-12: a message is cut to what its provider takes, and says so.
#[test]
fn what_a_provider_does_not_take_is_cut() {
    let mut long = template("{{ fields.area }}");
    long.html = Some("<p>all of it</p>".to_owned());
    let area = "é".repeat(5000);
    let rendered = render(&long, &event(&[("area", area.as_str())])).unwrap();
    let sms = rendered.clone().trimmed(ChannelKind::Sms);
    assert!(sms.cut && sms.html.is_none() && sms.body.ends_with('…') && sms.body.len() < rendered.body.len());
    assert_eq!(rendered.clone().trimmed(ChannelKind::Email), rendered);
    let mut titled = rendered;
    titled.title = "t".repeat(5000);
    let mail = titled.trimmed(ChannelKind::Email);
    assert!(mail.cut && mail.title.ends_with('…') && mail.html.is_some());
}

#[test]
fn a_language_falls_back_on_the_default_and_no_further() {
    let locale = |text: &str| Locale::parse(text).unwrap();
    let there = ["en-US", "nl", "de-DE"].map(|text| (locale(text), text));
    let chosen = |asked: Option<&str>, default: &str| {
        choose(&there, asked.map(locale).as_ref(), &locale(default)).map(|(_, text)| *text)
    };
    assert_eq!(chosen(Some("de-de"), "en-US"), Some("de-DE"));
    assert_eq!(chosen(Some("nl-BE"), "en-US"), Some("en-US"));
    assert_eq!(chosen(None, "nl"), Some("nl"));
    assert_eq!(chosen(Some("fr-FR"), "fr"), None);
}
