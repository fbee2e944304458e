//! One module per kind of channel: how a message becomes a request and an answer becomes an outcome.
