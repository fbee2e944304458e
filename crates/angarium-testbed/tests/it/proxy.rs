//! What the proxy does to a connection, seen from a client and a server that answers each byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use angarium_testbed::proxy::{Direction, Proxy};

/// Long enough for what flows freely to arrive.
const A_WHILE: Duration = Duration::from_millis(300);

/// A server that sends back what it gets, and what it got on each connection once that has ended.
struct Echo {
    address: SocketAddr,
    journal: Receiver<Vec<u8>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (journal, received) = mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let journal = journal.clone();
                std::thread::spawn(move || journal.send(echo(client)));
            }
        });
        Echo { address, journal: received }
    }
}

fn echo(mut client: TcpStream) -> Vec<u8> {
    let (mut all, mut chunk) = (Vec::new(), [0; 1000]);
    while let Ok(length @ 1..) = client.read(&mut chunk) {
        all.extend_from_slice(&chunk[..length]);
        if client.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    all
}

fn start() -> (Echo, Proxy) {
    let echo = Echo::start();
    let proxy = Proxy::start(echo.address);
    (echo, proxy)
}

fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).unwrap()
}

/// Sends and gets it back.
fn exchange(mut client: &TcpStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
    assert_eq!(receive(client, text.len()), text);
}

fn receive(mut client: &TcpStream, length: usize) -> String {
    let mut back = vec![0; length];
    client.read_exact(&mut back).unwrap();
    String::from_utf8(back).unwrap()
}

/// Nothing arrives, not even an end.
fn assert_silent(mut client: &TcpStream) {
    client.set_read_timeout(Some(A_WHILE)).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    client.set_read_timeout(None).unwrap();
}

fn assert_reset(mut client: &TcpStream) {
    assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn bytes_and_the_end_of_them_pass() {
    let (echo, proxy) = start();
    let mut client = connect(&proxy);
    let much = "much ".repeat(100_000);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&client, &much));
    });
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(echo.journal.recv().unwrap().len(), much.len());
    proxy.await_connections(0);
    assert_eq!(proxy.cuts(), 0);
}

#[test]
fn what_is_frozen_is_late_but_not_lost() {
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let (_echo, proxy) = start();
        let mut client = connect(&proxy);
        exchange(&client, "before");
        proxy.freeze(direction);
        client.write_all(b"during").unwrap();
        assert_silent(&client);
        proxy.thaw(direction);
        assert_eq!(receive(&client, 6), "during", "{direction:?}");
    }
}

#[test]
fn one_frozen_direction_leaves_the_other_alone() {
    let (echo, proxy) = start();
    let mut client = connect(&proxy);
    proxy.freeze(Direction::ToClient);
    client.write_all(b"heard").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(echo.journal.recv().unwrap(), b"heard");
    assert_silent(&client);
    proxy.thaw(Direction::ToClient);
    let mut back = String::new();
    client.read_to_string(&mut back).unwrap();
    assert_eq!(back, "heard");
}

#[test]
fn the_end_of_a_server_is_not_seen_through_a_frozen_proxy() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    let mut client = connect(&proxy);
    let (server, _) = listener.accept().unwrap();
    proxy.freeze(Direction::Both);
    drop(server);
    assert_silent(&client);
    client.write_all(b"anybody there?").unwrap();
    assert_silent(&client);
    proxy.thaw(Direction::Both);
    assert!(!matches!(client.read(&mut [0]), Ok(1..)));
}

#[test]
fn a_cut_resets_all_connections_even_frozen_ones() {
    let (echo, proxy) = start();
    let clients = [connect(&proxy), connect(&proxy)];
    proxy.await_connections(2);
    exchange(&clients[0], "before");
    proxy.freeze(Direction::Both);
    (&clients[1]).write_all(b"never heard").unwrap();
    proxy.cut();
    clients.iter().for_each(assert_reset);
    assert_eq!((proxy.cuts(), proxy.connections()), (2, 0));
    let mut heard = [echo.journal.recv().unwrap(), echo.journal.recv().unwrap()];
    heard.sort();
    assert_eq!(heard, [b"".as_slice(), b"before"]);

    proxy.thaw(Direction::Both);
    exchange(&connect(&proxy), "after");
}

#[test]
fn a_cut_ends_a_connection_whose_client_does_not_read() {
    let (_echo, proxy) = start();
    let mut client = connect(&proxy);
    client.set_write_timeout(Some(A_WHILE)).unwrap();
    while client.write(&[0; 1000]).is_ok() {}
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn new_connections_are_refused_while_old_ones_live() {
    let (_echo, proxy) = start();
    let old = connect(&proxy);
    exchange(&old, "before");
    proxy.refuse(true);
    assert_reset(&connect(&proxy));
    exchange(&old, "still");
    proxy.refuse(false);
    exchange(&connect(&proxy), "after");
    assert_eq!(proxy.cuts(), 0);
}

#[test]
fn a_server_that_is_not_there_refuses_through_the_proxy() {
    let (echo, proxy) = start();
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    assert_reset(&connect(&Proxy::start(nobody)));
    drop((echo, proxy));
}

#[test]
fn the_server_hears_what_is_cut_after_and_the_client_no_answer() {
    let (echo, proxy) = start();
    let (other, mut client) = (connect(&proxy), connect(&proxy));
    exchange(&client, "before");
    proxy.cut_after(b"COMMIT");
    exchange(&client, "COMM");
    client.write_all(b"IT, and the rest").unwrap();
    proxy.await_cuts(1);
    assert_reset(&client);
    assert_eq!(echo.journal.recv().unwrap(), b"beforeCOMMIT, and the rest");

    exchange(&other, "COMMIT");
    assert_eq!(proxy.cuts(), 1);
}

#[test]
fn a_slow_server_still_hears_it_and_then_a_proper_end() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    proxy.cut_after(b"COMMIT");
    let mut client = connect(&proxy);
    let (mut server, _) = listener.accept().unwrap();
    client.write_all(b"COMMIT").unwrap();
    assert_reset(&client);
    proxy.await_connections(0);
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"COMMIT");
}

#[test]
fn occurrences_are_counted_over_all_connections_from_the_call_on() {
    let (_echo, proxy) = start();
    let clients = [connect(&proxy), connect(&proxy)];
    exchange(&clients[0], "COMMIT");
    proxy.cut_after_next(b"COMMIT", 4);
    exchange(&clients[0], "COMMIT COMMIT");
    exchange(&clients[1], "COMMIT");
    (&clients[1]).write_all(b"COMMIT").unwrap();
    assert_reset(&clients[1]);
    proxy.await_cuts(1);
    exchange(&clients[0], "COMMIT");
}

#[test]
fn delayed_bytes_arrive_in_the_end_and_a_cut_does_not_wait_for_them() {
    let (_echo, proxy) = start();
    let mut client = connect(&proxy);
    proxy.delay(Duration::from_millis(1));
    exchange(&client, "late");
    proxy.delay(Duration::from_secs(100_000));
    client.write_all(b"never").unwrap();
    assert_silent(&client);
    proxy.cut();
    assert_reset(&client);
}
