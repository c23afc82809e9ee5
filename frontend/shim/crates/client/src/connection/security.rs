//! TLS to a host, and what the guest shows there to be let in: a token or a client certificate.
//!
//! The host proves its name by a certificate of an authority that the guest trusts. A session's own process proves
//! itself by the very certificate that the host has named in the Welcome. Nothing secret is sent before.
//!
//! Source: RFC 8446; protos/tape.md, "TLS".

use crate::config::Token;
use crate::connection::channel::{adopt, Bytes};
use crate::connection::connect::Socket;
use crate::{Access, Config, Endpoint, OpenError, OpenReason, Welcome};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    version, CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use tokio::io::BufReader;
use tokio_rustls::TlsConnector;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::Request;

/// The largest file of a token, a certificate or a key that is read.
const FILE_BYTES: u64 = limits::ACCESS_FILE_BYTES as u64;
/// The longest token.
const TOKEN_BYTES: usize = 256;
/// HTTP/2, by its name in TLS.
const HTTP2: &[u8] = b"h2";

/// What a connection is made with.
#[derive(Default)]
pub(crate) struct Credentials {
    /// `None`: the endpoint is not encrypted.
    pub(crate) tls: Option<Tls>,
    pub(crate) token: Option<MetadataValue<Ascii>>,
}

pub(crate) struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Credentials {
    /// For the process of a session.
    ///
    /// # Errors
    /// The host has named no certificate, or no token.
    pub(crate) fn of_process(welcome: &Welcome) -> Result<Self, String> {
        Self::pinned(&welcome.process_certificate, &welcome.process_token)
    }

    /// For whom a host has named a certificate and a token.
    ///
    /// # Errors
    /// One of them is missing.
    pub(crate) fn pinned(certificate: &[u8], token: &str) -> Result<Self, String> {
        if certificate.is_empty() {
            return Err("it has no certificate".to_owned());
        }
        let provider = provider();
        let certificate = CertificateDer::from(certificate.to_vec());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned { certificate, provider }))
            .with_no_client_auth();
        let name = ServerName::try_from("farlane-session").map_err(|error| error.to_string())?;
        Ok(Self { tls: Some(Tls::new(config, name)), token: Some(named(token)?) })
    }

    /// For a host without TLS that lets a guest in once. The user's own token is never sent so.
    ///
    /// # Errors
    /// There is no token.
    pub(crate) fn plain(token: &str) -> Result<Self, String> {
        Ok(Self { tls: None, token: Some(named(token)?) })
    }
}

impl Tls {
    fn new(mut config: ClientConfig, name: ServerName<'static>) -> Self {
        config.alpn_protocols = vec![HTTP2.to_vec()];
        Self { config: Arc::new(config), name }
    }
}

/// What the settings say; nothing for an endpoint that is not encrypted.
///
/// # Errors
/// A file that cannot be used.
pub(crate) fn credentials(config: &Config) -> Result<Credentials, OpenError> {
    if !config.endpoint.is_encrypted() {
        return Ok(Credentials::default());
    }
    let host = config.endpoint.name();
    let local =
        |why: String| OpenError::new(OpenReason::Local, format!("cannot connect to {}: {why}", config.endpoint));
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| local(format!("\"{host}\" is no name that a certificate can have")))?;
    let own = client_config(&config.access).map_err(local)?;
    let token = config.access.token.as_ref().map(read_token).transpose().map_err(local)?;
    Ok(Credentials { tls: Some(Tls::new(own, name)), token })
}

/// A request that shows the token, where there is one.
pub(crate) fn authorize<T>(message: T, token: Option<&MetadataValue<Ascii>>) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        request.metadata_mut().insert("authorization", token.clone());
    }
    request
}

/// The bytes that HTTP/2 goes over: the socket's, or those inside TLS.
///
/// # Errors
/// The host is not the one that it should be.
pub(crate) async fn secure(
    endpoint: &Endpoint,
    socket: Socket,
    tls: Option<&Tls>,
    full: Arc<AtomicBool>,
) -> Result<Box<dyn Bytes>, OpenError> {
    let socket = adopt(socket, full).map_err(|error| refused(endpoint, &error))?;
    let Some(tls) = tls else { return Ok(Box::new(socket)) };
    let socket = BufReader::with_capacity(limits::TLS_READ_BYTES, socket);
    let connector = TlsConnector::from(tls.config.clone());
    match connector
        .connect_with(tls.name.clone(), socket, |tls| tls.set_buffer_limit(Some(limits::TLS_WRITE_BYTES)))
        .await
    {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(refused(endpoint, &error)),
    }
}

