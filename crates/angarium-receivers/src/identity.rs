//! A name that a receiver can prove under TLS, made afresh: for tests alone.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate for one name, and the authority that issued it, which nobody trusts by itself.
pub struct Identity {
    /// The authority's certificate, PEM: whoever trusts it trusts the name.
    pub root_pem: String,
    /// What it takes to serve under the name.
    pub server: Arc<ServerConfig>,
}

impl Identity {
    /// An identity for `name`, a host name or an address.
    ///
    /// # Errors
    /// When no certificate can be made of that name.
    pub fn of(name: &str) -> Result<Identity, Box<dyn std::error::Error>> {
        let mut authority = rcgen::CertificateParams::new(Vec::new())?;
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let root = rcgen::CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate()?)?;
        let key = rcgen::KeyPair::generate()?;
        let leaf = rcgen::CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &root)?;
        let chain: Vec<CertificateDer<'static>> = vec![leaf.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Identity { root_pem: root.pem(), server: Arc::new(server) })
    }
}
