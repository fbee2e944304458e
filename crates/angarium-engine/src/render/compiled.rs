//! A template, ready to render.

use std::collections::BTreeSet;
use std::sync::Arc;

use angarium_domain::feed::Feed;
use angarium_domain::template::Template;
use angarium_domain::text::FieldName;
use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, filters,
};

use super::fault::{Fault, FaultKind};
use super::survey::{FUNCTIONS, survey};
use super::{Facts, Rendered, identity, one_line, seen};

/// What one part may do and make: one for each step and for each 64 bytes.
const FUEL: u64 = 50_000;
/// Bytes that one part may come to.
const OUTPUT: usize = 256 * 1024;

/// A template, ready to render. Cheap to clone; all clones share what was compiled.
#[derive(Clone, Debug)]
pub struct Compiled(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    parts: Environment<'static>,
    html: bool,
    sequence_id: bool,
    tags: usize,
    priority: Option<u8>,
    /// The names after `fields`, and for each its fault if the feed has no such field.
    fields: Vec<(String, Fault)>,
    subscription: bool,
    recipient: bool,
}

impl Compiled {
    /// Compiles every part. What is wrong with any of them, all at once: syntax, and filters, tests, functions and
    /// statements that there are not.
    pub fn compile(template: &Template) -> Result<Compiled, Vec<Fault>> {
        let mut inner = Inner {
            parts: environment(),
            html: template.html.is_some(),
            sequence_id: template.sequence_id.is_some(),
            tags: template.tags.len(),
            priority: template.priority,
            fields: Vec::new(),
            subscription: false,
            recipient: false,
        };
        let mut faults = Vec::new();
        for (part, source) in sources(template) {
            if let Err(found) = inner.take(part, source) {
                faults.extend(found);
            }
        }
        if faults.is_empty() { Ok(Compiled(Arc::new(inner))) } else { Err(faults) }
    }

    /// What its texts take for granted and the feed does not declare, as far as can be told without an event: fields, and
    /// names that no event has. An event may have fields besides, so that this is a warning and no refusal.
    pub fn unknown_fields(&self, feed: &Feed) -> Vec<Fault> {
        let declared = |name: &str| FieldName::parse(name).is_ok_and(|name| feed.field(&name).is_some());
        let mut faults: Vec<Fault> = Vec::new();
        for (name, fault) in &self.0.fields {
            if !declared(name) {
                faults.push(fault.clone());
            }
        }
        for (part, template) in self.0.parts.templates() {
            let names: BTreeSet<String> = template.undeclared_variables(false).into_iter().collect();
            let known = |name: &str| seen::ROOTS.contains(&name) || FUNCTIONS.contains(&name);
            for name in names.iter().filter(|name| !known(name)) {
                faults.push(Fault::of(part, FaultKind::Undefined, &format!("`{name}` is not known here")));
            }
        }
        faults
    }

    /// Whether its texts may differ from subscription to subscription.
    pub fn uses_subscription(&self) -> bool {
        self.0.subscription
    }

    /// Whether its texts may differ from recipient to recipient.
    pub fn uses_recipient(&self) -> bool {
        self.0.recipient
    }

    /// Renders every part, or says what is wrong with the first that cannot be.
    pub fn render(&self, facts: &Facts<'_>) -> Result<Rendered, Fault> {
        let inner = &*self.0;
        let seen = seen::values(facts);
        let sequence_id = match inner.sequence_id {
            true => one_line(&inner.part("sequence_id", &seen)?),
            false => String::new(),
        };
        let mut tags = Vec::new();
        for n in 0..inner.tags {
            tags.push(one_line(&inner.part(&tag(n), &seen)?));
        }
        tags.retain(|tag| !tag.is_empty());
        Ok(Rendered {
            title: one_line(&inner.part("subject", &seen)?),
            body: inner.part("body", &seen)?,
            html: inner.html.then(|| inner.part("html", &seen)).transpose()?,
            sequence_id: match sequence_id.as_str() {
                "" => identity::of(facts.signal),
                name => identity::given(name),
            },
            tags,
            priority: inner.priority,
            cut: false,
        })
    }
}

