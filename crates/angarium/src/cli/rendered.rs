//! A rendered text as people would read it.

use serde_json::Value;

use super::listing::text;
use super::members;
use super::output::Out;
use super::table::{escape, escape_lines};

/// The members that stand above and below the rest, in their own form.
const TOLD: [&str; 5] = ["title", "body", "subscription", "channel", "target"];

/// Title, body, and what else the receiver's provider is told.
pub(super) fn show(rendered: &Value, out: &mut Out) {
    for name in ["title", "body"] {
        let shown = escape_lines(&text(rendered, &[name]));
        shown.lines().for_each(|line| out.line(format!("  {line}").trim_end()));
    }
    members::show(rendered, &TOLD, out);
}

/// The same below a line that says whom it is for.
pub(super) fn show_for(rendered: &Value, out: &mut Out) {
    let [subscription, channel, target] =
        ["subscription", "channel", "target"].map(|name| text(rendered, &[name]));
    let to = if target.is_empty() { String::new() } else { format!(" to {target}") };
    let on = if channel.is_empty() { String::new() } else { format!(" on {channel}") };
    out.line(&escape(&format!("\u{2192} {subscription}{on}{to}")));
    show(rendered, out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::output::{Format, tests::Captured};

    #[test]
    fn a_text_and_whom_it_is_for() {
        let rendered = json!({"subscription": "ns_a", "channel": "hooks", "target": "https://h/", "title": "T\u{1b}",
            "body": "one\n\ntwo", "priority": 5, "cut": false, "html": null});
        let captured = Captured::default();
        show_for(&rendered, &mut captured.out(Format::Table));
        assert_eq!(
            captured.text(),
            "\u{2192} ns_a on hooks to https://h/\n  T\\u{1b}\n  one\n\n  two\npriority             5\n"
        );
    }
}
