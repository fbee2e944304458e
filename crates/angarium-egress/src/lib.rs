//! The one way out: an HTTP client whose every connection passes the address guard. The only crate that names an HTTP client.
