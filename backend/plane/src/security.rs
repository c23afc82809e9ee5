//! TLS on the host's side: the certificate that it shows, which guests' certificates it believes.
//!
//! The files are read again when they have changed: each new connection looks at their times. Files that cannot be used
//! leave what was there before, and the log says so.
//!
//! Source: RFC 8446; protos/tape.md, "TLS".

use crate::server::Inner;
use crate::socket::{Socket, Stream};
use bytes::Bytes;
use parking_lot::Mutex;
use rustls::crypto::{aws_lc_rs, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{version, RootCertStore, ServerConfig};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::BufReader;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// The largest file of a certificate or a key that is read.
const FILE_BYTES: u64 = limits::ACCESS_FILE_BYTES as u64;
/// HTTP/2, by its name in TLS.
const HTTP2: &[u8] = b"h2";

/// Where the host's certificate and key are, and the authorities of its guests' certificates.
#[derive(Debug, Clone)]
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authorities: PathBuf,
}

impl Files {
    /// When each has changed.
    fn times(&self) -> [Option<SystemTime>; 3] {
        [&self.certificate, &self.key, &self.authorities]
            .map(|path| fs::metadata(path).and_then(|found| found.modified()).ok())
    }

    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let guests = Some(read(&self.authorities)?);
        config(&read(&self.certificate)?, &read(&self.key)?, guests.as_deref())
    }
}

/// What encrypted connections are made with.
#[derive(Debug)]
pub struct Security {
    /// `None`: it never changes.
    files: Option<Files>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    times: [Option<SystemTime>; 3],
    config: Arc<ServerConfig>,
}

impl Security {
    /// # Errors
    /// A file that cannot be used; in words.
    pub fn from_files(files: Files) -> Result<Self, String> {
        let current = Current { times: files.times(), config: files.read()? };
        Ok(Self { files: Some(files), current: Mutex::new(current) })
    }

    /// With one certificate and its key, in PEM. Guests show none.
    ///
    /// # Errors
    /// They are none; in words.
    pub fn fixed(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let current = Current { times: [None; 3], config: config(certificate, key, None)? };
        Ok(Self { files: None, current: Mutex::new(current) })
    }

    fn config(&self, inner: &Inner) -> Arc<ServerConfig> {
        let mut current = self.current.lock();
        if let Some(files) = &self.files {
            let times = files.times();
            if times != current.times {
                current.times = times;
                match files.read() {
                    Ok(config) => current.config = config,
                    Err(why) => inner.warn(format_args!("the host's certificate stays as it was: {why}")),
                }
            }
        }
        current.config.clone()
    }
}

/// What HTTP/2 goes over, and the guest's certificate, where it has shown one. TLS begins and ends within `limit`.
///
/// # Errors
/// The connection is lost, or it is to be encrypted and the guest or the host cannot do that.
pub(crate) fn open(
    inner: &Inner,
    runtime: &Runtime,
    socket: Socket,
    limit: Duration,
) -> io::Result<(Box<dyn Stream>, Option<Bytes>)> {
    let encrypted = socket.is_encrypted();
    let stream = {
        let _inside = runtime.enter();
        socket.adopt()?
    };
    if !encrypted {
        return Ok((stream, None));
    }
    let security = inner.options.security.as_ref().ok_or_else(|| io::Error::from(ErrorKind::Unsupported))?;
    let stream = BufReader::with_capacity(limits::TLS_READ_BYTES, stream);
    let accepting = TlsAcceptor::from(security.config(inner))
        .accept_with(stream, |tls| tls.set_buffer_limit(Some(limits::TLS_WRITE_BYTES)));
    let accepted = runtime.block_on(async { tokio::time::timeout(limit, accepting).await });
    let stream = accepted.map_err(|_| io::Error::new(ErrorKind::TimedOut, "TLS takes too long"))??;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.map(|found| Bytes::copy_from_slice(found));
    Ok((Box::new(stream), certificate))
}

fn config(certificate: &[u8], key: &[u8], guests: Option<&[u8]>) -> Result<Arc<ServerConfig>, String> {
    let provider = if encrypts_by_aws_lc() { aws_lc_rs::default_provider() } else { ring::default_provider() };
    let provider = Arc::new(provider);
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .map_err(|error| error.to_string())?;
    let builder = match guests {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(pem)? {
                roots.add(authority).map_err(|error| error.to_string())?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|error| error.to_string())?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("there is no private key: {error}"))?;
    let mut config = builder.with_single_cert(certificates(certificate)?, key).map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    config.send_tls13_tickets = 0; // a guest whose certificate was revoked takes no session up again
    Ok(Arc::new(config))
}

/// Whether the host does not use ring, as guests do, for it is smaller: AWS-LC's ciphers take half of ring's time by
/// AVX-512, and twice as long without it.
#[must_use]
pub fn encrypts_by_aws_lc() -> bool {
    #[cfg(target_arch = "x86_64")]
    let found = is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vaes");
    #[cfg(not(target_arch = "x86_64"))]
    let found = true;
    found
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("there is no certificate".to_owned()),
        Err(error) => Err(format!("there is no valid certificate: {error}")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| format!("{}: {error}", path.display()))
}
