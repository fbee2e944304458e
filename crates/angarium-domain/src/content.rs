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

/// SHA-256 over recipient, subject, body and data. Where a notification came from, and when, is not part of
/// it: a resend through another node is still the same notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of a notification's content. `canonical_data` is [`crate::json::canonical`] of its data.
    pub fn of(recipient: &Recipient, subject: &Subject, body: &Body, canonical_data: Option<&str>) -> Self {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        match recipient {
            Recipient::List(list) => {
                part("list");
                part(list.as_str());
            }
            Recipient::Address { channel, address } => {
                part("address");
                part(channel.as_str());
                part(address.as_str());
            }
        }
        part(subject.as_str());
        part(body.as_str());
        part(canonical_data.unwrap_or(""));
        ContentHash(hash.finalize().into())
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