fn refused(endpoint: &Endpoint, error: &io::Error) -> OpenError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match tls {
        Some(Error::InvalidCertificate(problem)) => match problem {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "its certificate is signed by no authority that this guest trusts: set FARLANE_CA to the host's ca.pem"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: renew it on the host with `farlane host renew`".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                let name = endpoint.name();
                format!(
                    "its certificate is not for the name {name}: connect by one that it is for, or add this one on the \
                     host with `farlane host renew --name {name}`"
                )
            }
            other => format!("its certificate is not valid ({other})"),
        },
        Some(Error::InvalidMessage(_)) => "it does not speak TLS: is it a grpc:// address?".to_owned(),
        Some(other) => format!("TLS failed: {other}"),
        None => {
            let why = match error.kind() {
                ErrorKind::UnexpectedEof => {
                    "it may have no room for another one, or this is a grpc:// address".to_owned()
                }
                _ => error.to_string(),
            };
            let message = format!("the host at {endpoint} ended the connection before it said who it is: {why}");
            return OpenError::new(OpenReason::Refused, message);
        }
    };
    OpenError::new(OpenReason::Refused, format!("the host at {endpoint} is not trusted: {why}"))
}

/// AES-128 first: it is the faster one.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn client_config(access: &Access) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(access)?);
    let Some((certificate, key)) = &access.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate, "FARLANE_CERTIFICATE")?;
    let bytes = read(key, "FARLANE_KEY")?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|error| format!("FARLANE_KEY, {}, has no private key: {error}", key.display()))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| format!("FARLANE_CERTIFICATE and FARLANE_KEY do not belong together: {error}"))
}

fn roots(access: &Access) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &access.ca {
        for certificate in certificates(path, "FARLANE_CA")? {
            roots.add(certificate).map_err(|error| format!("FARLANE_CA, {}: {error}", path.display()))?;
        }
        return Ok(roots);
    }
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("this system has no root certificates: set FARLANE_CA to the host's ca.pem".to_owned());
    }
    Ok(roots)
}

fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path, what)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{what}, {}, has no certificate", path.display())),
        Err(error) => Err(format!("{what}, {}, has no valid certificate: {error}", path.display())),
    }
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{what}, {}, cannot be read: {error}", path.display()))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("{what}, {}, is larger than {FILE_BYTES} bytes", path.display()));
    }
    Ok(bytes)
}

fn read_token(token: &Token) -> Result<MetadataValue<Ascii>, String> {
    match token {
        Token::Given(text) => bearer(text.trim()).map_err(|why| format!("FARLANE_TOKEN {why}")),
        Token::File(path) => {
            let text = String::from_utf8_lossy(&read(path, "FARLANE_TOKEN_FILE")?).into_owned();
            bearer(text.trim()).map_err(|why| format!("FARLANE_TOKEN_FILE, {}, {why}", path.display()))
        }
    }
}

/// A token that a host has named.
fn named(token: &str) -> Result<MetadataValue<Ascii>, String> {
    bearer(token).map_err(|_| "it has no token".to_owned())
}

/// Never says the token.
fn bearer(token: &str) -> Result<MetadataValue<Ascii>, String> {
    if token.is_empty() || token.len() > TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("holds no token: `farlane token create` prints one".to_owned());
    }
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}").parse().map_err(|_| "holds no token".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Takes this one certificate and no other, whatever its signature.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *shown == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    /// TLS 1.2 is not offered.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_of_bounded_length() {
        let value = bearer("farlane-abc_-1").expect("a token");
        assert_eq!(value.to_str().expect("text"), "Bearer farlane-abc_-1");
        assert!(value.is_sensitive(), "no log shows it");
        assert!(bearer(&"x".repeat(TOKEN_BYTES)).is_ok());
        for wrong in ["", "two words", "a\r\nb", "\u{fc}", "a\0", &"x".repeat(TOKEN_BYTES + 1)] {
            let why = bearer(wrong).expect_err(wrong);
            assert!(wrong.is_empty() || !why.contains(wrong), "{why}");
        }
    }

    #[test]
    fn nothing_is_shown_without_tls() {
        let mut config = Config::new("grpc://localhost:1".parse().expect("an endpoint"));
        config.access.token = Some(Token::Given("secret".to_owned()));
        let found = credentials(&config).expect("credentials");
        assert!(found.tls.is_none() && found.token.is_none());
        assert!(!format!("{config:?}").contains("secret"));
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let mut config = Config::new("farlane+tls://localhost:1".parse().expect("an endpoint"));
        config.access.ca = Some("/nonexistent/ca.pem".into());
        let error = credentials(&config).err().expect("no file").to_string();
        assert!(error.contains("FARLANE_CA, /nonexistent/ca.pem, cannot be read"), "{error}");
        config.access.ca = Some("/dev/zero".into());
        let error = credentials(&config).err().expect("too large").to_string();
        assert!(error.contains("is larger than"), "{error}");
        config.access.ca = Some("/dev/null".into());
        let error = credentials(&config).err().expect("empty").to_string();
        assert!(error.contains("has no certificate"), "{error}");
    }

    #[test]
    fn a_process_without_a_certificate_or_a_token_is_not_trusted() {
        let mut welcome = Welcome { process_token: "token".to_owned(), ..Welcome::default() };
        assert!(Credentials::of_process(&welcome).is_err());
        welcome.process_certificate = vec![1, 2, 3];
        assert!(Credentials::of_process(&welcome).is_ok(), "what it is compared with need be none");
        welcome.process_token.clear();
        assert!(Credentials::of_process(&welcome).is_err());
    }
}
