//! What is refused when a template is stored, and what when it meets an event.

use angarium_domain::feed::{Feed, Field, FieldMatch};

use super::super::FaultKind;
use super::super::survey::{FILTERS, FUNCTIONS, HTML_FILTERS, TESTS};
use super::*;

fn refused(source: &str) -> Vec<String> {
    let faults = Compiled::compile(&template(source)).map(|_| ()).unwrap_err();
    faults.iter().map(ToString::to_string).collect()
}

/// TP1: what is no template is refused when it is stored, with its place, all parts at once.
#[test]
fn what_is_no_template_is_refused_with_its_place() {
    assert_eq!(
        refused("é\n a {{ b"),
        ["template_invalid: body, line 2, column 7: unexpected end of input, expected end of variable block"]
    );
    assert_eq!(
        refused("\n{{ fields.area | uper }}"),
        ["template_invalid: body, line 2, column 18: there is no filter `uper`"]
    );
    assert_eq!(
        refused("{% if a is uper %}{% endif %}"),
        ["template_invalid: body, line 1, column 12: there is no test `uper`"]
    );
    assert_eq!(
        refused("{% if a is not uper(1) %}{% endif %}"),
        ["template_invalid: body, line 1, column 16: there is no test `uper`"]
    );
    assert_eq!(
        refused("{{ now() }}"),
        ["template_invalid: body, line 1, column 4: there is no function `now`"]
    );
    assert_eq!(
        refused("{% filter uper %}{% endfilter %}"),
        ["template_invalid: body, line 1, column 11: there is no filter `uper`"]
    );
    let mut two = template("{{ a | x }}{{ b | y }}");
    two.subject = "{{".to_owned();
    two.tags = vec!["{{ z() }}".to_owned()];
    let parts: Vec<String> =
        Compiled::compile(&two).unwrap_err().into_iter().map(|fault| fault.part).collect();
    assert_eq!(parts, ["subject", "body", "body", "tags[0]"]);
}

/// TP5: a template reaches no other one, no file and nothing that reads anything.
#[test]
fn there_is_nothing_to_include() {
    for statement in [
        "include 'x'",
        "import 'x' as y",
        "extends 'x'",
        "from 'x' import y",
        "block x",
        "macro x()",
        "call x()",
    ] {
        let faults = refused(&format!("{{% {statement} %}}"));
        let name = statement.split_once(' ').unwrap().0;
        assert!(faults[0].contains(&format!("there is no statement `{name}`")), "{faults:?}");
    }
    for call in ["debug()", "namespace()", "dict()", "loop(1)", "env('HOME')", "[range][0](3)", "('x')()"] {
        assert!(!refused(&format!("{{{{ {call} }}}}")).is_empty(), "{call}");
    }
}

#[test]
fn what_is_not_for_the_engine_is_left_as_it_is() {
    let source = "{# {{ a | x }} #}{% raw %}{{ b | y }}{% endraw %}{%- set is = 1 %}{{ {'is': 2}.is }}{{ is }} { { | x( }";
    assert_eq!(body(source).unwrap(), "{{ b | y }}21 { { | x( }");
}

/// Every name that is on a list is one that the engine has.
#[test]
fn every_name_that_is_allowed_is_there() {
    for name in FILTERS.iter().chain(&HTML_FILTERS) {
        let mut html = template("");
        html.html = Some(format!("{{% if false %}}{{{{ 1 | {name} }}}}{{% endif %}}{{{{ 'a' | {name} }}}}"));
        let outcome = render(&html, &event(&[]));
        assert!(
            outcome.as_ref().err().is_none_or(|fault| !fault.message.contains("unknown")),
            "{name}: {outcome:?}"
        );
    }
    for name in TESTS {
        let outcome = body(&format!("{{{{ 'a' is {name} }}}}"));
        assert!(
            outcome.as_ref().err().is_none_or(|fault| !fault.message.contains("unknown")),
            "{name}: {outcome:?}"
        );
    }
    for name in FUNCTIONS {
        assert!(body(&format!("{{{{ {name}(3) }}}}")).is_ok(), "{name}");
    }
}

