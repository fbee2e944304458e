//! Headers and query parameters that several routes take, and long lists of them.

use super::Param;

pub(super) const fn query_param(name: &'static str, about: &'static str) -> Param {
    Param { name, about, header: false, required: false }
}

pub(super) const IDEMPOTENCY_KEY: Param = Param {
    name: "Idempotency-Key",
    about: "1 to 255 visible ASCII characters. A notification without an id of its own gets one that is \
            derived from the name of the API key, this header, and its place in a batch, so that a resend is \
            stored once; the answer to a resend carries `Idempotency-Replayed: true`. Where the body has an \
            id, the id decides and the header is ignored.",
    header: true,
    required: false,
};

pub(super) const LIST_PARAMS: &[Param] = &[
    query_param("status", "Only with this status."),
    query_param("kind", "Only of this kind of channel."),
    query_param("channel", "Only on this channel."),
    query_param("list", "Only to this list."),
    query_param("site", "Only from this site."),
    query_param("node", "Only from this node of a site."),
    query_param("q", "Only with this text in the subject, in either case of ASCII letters."),
    query_param("since", "Only accepted at or after this RFC 3339 time."),
    query_param("until", "Only accepted before this RFC 3339 time."),
    query_param("stuck", "`true`: only pending or retrying ones that are older than the configured age."),
    CURSOR,
    LIMIT,
];

pub(super) const PAGE_PARAMS: &[Param] = &[CURSOR, LIMIT];

pub(super) const CURSOR: Param = query_param("cursor", "The `next` of the page before.");
pub(super) const LIMIT: Param = query_param("limit", "Items of a page, 1 to 500; 100 if it is not given.");

pub(super) const SUPPRESSION_PARAMS: &[Param] = &[
    Param { required: true, ..query_param("channel", "The channel.") },
    Param { required: true, ..query_param("address", "The address.") },
];
