//! What makes two notifications the same one sent twice.

use sha2::{Digest, Sha256};

use crate::address::Address;
use crate::text::{Body, ChannelName, ListName, Subject};

/// Whom a producer wants told: a list by name, or one address on a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The members that the list has when the notification is first attempted.
    List(ListName),
    /// One address on a configured channel.
    Address {
        /// The channel that delivers.
        channel: ChannelName,
        /// Where to.
        address: Address,
    },
}

/// SHA-256 over what somebody said. For a notification that is recipient, subject, body and data. Where it came from, and
/// when, is not part of it: a resend through another node is still the same notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of a notification's content. `canonical_data` is [`crate::json::canonical`] of its data.
    pub fn of(recipient: &Recipient, subject: &Subject, body: &Body, canonical_data: Option<&str>) -> Self {
        let to = match recipient {
            Recipient::List(list) => vec!["list", list.as_str()],
            Recipient::Address { channel, address } => vec!["address", channel.as_str(), address.as_str()],
        };
        let text = [subject.as_str(), body.as_str(), canonical_data.unwrap_or("")];
        ContentHash::of_parts(to.into_iter().chain(text))
    }

    /// The hash of all of `parts`, in their order and with where one ends. What each of them is must follow from those
    /// before it.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        ContentHash(hash.finalize().into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// Hashes are stored: what they are must never change.
    #[test]
    fn the_hash_of_a_notification_stays_what_it_was() {
        let limits = Limits::default();
        let list = Recipient::List(ListName::parse("ops").unwrap());
        let subject = Subject::parse("s".to_owned(), &limits).unwrap();
        let body = Body::parse("b".to_owned(), &limits).unwrap();
        let hash = ContentHash::of(&list, &subject, &body, Some("{}"));
        let hex: String = hash.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "63017c3339f9f1d9ab049d7441e49f9ccf55e8c8c64aab7ddc9f780697fcbb7f");
    }

    #[test]
    fn where_a_part_ends_counts() {
        assert_eq!(ContentHash::of_parts(["a", "bc"]), ContentHash::of_parts(["a", "bc"]));
        assert_ne!(ContentHash::of_parts(["a", "bc"]), ContentHash::of_parts(["ab", "c"]));
        assert_ne!(ContentHash::of_parts(["a"]), ContentHash::of_parts(["a", ""]));
    }
}
