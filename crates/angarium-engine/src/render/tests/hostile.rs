//! Templates that mean harm. Each ends in a fault; a stack that overflows would end this process.

use super::super::FaultKind;
use super::*;

/// A quarter of what a thread has by default where messages are sent; the frames of a debug build are the largest there are.
const STACK: usize = 1024 * 1024;

/// Runs on a stack of its own size, so that what fits is known.
fn on_a_small_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// TP2: loops without end and texts that grow run out of fuel; none of them is sent.
#[test]
fn what_works_or_makes_too_much_is_stopped() {
    let growing = [
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
        "{{ 'x' * 200000000 }}",
        "{{ range(99999) | join }}",
        "{{ range(99999) | sum }}",
        "{{ 'x' | indent(200000000) }}",
        "{{ '%200000000d' | format(1) }}",
        "{{ '%.200000000f' | format(1.0) }}",
        "{{ ('x' * 100000) | replace('x', 'y' * 10000) }}",
        "{{ ('x,' * 100000) | split(',') | join('y' * 10000) }}",
        "{{ range(9999) | sort | reverse | join('x' * 10000) }}",
        "{% for a in range(5000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{% for a in ('x' * 300000) %}{{ a }}{% endfor %}",
        "{% set a = 'x' * 5000 %}{% filter upper %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfilter %}",
    ];
    for source in growing {
        assert_eq!(body(source).map_err(|fault| fault.kind), Err(FaultKind::Limit), "{source}");
    }
    let doubling = format!("{{% set a = 'x' %}}{}{{{{ a }}}}", "{% set a = a ~ a %}".repeat(40));
    assert_eq!(body(&doubling).unwrap_err().kind, FaultKind::Limit);
    let repeated = "{{ fields.area }}".repeat(3000);
    let fault = render(&template(&repeated), &event(&[("area", &"x".repeat(4096))])).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Limit);
    for source in [
        "{{ ['x'] * 200000000 }}",
        "{{ [1] * 100000000 }}",
        "{{ ([1] * 100000000) | join }}",
        "{{ ([1] * 100000000) | sum }}",
        "{{ ([1] * 100000000) | sort }}",
        "{{ ([1] * 100000000) | reverse }}",
        "{{ 7 in ([1] * 100000000) }}",
        "{{ (['a'] * 100000000) | string }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 9223372036854775807 + 1 * 9223372036854775807 ** 9 }}",
        "{{ 1 / 0 }}",
        "{{ range(-9223372036854775807, 9223372036854775807) }}",
    ] {
        let outcome = body(source);
        assert!(outcome.as_ref().is_err() || outcome.is_ok_and(|text| text.len() < 1000), "{source}");
    }
}

/// TP2: a part comes to 256 KiB at most.
#[test]
fn a_part_is_bounded() {
    let text = |bytes: usize| body(&format!("{{{{ 'x' * {bytes} }}}}"));
    assert_eq!(text(262_144).unwrap().len(), 262_144);
    let fault = text(262_145).unwrap_err();
    assert_eq!(fault.to_string(), "render_limit: body: came to 262145 bytes, at most 262144 are allowed");
    assert!(body(&"x".repeat(65_536)).is_ok());
    let fault = body(&"x".repeat(65_537)).unwrap_err();
    assert_eq!(fault.to_string(), "template_invalid: body: has 65537 bytes, at most 65536 are allowed");
}

/// TP2: what would end the process by its depth is refused before anything recurses over it.
#[test]
fn what_nests_too_deeply_is_refused() {
    let chain = |link: &str| format!("{{{{ 1{} }}}}", link.repeat(60_000 / link.len()));
    let chains = [
        "+1",
        "**1",
        "~1",
        ".a",
        "[0]",
        "()",
        "|e",
        " is odd",
        " and 1",
        " or 1",
        "<1",
        " if 1 else 1",
        ",1",
        " in 1",
    ];
    let mut sources: Vec<String> = chains.iter().map(|link| chain(link)).collect();
    let around = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    sources.extend(["-", "- ", "not "].map(|sign| format!("{{{{ {}1 }}}}", sign.repeat(15_000))));
    sources.extend(
        [("(", ")"), ("[", "]"), ("{1:", "}"), ("[1][", "]"), ("range(", ")")]
            .map(|(open, close)| format!("{{{{ {} }}}}", around(open, close, 5000))),
    );
    sources.push(around("{% if 1 %}", "{% endif %}", 3000));
    sources.push(around("{% for a in [1] %}", "{% endfor %}", 2000));
    sources.push(around("{% set a %}", "{% endset %}", 2000));
    sources.push(around("{% with a = 1 %}", "{% endwith %}", 2000));
    sources.push(around("{% filter upper %}", "{% endfilter %}", 2000));
    sources.push(format!("{{% if 1 %}}{}{{% endif %}}", "{% elif 1 %}".repeat(5000)));
    for wrap in [
        "[a]",
        "{1:a}",
        "(a,)",
        "[a]|reverse",
        "{1:a}|items",
        "{1:a}|dictsort",
        "a[0:]",
        "[a]|sort",
        "a~'x'",
        "a|lines",
    ] {
        sources.push(format!(
            "{{% set a = [1] %}}{}{{{{ a }}}}",
            format!("{{% set a = {wrap} %}}").repeat(2000)
        ));
    }
    for source in sources {
        let outcome = on_a_small_stack(|| body(&source));
        assert_eq!(outcome.map_err(|fault| fault.kind), Err(FaultKind::Syntax), "{}", &source[..60]);
    }
}

