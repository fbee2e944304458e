//! Angarium, a durable notification server: the binary.

fn main() {}
