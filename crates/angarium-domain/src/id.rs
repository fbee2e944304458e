//! Ids: the producer's own, and those made here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::chance::Chance;
use crate::time::Clock;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// A new time-ordered id (UUID version 7, RFC 9562).
            pub fn generate(clock: &dyn Clock, chance: &dyn Chance) -> Self {
                let mut random = [0; 10];
                chance.fill(&mut random);
                let millis = u64::try_from(clock.now().micros() / 1000).unwrap_or(0);
                $name(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
            }

            /// The id that stands for a key, such as an idempotency key: the same for the same `scope` and `key`, and
            /// for no other (UUID version 8 over SHA-256). `scope` says whose key it is, and for what.
            pub fn derived(scope: &[&str], key: &str) -> Self {
                $name(uuid_from(scope.iter().copied().chain([key])))
            }

            /// The id as a plain UUID.
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                $name(uuid)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = NotAUuid;

            /// Takes the 36-character form alone, in either case.
            fn from_str(text: &str) -> Result<Self, NotAUuid> {
                if text.len() != 36 {
                    return Err(NotAUuid);
                }
                Uuid::try_parse(text).map($name).map_err(|_| NotAUuid)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// The UUID under which a producer knows its notification. Shown in lower case with hyphens.
    NotificationId
);
id!(
    /// Our own id of an event. Shown in lower case with hyphens.
    EventId
);

/// A UUID (version 8) that depends on all of `parts`, on nothing else, and on where one part ends.
pub fn uuid_from<'a>(parts: impl IntoIterator<Item = &'a str>) -> Uuid {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    for (byte, hashed) in bytes.iter_mut().zip(hash.finalize()) {
        *byte = hashed;
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// The text is not a UUID with hyphens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a UUID such as 01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59")]
pub struct NotAUuid;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::SeededChance;
    use crate::time::{ManualClock, Timestamp};

    #[test]
    fn generated_ids_follow_time() {
        let clock = ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000));
        let chance = SeededChance::new(7);
        let first = NotificationId::generate(&clock, &chance);
        clock.advance(std::time::Duration::from_millis(1));
        let second = NotificationId::generate(&clock, &chance);
        assert!(first < second);
        assert_eq!(first.uuid().get_version_num(), 7);
    }

    /// C002: the same key under another API key or endpoint is another id.
    #[test]
    fn c002_derived_ids_are_scoped() {
        let mine = NotificationId::derived(&["plant-a", "/v1/notifications"], "42");
        assert_eq!(mine, NotificationId::derived(&["plant-a", "/v1/notifications"], "42"));
        assert_ne!(mine, NotificationId::derived(&["plant-b", "/v1/notifications"], "42"));
        assert_ne!(mine, NotificationId::derived(&["plant-a", "/v1/events"], "42"));
        assert_ne!(NotificationId::derived(&["ab"], "c"), NotificationId::derived(&["a"], "bc"));
    }

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id: NotificationId = "01976E5C-8A5E-7C3A-9A0B-2F5D1C3B4A59".parse().unwrap();
        assert_eq!(id.to_string(), "01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a59");
        for text in ["", "42", "01976e5c8a5e7c3a9a0b2f5d1c3b4a59", "{01976e5c-8a5e-7c3a-9a0b-2f5d1c3b4a5}"] {
            assert_eq!(text.parse::<NotificationId>(), Err(NotAUuid), "{text}");
        }
    }
}
