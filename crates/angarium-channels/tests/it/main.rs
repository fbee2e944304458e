//! The adapters against scripted receivers on real sockets.

#[cfg(test)]
mod bounce;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod email;
#[cfg(test)]
mod message;
#[cfg(test)]
mod webhook;