impl Inner {
    /// Adds a part; nothing of it is compiled before its words were looked at.
    fn take(&mut self, part: String, source: &str) -> Result<(), Vec<Fault>> {
        let found = survey(&part, source);
        if !found.faults.is_empty() {
            return Err(found.faults);
        }
        for (name, at) in found.fields {
            let message = format!("the feed has no field `{name}`");
            let fault = Fault::at(&part, source, at, FaultKind::Undefined, &message);
            self.fields.push((name, fault));
        }
        self.subscription |= found.subscription;
        self.recipient |= found.recipient;
        let added = self.parts.add_template_owned(part.clone(), source.to_owned());
        added.map_err(|error| vec![Fault::of_source(&part, source, &error)])
    }

    fn part(&self, part: &str, seen: &Value) -> Result<String, Fault> {
        let missing = |_| Fault::of(part, FaultKind::Other, "was not compiled");
        let template = self.parts.get_template(part).map_err(missing)?;
        let rendered = template.render(seen.clone());
        let text = rendered.map_err(|error| Fault::of_rendering(part, template.source(), &error))?;
        if text.len() > OUTPUT {
            let message = format!("came to {} bytes, at most {OUTPUT} are allowed", text.len());
            return Err(Fault::of(part, FaultKind::Limit, &message));
        }
        // No database keeps it, and a template can make it without any event's help.
        Ok(text.replace('\0', ""))
    }
}

/// One environment for each template. It loads nothing, and by its part's name, which is ours, it knows what to escape.
fn environment() -> Environment<'static> {
    let mut parts = Environment::new();
    parts.set_undefined_behavior(UndefinedBehavior::Strict);
    parts.set_fuel(Some(FUEL));
    parts.set_auto_escape_callback(|part| match part {
        "html" => AutoEscape::Html,
        _ => AutoEscape::None,
    });
    parts.set_formatter(write);
    parts.add_filter("join", join);
    parts
}

/// Writes a value into a text; what JSON has words for, in those.
fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Bool if value.is_true() => Ok(out.write_str("true")?),
        ValueKind::Bool => Ok(out.write_str("false")?),
        ValueKind::None => Ok(out.write_str("null")?),
        ValueKind::Seq | ValueKind::Iterable => {
            all_defined(value)?;
            minijinja::escape_formatter(out, state, value)
        }
        _ => minijinja::escape_formatter(out, state, value),
    }
}

/// The engine's own takes an undefined member for an empty text.
fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        all_defined(value)?;
    }
    filters::join(state, value, joiner, attribute, kwargs)
}

/// Neither looking at the members nor writing them costs fuel, so that no list is longer than fuel would last.
fn all_defined(list: &Value) -> Result<(), Error> {
    for (n, member) in (0..).zip(list.try_iter()?) {
        if n > FUEL {
            return Err(Error::new(ErrorKind::OutOfFuel, "a list has more members than can be rendered"));
        }
        if member.is_undefined() {
            return Err(Error::new(ErrorKind::UndefinedError, "a member of the list is undefined"));
        }
    }
    Ok(())
}

/// Every part of a template by its name.
fn sources(template: &Template) -> Vec<(String, &str)> {
    let always =
        [("subject".to_owned(), template.subject.as_str()), ("body".to_owned(), template.body.as_str())];
    let html = template.html.as_deref().map(|html| ("html".to_owned(), html));
    let sequence_id = template.sequence_id.as_deref().map(|id| ("sequence_id".to_owned(), id));
    let tags = template.tags.iter().enumerate().map(|(n, text)| (tag(n), text.as_str()));
    always.into_iter().chain(html).chain(sequence_id).chain(tags).collect()
}

fn tag(n: usize) -> String {
    format!("tags[{n}]")
}