/// What is just within every bound at once still fits.
#[test]
fn the_deepest_that_is_allowed_fits() {
    let deep = |link: &str| format!("1{}", link.repeat(154 / link.len().clamp(1, 2)));
    for inner in [
        deep("+1"),
        deep("|d"),
        deep("-"),
        "-".repeat(155) + "1",
        "not ".repeat(155) + "1",
        "1".to_owned() + &"()".repeat(70),
    ] {
        let alternatives = "{% elif 1 %}".repeat(50);
        let source = format!(
            "{}{{% if 1 %}}{alternatives}{{{{ {inner} }}}}{}",
            "{% if 1 %}".repeat(19),
            "{% endif %}".repeat(20)
        );
        let outcome = on_a_small_stack(|| body(&source));
        assert!(!outcome.is_err_and(|fault| fault.message.contains("too many")), "{inner}");
    }
    let wraps = [
        "[a]",
        "[[[[[[[[[[[[a]]]]]]]]]]]]",
        "{1:a}|items",
        "{1:{1:{1:{1:a}|items}|items}|items}|items",
        "[a]|sort|reverse",
        "a[0:]",
    ];
    for wrap in wraps {
        let once = format!("{{% set a = {wrap} %}}");
        // As many as the words of tags that name something allow.
        let fits = |n: &usize| {
            Compiled::compile(&template(&format!("{{% set a = [1] %}}{}", once.repeat(*n)))).is_ok()
        };
        let most = (1..200).take_while(fits).last().unwrap();
        assert!(most < 199, "{wrap}");
        let source = format!(
            "{{% set a = [1] %}}{}{{{{ a }}}}{{{{ a == a }}}}{{{{ [a] | sort }}}}",
            once.repeat(most)
        );
        on_a_small_stack(|| body(&source)).unwrap();
    }
}

/// A chain of bounded size is written by people too.
#[test]
fn ordinary_templates_are_far_from_the_bounds() {
    let months = "{% set months = ['januari', 'februari', 'maart', 'april', 'mei', 'juni', 'juli', 'augustus', 'september', 'oktober', 'november', 'december'] %}{{ months[6] }}";
    assert_eq!(body(months).unwrap(), "juli");
    let table = "{% for row in data.rows %}<td>{{ row.a | upper }}</td>{% else %}none{% endfor %}".repeat(20);
    assert!(body(&format!("{table}{{{{ data.rows | default([]) | length }}}}")).is_err());
    assert_eq!(
        body("{% for c in fields.area | upper if c != 'A' %}{{ loop.index }}{{ c }} {% endfor %}").unwrap(),
        "1B 2K 3K 4E 5N 6G "
    );
}

/// TP4: what an event says is never compiled, not even when it passes through a template twice.
#[test]
fn an_event_is_never_a_template() {
    let mut event = event(&[("area", "{{ 7 * 7 }}{% for %}"), ("n", "{{ event.id }}")]);
    event.data = Some(r#"{"x": "{{ fields.n }}"}"#.to_owned());
    let source = "{% set a %}{{ fields.area }}{% endset %}{{ a }}{{ data.x }}{{ fields.n | upper | lower }}";
    let text = render(&template(source), &event).unwrap().body;
    assert_eq!(text, "{{ 7 * 7 }}{% for %}{{ fields.n }}{{ event.id }}");
}

/// TP2: a list is never made longer at once, whatever it is called.
#[test]
fn no_list_is_repeated() {
    for source in [
        "{{ 7 in ([1] * 100000000) }}",
        "{% set a = [1] %}{{ 7 in a * 100000000 }}",
        "{{ (100000000 * data.rows) | string }}",
        "{{ data.rows * 100000000 }}",
        "{{ data.rows.0 * 100000000 }}",
        "{{ fields.n | int * data.rows }}",
        "{{ fields.n | default([1]) * 100000000 }}",
    ] {
        let faults = Compiled::compile(&template(source)).unwrap_err();
        assert!(faults[0].message.contains("`*` needs a number"), "{source}: {faults:?}");
    }
    for source in ["{{ 2 * 3 }}", "{{ fields.area | length * -1.5 }}", "{{ '-' * 20 }}"] {
        assert!(Compiled::compile(&template(source)).is_ok(), "{source}");
    }
}
