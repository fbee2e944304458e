//! What was rendered before, so that a text that many share is made once (FP-20).
//!
//! Two generations: what is asked for moves to the young one, and when that is full it becomes the old one and the old
//! one goes. So what is in use stays, and never more than two generations are kept. Whoever asks for what is just being
//! made waits for it instead of making it again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use angarium_domain::id::EventId;
use angarium_domain::template::Template;

use super::{Compiled, Facts, Fault, Rendered};

/// Texts in a generation.
const TEXTS: usize = 4096;
/// Bytes of texts in a generation, but for what is added last.
const BYTES: usize = 16 * 1024 * 1024;
/// Compiled templates in a generation.
const TEMPLATES: usize = 512;

/// Which state of which source row a text is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowVersion {
    /// The row: the event that brought it, or the signal itself.
    pub row: EventId,
    /// Its version: another one whenever what it says may have changed.
    pub version: i64,
}

/// Compiled templates and rendered texts, bounded. Shared by reference.
#[derive(Debug, Default)]
pub struct Renderings {
    templates: Mutex<Generations<TemplateVersion, Result<Compiled, Vec<Fault>>>>,
    texts: Mutex<Generations<Key, Result<Arc<Rendered>, Fault>>>,
}

/// A template's name and version.
type TemplateVersion = (String, i64);

/// All that a text depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    template: TemplateVersion,
    signal: EventId,
    row: RowVersion,
    locale: Option<String>,
    subscription: Option<String>,
}

impl Renderings {
    /// The template compiled; its version is another one whenever its texts have changed.
    pub fn compiled(&self, template: &Template, version: i64) -> Result<Compiled, Vec<Fault>> {
        let place = locked(&self.templates).place((template.name(), version), TEMPLATES, BYTES);
        let compiled = place.get_or_init(|| Compiled::compile(template));
        compiled.clone()
    }

    /// The text of an event for whoever it is the same for. A fault is kept like a text: what it depends on does not change
    /// either.
    pub fn render(
        &self,
        template: &Template,
        version: i64,
        row: RowVersion,
        facts: &Facts<'_>,
    ) -> Result<Arc<Rendered>, Fault> {
        let compiled = self.compiled(template, version).map_err(first)?;
        let key = Key {
            template: (template.name(), version),
            signal: facts.event_id,
            row,
            locale: facts.locale.filter(|_| compiled.uses_recipient()).map(ToString::to_string),
            subscription: facts.subscription.filter(|_| compiled.uses_subscription()).map(str::to_owned),
        };
        let place = locked(&self.texts).place(key, TEXTS, BYTES);
        let mut made = 0;
        let text = place.get_or_init(|| {
            let text = compiled.render(facts).map(Arc::new);
            made = text.as_ref().map_or(0, |text| text.size());
            text
        });
        if made > 0 {
            locked(&self.texts).bytes += made;
        }
        text.clone()
    }
}

/// A template that is refused has at least one fault.
fn first(faults: Vec<Fault>) -> Fault {
    let none = || Fault::of("", super::FaultKind::Syntax, "is refused");
    faults.into_iter().next().unwrap_or_else(none)
}

/// Nothing panics while it holds the lock but for want of memory; what is in there then is still whole.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place that is filled once, by whoever comes first.
type Place<V> = Arc<OnceLock<V>>;

#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<K, Place<V>>,
    old: HashMap<K, Place<V>>,
    /// Of what was made since the young generation began.
    bytes: usize,
}

impl<K, V> Default for Generations<K, V> {
    fn default() -> Self {
        Generations { young: HashMap::new(), old: HashMap::new(), bytes: 0 }
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// The place for `key`, in the young generation from now on.
    fn place(&mut self, key: K, entries: usize, bytes: usize) -> Place<V> {
        if let Some(place) = self.young.get(&key) {
            return Arc::clone(place);
        }
        if self.young.len() >= entries || self.bytes >= bytes {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        let place = self.old.remove(&key).unwrap_or_default();
        self.young.insert(key, Arc::clone(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_two_generations_are_kept() {
        let mut kept: Generations<u32, u32> = Generations::default();
        for key in 0..1000 {
            kept.place(key, 10, 100);
            assert!(kept.young.len() + kept.old.len() <= 20);
        }
        kept.bytes = 100;
        kept.place(1000, 10, 100);
        assert_eq!((kept.young.len(), kept.bytes), (1, 0));
    }

    #[test]
    fn what_is_asked_for_stays() {
        let mut kept: Generations<u32, u32> = Generations::default();
        kept.place(0, 10, 100).set(7).unwrap();
        for key in 1..1000 {
            kept.place(key, 10, 100);
            assert_eq!(kept.place(0, 10, 100).get(), Some(&7));
        }
    }
}
