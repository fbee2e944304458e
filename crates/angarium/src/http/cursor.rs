//! Where a listing goes on: an opaque text that names the last row that was shown.
//!
//! A cursor is a byte that says of which listing and version it is, what names the row there, and four bytes
//! that show that it was made here and not by counting. It gives no access to anything, so that no secret is
//! needed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use super::fields::Params;
use super::problem::{Code, Problem};

/// Rows of a page, unless the question says otherwise.
const PAGE: usize = 100;
/// Rows of a page at most.
const LARGEST_PAGE: usize = 500;

/// Of which listing a cursor is, so that none is taken for another. A listing whose cursors change gets a new
/// number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listing {
    Notifications = 1,
    Attempts = 2,
    Suppressions = 3,
    Events = 4,
    Feeds = 5,
    Lists = 6,
    Templates = 7,
    Subscriptions = 8,
}

/// The cursor after the row that `row` names.
pub(super) fn write(listing: Listing, row: &[u8]) -> String {
    let mut bytes = vec![listing as u8];
    bytes.extend(row);
    let sum = sum(&bytes);
    bytes.extend(sum);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What names the row, if the cursor was made here for this listing.
fn read(listing: Listing, text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (named, end) = bytes.split_last_chunk::<4>()?;
    let (first, row) = named.split_first()?;
    (*first == listing as u8 && *end == sum(named)).then(|| row.to_vec())
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    let hash = Sha256::new().chain_update(b"angarium cursor").chain_update(bytes).finalize();
    let mut sum = [0; 4];
    sum.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
    sum
}

/// Which page is asked for: `cursor` and `limit`.
pub(super) struct Slice<T> {
    cursor: Option<Option<T>>,
    limit: Option<usize>,
}

impl<T> Slice<T> {
    /// Takes both parameters; `row` says what a cursor names.
    pub(super) fn take(
        params: &mut Params,
        listing: Listing,
        row: impl FnOnce(Vec<u8>) -> Option<T>,
    ) -> Self {
        let cursor = params.take("cursor", |text| Ok::<_, &str>(read(listing, text).and_then(row)));
        let limit = params.take("limit", |text| match text.parse::<usize>() {
            Ok(limit) if (1..=LARGEST_PAGE).contains(&limit) => Ok(limit),
            _ => Err(format!("must be a number from 1 to {LARGEST_PAGE}")),
        });
        Slice { cursor, limit }
    }

    /// The row after which the page begins, and how many rows it has. A cursor that is none is told apart from
    /// other errors, because a program that pages reacts to it by starting anew.
    pub(super) fn finish(self, params: Params) -> Result<(Option<T>, usize), Problem> {
        params.finish()?;
        match self.cursor {
            Some(None) => Err(Problem::plain(Code::CursorInvalid)),
            cursor => Ok((cursor.flatten(), self.limit.unwrap_or(PAGE))),
        }
    }
}
