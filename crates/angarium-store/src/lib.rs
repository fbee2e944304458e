//! The durable store of Angarium. The only crate that names a database driver.
