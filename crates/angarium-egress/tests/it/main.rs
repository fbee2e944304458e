//! The client against real sockets: what it sends, what it makes of answers, and what it says when none comes.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod receiver;
#[cfg(test)]
mod send;
#[cfg(test)]
mod tls;
