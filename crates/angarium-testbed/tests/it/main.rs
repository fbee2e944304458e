//! The testbed itself: a test that leans on it must not be fooled.

#[cfg(test)]
mod guard;
#[cfg(test)]
mod pooler;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod replication;
