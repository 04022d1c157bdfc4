//! TLS connections: the certificates that they trust and present.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::address::RequestError;

#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// A PEM file with trusted certificates. None for the system's certificates.
    pub ca: Option<PathBuf>,
    /// PEM files of the client's certificate and key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Accept any certificate.
    pub insecure: bool,
}

/// Reads the files; the error names the file.
pub fn connector(tls: &Tls) -> Result<TlsConnector, RequestError> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: &dyn std::fmt::Display| RequestError::new(format!("TLS: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    let builder = if tls.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
    } else {
        builder.with_root_certificates(trusted(tls)?)
    };
    let config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("--cert", certificate)?;
            // The parser's own error could quote the file.
            let key = PrivateKeyDer::from_pem_file(key).map_err(|_| {
                RequestError::new(format!("--key {}: this file has no private key in PEM format", key.display()))
            })?;
            builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn trusted(tls: &Tls) -> Result<RootCertStore, RequestError> {
    let mut roots = RootCertStore::empty();
    let found = match &tls.ca {
        Some(file) => certificates("--ca", file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(RequestError::new(match &tls.ca {
            Some(file) => format!("--ca {}: this file has no usable certificate", file.display()),
            None => "this system has no trusted certificates: give the server's certificate authority with --ca FILE"
                .to_string(),
        }));
    }
    Ok(roots)
}

fn certificates(flag: &str, file: &std::path::Path) -> Result<Vec<CertificateDer<'static>>, RequestError> {
    let read = CertificateDer::pem_file_iter(file).and_then(|found| found.collect::<Result<Vec<_>, _>>());
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => {
            Err(RequestError::new(format!("{flag} {}: this file has no certificate in PEM format", file.display())))
        }
        Err(error) => Err(RequestError::new(format!("{flag} {}: {error}; expected a PEM file", file.display()))),
    }
}

/// Accepts any certificate, for `--insecure`. The handshake's signature is still checked.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
