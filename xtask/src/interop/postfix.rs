//! Postfix, with mailboxes, logins, and answers that tests can choose.
//!
//! A test that writes `answers/ADDRESS` decides what is answered to a recipient from then on (`450 4.2.1 busy`);
//! removing the file ends it. Mail to `late@` is taken and bounces afterwards.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use super::server::{Server, free_address};
use super::tree::Tree;
use super::{Certificate, DOMAIN, MAILBOXES, PASSWORD, USER};
use crate::failure::Failure;

const PACKAGES: [&str; 4] = ["postfix", "sasl2-bin", "libsasl2-modules", "libsasl2-modules-db"];

const POSTFIX: u32 = 65110;
const POSTDROP: u32 = 65111;
const NOBODY: u32 = 65534;

const QUEUES: [&str; 11] = [
    "active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private", "saved",
    "trace",
];

/// Asked about each recipient, it answers what the test wrote down, or nothing in particular.
const ANSWERS: &str = r#"recipient=
while read -r line; do
    case $line in
    recipient=*) recipient=${line#recipient=} ;;
    '')
        action=DUNNO
        [ -e "/var/answers/$recipient" ] && read -r action <"/var/answers/$recipient"
        printf 'action=%s\n\n' "$action"
        ;;
    esac
done
"#;

const LOGINS: &str = "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nmech_list: PLAIN LOGIN\n";

/// What Postfix runs besides its listeners.
const SERVICES: &str = "\
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
proxymap unix - - n - - proxymap
postlog unix-dgram n - n - 1 postlogd
answers unix - n n - 0 spawn
  user=nobody argv=/bin/sh /etc/answers
";

const SETTINGS: &str = "\
compatibility_level = 3.7
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = localhost
mydestination =
local_recipient_maps =
mynetworks =
maillog_file = /var/log/mail.log
smtpd_tls_cert_file = /etc/postfix/cert.pem
smtpd_tls_key_file = /etc/postfix/key.pem
smtpd_tls_received_header = yes
smtpd_sasl_auth_enable = yes
smtpd_sasl_local_domain = localhost
smtpd_sasl_authenticated_header = yes
smtpd_tls_auth_only = yes
cyrus_sasl_config_path = /etc/postfix/sasl
smtpd_recipient_limit = 3
smtpd_relay_restrictions =
smtpd_recipient_restrictions = reject_unauth_destination, check_policy_service unix:private/answers
message_size_limit = 200000
virtual_mailbox_base = /var/mail
transport_maps = inline:{{gone.example=error:5.1.1 no such user}}
";

pub(crate) fn start(folder: &Path, certificate: &Certificate) -> Result<Server, Failure> {
    let tree = Tree::grow(folder, "postfix", &PACKAGES)?;
    let users = [("postfix", POSTFIX, "/var/spool/postfix"), ("nobody", NOBODY, "/tmp")];
    tree.write_users(&users, &[("postdrop", POSTDROP)])?;
    for queue in QUEUES {
        tree.give(&format!("var/spool/postfix/{queue}"), POSTFIX, 0, 0o700)?;
    }
    tree.give("var/spool/postfix/pid", 0, 0, 0o755)?;
    tree.give("var/spool/postfix/maildrop", POSTFIX, POSTDROP, 0o730)?;
    tree.give("var/spool/postfix/public", POSTFIX, POSTDROP, 0o710)?;
    tree.give("var/lib/postfix", POSTFIX, POSTFIX, 0o700)?;
    tree.give("var/mail", POSTFIX, POSTFIX, 0o700)?;
    tree.give("var/answers", 0, 0, 0o755)?;
    tree.certify("etc/postfix", certificate)?;
    tree.write("etc/answers", ANSWERS)?;
    tree.write("etc/postfix/sasl/smtpd.conf", LOGINS)?;
    add_user(&tree)?;

    let (starttls, implicit, narrow) = (free_address()?, free_address()?, free_address()?);
    let listeners = format!(
        "{starttls} inet n - n - - smtpd -o smtpd_tls_security_level=encrypt\n\
         {implicit} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes -o smtpd_timeout=2s\n\
         {narrow} inet n - n - - smtpd -o smtpd_client_connection_count_limit=2\n"
    );
    tree.write("etc/postfix/master.cf", &(listeners + SERVICES))?;
    tree.write("etc/postfix/main.cf", &(SETTINGS.to_owned() + &mailboxes()))?;
    let environment = vec![
        ("INTEROP_POSTFIX", starttls.port().to_string()),
        ("INTEROP_POSTFIX_TLS", implicit.port().to_string()),
        ("INTEROP_POSTFIX_NARROW", narrow.port().to_string()),
        ("INTEROP_POSTFIX_TREE", tree.path("").display().to_string()),
    ];
    let mut master = tree.command("/usr/lib/postfix/sbin/master");
    master.arg("-d");
    Server::start(&master, &folder.join("postfix.log"), &[starttls, implicit, narrow], environment)
}

/// One of the mailboxes has a name beyond ASCII.
fn mailboxes() -> String {
    let boxes = MAILBOXES.into_iter().chain(["jürgen"]).map(|name| format!("{{{name}@{DOMAIN}={name}/}}"));
    format!(
        "virtual_mailbox_domains = {DOMAIN}\n\
         virtual_mailbox_maps = inline:{{{}}}\n\
         virtual_alias_maps = inline:{{{{late@{DOMAIN}=late@gone.example}}}}\n\
         virtual_uid_maps = static:{POSTFIX}\n\
         virtual_gid_maps = static:{POSTFIX}\n",
        boxes.collect::<Vec<_>>().join(" ")
    )
}

/// Writes down the login, which Postfix reads by way of Cyrus SASL.
fn add_user(tree: &Tree) -> Result<(), Failure> {
    let mut program = tree.command("/usr/sbin/saslpasswd2");
    program.args(["-p", "-c", "-u", "localhost", USER]).stdin(Stdio::piped());
    let wrong = |error: &dyn std::fmt::Display| Failure::Wrong(format!("saslpasswd2: {error}"));
    let mut process = program.spawn().map_err(|error| wrong(&error))?;
    if let Some(mut input) = process.stdin.take() {
        input.write_all(PASSWORD.as_bytes()).map_err(|error| wrong(&error))?;
    }
    let status = process.wait().map_err(|error| wrong(&error))?;
    if !status.success() {
        return Err(wrong(&status));
    }
    let file = tree.path("etc/sasldb2");
    std::os::unix::fs::chown(&file, Some(POSTFIX), None).map_err(super::tree::at(&file))
}
