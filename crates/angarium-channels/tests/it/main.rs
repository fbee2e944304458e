//! The adapters against scripted receivers on real sockets.

#[cfg(test)]
mod contract;
#[cfg(test)]
mod webhook;