/// TP3: what an event does not have is an error wherever it is used, and `default` and `is defined` are the ways round it.
#[test]
fn what_is_undefined_is_a_fault_in_every_use() {
    let uses = [
        "{{ fields.x }}",
        "{{ nope }}",
        "{{ data.a.b }}",
        "{{ data.a.b | default('') }}",
        "{{ fields.x | upper }}",
        "{{ fields.x ~ 'a' }}",
        "{{ fields.x + 1 }}",
        "{{ [fields.x] | join }}",
        "{{ [fields.area, fields.x] | join(', ') }}",
        "{{ fields.x[0] }}",
        "{{ fields.x.y() }}",
        "{{ fields.x | length }}",
        "{{ fields.x | replace('a', 'b') }}",
        "{{ fields.area | replace('a', fields.x) }}",
        "{{ fields.x | first }}",
        "{{ fields.x in ['a'] }}",
        "{{ fields.x is startingwith('a') }}",
        "{{ fields.x | int }}",
        "{{ fields.x | string }}",
        "{{ fields.x | trim }}",
        "{{ fields.x and true }}",
        "{{ [fields.x] }}",
        "{% set a = fields.x %}{{ a }}",
        "{% for a in fields.x %}{% endfor %}",
        "{% if fields.x %}{% endif %}",
        "{% if not fields.x %}{% endif %}",
        "{% if fields.x == 'a' %}{% endif %}",
        "{% if fields.x != 'a' %}{% endif %}",
        "{% if 'a' in fields.x %}{% endif %}",
        "{% if fields.x < 1 %}{% endif %}",
        "{{ 'b' if fields.x else 'c' }}",
        "{{ fields['x'] }}",
        "{{ subscription.name }}",
    ];
    for source in uses {
        assert_eq!(body(source).map_err(|fault| fault.kind), Err(FaultKind::Undefined), "{source}");
    }
    for source in ["{{ -fields.x }}", "{{ fields.x() }}", "{{ fields.x | sort }}"] {
        assert!(body(source).is_err(), "{source}");
    }
    // A test asks what a value is, and is no use of it.
    assert_eq!(body("{{ fields.x is none or fields.x is odd or fields.x is string }}").unwrap(), "false");
    assert_eq!(body("{{ fields.x | default('-') }}").unwrap(), "-");
    assert_eq!(body("{% if fields.x is defined %}a{% else %}b{% endif %}").unwrap(), "b");
    assert_eq!(body("{{ data.x | d(fields.area) }}").unwrap(), "Bakakeng");
}

/// A fault quotes the template, never the event.
#[test]
fn faults_do_not_say_what_the_event_says() {
    let event = event(&[("area", "hush-hush")]);
    for source in [
        "{{ fields.area | int }}",
        "{{ fields.area + 1 }}",
        "{{ fields.area | round }}",
        "{{ fields.area - 2.5 }}",
        "{{ range(fields.area) }}",
        "{{ fields.area.x() }}",
        "{{ -fields.area }}",
        "{{ fields.area.hush.x }}",
    ] {
        let fault = render(&template(source), &event).unwrap_err().to_string();
        assert!(!fault.contains("hush-"), "{fault}");
        assert!(fault.starts_with("render_"), "{fault}");
    }
}

#[test]
fn what_the_feed_lacks_is_told_before_an_event_comes() {
    let field = || Field { matching: FieldMatch::Exact, alias: Some(FieldName::parse("locations").unwrap()) };
    let feed = Feed {
        id: FeedId::parse("beneco.power-outages").unwrap(),
        name: "Outages".to_owned(),
        event_types: vec![EventType::parse("NewOutage").unwrap()],
        fields: [(FieldName::parse("area").unwrap(), field())].into(),
        user_subscriptions: false,
        sources: Vec::new(),
        supersedes: BTreeMap::new(),
        ttl: None,
        enabled: true,
    };
    let source = "{{ fields.area }}{{ fields.locations }}{{ fields['area'] }}{{ data.fields.x }}{% for n in range(3) %}{{ n }}{% endfor %}";
    assert_eq!(Compiled::compile(&template(source)).unwrap().unknown_fields(&feed), []);
    let source = "{{ feilds.area }}\n{{ fields.feeder }}{% if fields['f-x'] is defined %}{% endif %}";
    let faults = Compiled::compile(&template(source)).unwrap().unknown_fields(&feed);
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        "render_undefined: body, line 2, column 4: the feed has no field `feeder`",
        "render_undefined: body, line 2, column 26: the feed has no field `f-x`",
        "render_undefined: body: `feilds` is not known here",
    ];
    assert_eq!(told, expected);
}
