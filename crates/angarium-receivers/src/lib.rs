//! Scripted receivers that speak the real protocols over real sockets, for tests and the demo.
