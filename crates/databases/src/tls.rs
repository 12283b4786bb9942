//! TLS by rustls, with libpq's `sslmode`.
//!
//! `require` encrypts and looks at nothing, unless `sslrootcert` is given: then it is `verify-ca`, as libpq
//! has it. `verify-ca` wants a chain to a trusted root, `verify-full` also the host's name. A certificate
//! that is itself among the roots is trusted, so self-signed ones work. `sslrootcert=system` (the default)
//! means the machine's own list. `sslcert` and `sslkey` are the client's own, for servers that ask for
//! them.

use crate::{Error, Kind, Target};

/// How much TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The mode that a URL asks for.
pub(crate) fn mode(target: &Target, otherwise: SslMode) -> SslMode {
    match target.parameter("sslmode") {
        Some("disable") => SslMode::Disable,
        Some("allow") => SslMode::Allow,
        Some("prefer") => SslMode::Prefer,
        Some("require") if target.parameter("sslrootcert").is_some() => SslMode::VerifyCa,
        Some("require") => SslMode::Require,
        Some("verify-ca") => SslMode::VerifyCa,
        Some("verify-full") => SslMode::VerifyFull,
        _ => otherwise,
    }
}

/// Where Debian and its relatives keep the roots that the machine trusts.
pub(crate) const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

#[cfg(feature = "postgres")]
pub(crate) use client::client;

#[cfg(feature = "postgres")]
mod client {
    use super::*;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::client::{WebPkiServerVerifier, verify_server_name};
    use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
    use rustls::server::ParsedCertificate;
    use rustls::{CertificateError, DigitallySignedStruct, Error as TlsError, SignatureScheme};
    use std::sync::Arc;

    /// A client's side of TLS with this database, before any byte was sent.
    pub(crate) fn client(target: &Target) -> Result<rustls::ClientConnection, Error> {
        let wrong = |e: String| Error::new(Kind::Unsupported, format!("TLS: {e}"));
        let mode = mode(target, SslMode::Prefer);
        let provider = Arc::new(ring::default_provider());
        let chain = match mode {
            SslMode::VerifyCa | SslMode::VerifyFull => Some(roots(target, &provider).map_err(wrong)?),
            _ => None,
        };
        let names = mode == SslMode::VerifyFull;
        let verifier = Arc::new(Verifier { chain, names, provider: provider.clone() });
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| wrong(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match identity(target).map_err(wrong)? {
            Some((chain, key)) => {
                config.with_client_auth_cert(chain, key).map_err(|e| wrong(e.to_string()))?
            }
            None => config.with_no_client_auth(),
        };
        let name = target.certified.as_ref().unwrap_or(&target.parts.host);
        let name = ServerName::try_from(name.clone()).map_err(|e| wrong(e.to_string()))?.to_owned();
        rustls::ClientConnection::new(Arc::new(config), name).map_err(|e| wrong(e.to_string()))
    }

    type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

    /// Who the client is, if it says so.
    fn identity(target: &Target) -> Result<Option<Identity>, String> {
        let Some((certificate, key)) = target.parameter("sslcert").zip(target.parameter("sslkey")) else {
            return Ok(None);
        };
        let unreadable = |e| format!("{certificate}: {e}");
        let chain = CertificateDer::pem_file_iter(certificate).map_err(unreadable)?;
        let chain = chain.collect::<Result<_, _>>().map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|e| format!("{key}: {e}"))?;
        Ok(Some((chain, key)))
    }

    fn roots(target: &Target, provider: &Arc<CryptoProvider>) -> Result<Chain, String> {
        let path = match target.parameter("sslrootcert") {
            None | Some("system") => SYSTEM_ROOTS,
            Some(path) => path,
        };
        let unreadable = |e| format!("{path}: {e}");
        let certificates = CertificateDer::pem_file_iter(path).map_err(unreadable)?;
        let trusted: Vec<_> = certificates.collect::<Result<_, _>>().map_err(unreadable)?;
        let mut store = rustls::RootCertStore::empty();
        store.add_parsable_certificates(trusted.iter().cloned());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone());
        let verifier = verifier.build().map_err(|e| format!("{path}: {e}"))?;
        Ok(Chain { verifier, trusted })
    }

    #[derive(Debug)]
    struct Chain {
        verifier: Arc<WebPkiServerVerifier>,
        trusted: Vec<CertificateDer<'static>>,
    }

    #[derive(Debug)]
    struct Verifier {
        /// `None`: any certificate will do.
        chain: Option<Chain>,
        names: bool,
        provider: Arc<CryptoProvider>,
    }

    impl ServerCertVerifier for Verifier {
        fn verify_server_cert(
            &self,
            certificate: &CertificateDer<'_>,
            between: &[CertificateDer<'_>],
            name: &ServerName<'_>,
            ocsp: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, TlsError> {
            let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
            if chain.trusted.contains(certificate) {
                if self.names {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                }
                return Ok(ServerCertVerified::assertion());
            }
            match chain.verifier.verify_server_cert(certificate, between, name, ocsp, now) {
                Err(TlsError::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) if !self.names => Ok(ServerCertVerified::assertion()),
                other => other,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signature, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, TlsError> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    }
}
