//! An encrypted connection to the server: its certificate is always checked against its name.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::Tls;
use crate::error::{Result, StoreError};

/// The connector for these settings. The file is read anew each time, so that a renewed authority is taken up.
pub(super) fn connector(tls: &Tls) -> Result<MakeRustlsConnect> {
    let mut roots = RootCertStore::empty();
    match &tls.root_certificate {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unusable =
                |why: String| StoreError::Refused(format!("sslrootcert {}: {why}", file.display()));
            let certificates =
                CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("holds no certificate".into()));
            }
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
