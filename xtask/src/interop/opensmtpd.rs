//! OpenSMTPD, which knows neither PIPELINING nor SMTPUTF8.

use std::path::Path;

use super::server::{Server, free_address};
use super::tree::Tree;
use super::{Certificate, DOMAIN, MAILBOXES};
use crate::failure::Failure;

const DAEMON: u32 = 65120;
const QUEUE: u32 = 65121;
const MAIL: u32 = 65122;

pub(crate) fn start(folder: &Path, certificate: &Certificate) -> Result<Server, Failure> {
    let tree = Tree::grow(folder, "opensmtpd", &["opensmtpd"])?;
    let nowhere = "/var/lib/opensmtpd/empty";
    let users = [("opensmtpd", DAEMON, nowhere), ("opensmtpq", QUEUE, nowhere), ("vmail", MAIL, "/var/mail")];
    tree.write_users(&users, &[])?;
    tree.give("var/lib/opensmtpd/empty", 0, 0, 0o755)?;
    tree.give("var/spool/smtpd", 0, 0, 0o711)?;
    tree.give("var/mail", MAIL, MAIL, 0o700)?;
    tree.certify("etc", certificate)?;
    tree.write("etc/mailname", "localhost\n")?;
    let boxes: String = MAILBOXES.iter().map(|name| format!("{name}@{DOMAIN} vmail\n")).collect();
    tree.write("etc/boxes", &boxes)?;

    let address = free_address()?;
    let port = address.port();
    let settings = format!(
        "pki localhost cert \"/etc/cert.pem\"\n\
         pki localhost key \"/etc/key.pem\"\n\
         table boxes file:/etc/boxes\n\
         listen on 127.0.0.1 port {port} tls pki localhost hostname localhost\n\
         action \"box\" maildir \"/var/mail/%{{rcpt.user}}\" virtual <boxes>\n\
         match from any for domain \"{DOMAIN}\" action \"box\"\n"
    );
    tree.write("etc/smtpd.conf", &settings)?;
    let environment = vec![
        ("INTEROP_OPENSMTPD", port.to_string()),
        ("INTEROP_OPENSMTPD_TREE", tree.path("").display().to_string()),
    ];
    let mut daemon = tree.command("/usr/sbin/smtpd");
    daemon.arg("-d");
    Server::start(&daemon, &folder.join("opensmtpd.log"), &[address], environment)
}
