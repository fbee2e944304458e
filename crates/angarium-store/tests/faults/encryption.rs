//! Who the server is, and who we are: proven under TLS and by password, and told apart when it is not.

use angarium_testbed::postgres::{self, Server, Setup, Tls};
use tempfile::TempDir;

use crate::support::*;

const PASSWORD: &str = "canary p@ss:w%rd'";

/// A certificate for `localhost`, and the file with the authority that issued it.
fn identity(folder: &TempDir, name: &str) -> (Tls, String) {
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &root).unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, root.pem()).unwrap();
    (Tls { certificate: leaf.pem(), key: key.serialize_pem() }, file.display().to_string())
}

fn verified(url: &str, root: &str) -> String {
    format!("{}?sslmode=verify-full&sslrootcert={root}", url.replace("127.0.0.1", "localhost"))
}

/// A certificate that proves the name, and a password by SCRAM, open the database; anything less is refused in words
/// that say what is wrong, and never hold the password.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_proves_who_they_are_gets_in_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let (tls, root) = identity(&folder, "root.pem");
    let (_, stranger) = identity(&folder, "stranger.pem");
    let access = vec!["hostnossl all angarium all reject".to_owned()];
    let setup = Setup { password: Some(PASSWORD.to_owned()), tls: Some(tls), access, ..Setup::default() };
    let server = Server::start_with(&setup);
    let url = server.create_database();
    let store = opened(&verified(&url, &root)).await;
    assert_eq!(accept(&store, "alarm").await, taken("alarm", false));
    let encrypted =
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'angarium'";
    assert_eq!(server.sql("postgres", encrypted), "t");

    let good = verified(&url, &root);
    let nowhere = folder.path().join("nowhere.pem").display().to_string();
    let elsewhere = postgres::fresh_database();
    for (bad, told) in [
        (verified(&url, &stranger), "certificate"),
        (good.replace("localhost", "127.0.0.1"), "certificate"),
        (verified(&url, &nowhere), "nowhere.pem"),
        (verified(&elsewhere.url, &root), "TLS"),
        (good.replace("canary", "canny"), "password authentication failed"),
        (good.replace(&good[good.find(":canary").unwrap()..good.find('@').unwrap()], ""), "password"),
        (url.clone(), "no encryption"),
    ] {
        let why = refusal(&bad).await.to_string();
        assert!(why.contains(told), "{told}: {why}");
        assert!(!why.contains("cann") && !why.contains("canary") && !why.contains("p@ss"), "{told}: {why}");
    }
}
