//! The URL of a host, as a guest reads it. The grammar is `farlane.hosturl`'s (protos/hosturl).

use crate::config::ConfigError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const PLAIN: &str = "grpc://";
const TLS: &str = "farlane+tls://";
const VSOCK: &str = "vsock://";
const VSOCK_TLS: &str = "vsock+tls://";
/// The name for which the certificate of a host on vsock is valid.
const VSOCK_NAME: &str = "localhost";

pub(crate) const FORMS: &str =
    "grpc://NAME:PORT, farlane+tls://NAME:PORT, unix:///PATH, vsock://CID:PORT or vsock+tls://CID:PORT";

/// Where the host listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `tls`: encrypted, and the host proves its name.
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
    /// A connection between a virtual machine and its hypervisor's machine. `tls`: as for TCP, by the name "localhost".
    Vsock {
        cid: u32,
        port: u32,
        tls: bool,
    },
}

impl Endpoint {
    /// Whether what is sent stays on this machine, virtual ones on it included.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) | Self::Vsock { .. } => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }

    /// Whether what is sent is encrypted, and the host proves its name.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. } | Self::Vsock { tls: true, .. })
    }

    /// For which the host's certificate is valid, where it shows one.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) | Self::Vsock { .. } => VSOCK_NAME,
        }
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = |what: &str| Err(ConfigError(format!("\"{text}\" {what}: the host is {FORMS} (FARLANE_HOST)")));
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') && !path.ends_with('/') && !path.contains('\0') {
                Ok(Self::Unix(PathBuf::from(path)))
            } else {
                wrong("does not name an absolute path")
            };
        }
        if let Some((address, tls)) = scheme(text, VSOCK, VSOCK_TLS) {
            let (cid, port) = address.strip_suffix('/').unwrap_or(address).split_once(':').unwrap_or((address, ""));
            return match (number(cid), number(port)) {
                (Some(cid), Some(port)) if port != 0 => Ok(Self::Vsock { cid, port, tls }),
                (None, _) => wrong("has no valid CID"),
                _ => wrong("has no valid port"),
            };
        }
        let Some((address, tls)) = scheme(text, PLAIN, TLS) else { return wrong("is not the address of a host") };
        let Some((host, port)) = address.strip_suffix('/').unwrap_or(address).rsplit_once(':') else {
            return wrong("has no port");
        };
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let valid = match bracketed {
            Some(inside) => inside.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || "/:[]@?#".contains(c)),
        };
        if !valid {
            return wrong("has no valid host name");
        }
        let digits = (1..=5).contains(&port.len()) && port.bytes().all(|digit| digit.is_ascii_digit());
        match port.parse::<u16>() {
            Ok(port) if digits && port != 0 => Ok(Self::Tcp { host: bracketed.unwrap_or(host).to_owned(), port, tls }),
            _ => wrong("has no valid port"),
        }
    }
}

/// What follows the scheme, and whether it is the encrypted one.
fn scheme<'a>(text: &'a str, plain: &str, tls: &str) -> Option<(&'a str, bool)> {
    text.strip_prefix(plain).map(|rest| (rest, false)).or_else(|| text.strip_prefix(tls).map(|rest| (rest, true)))
}

/// A CID or a port of vsock; the highest one stands for any.
fn number(text: &str) -> Option<u32> {
    let digits = (1..=10).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number != u32::MAX)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, tls } => {
                let scheme = if *tls { TLS } else { PLAIN };
                if host.contains(':') {
                    write!(f, "{scheme}[{host}]:{port}")
                } else {
                    write!(f, "{scheme}{host}:{port}")
                }
            }
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Vsock { cid, port, tls } => write!(f, "{}{cid}:{port}", if *tls { VSOCK_TLS } else { VSOCK }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Result<Endpoint, String> {
        text.parse::<Endpoint>().map_err(|e| e.to_string())
    }

    /// The cases that the Python side's parser is tested with, too.
    #[test]
    fn host_urls_mean_the_same_on_both_sides() {
        let cases = include_str!("../../../../../protos/hosturl/cases.tsv");
        let mut taken = 0;
        for line in cases.lines().filter(|line| !line.starts_with('#')) {
            let parts: Vec<&str> = line.split('\t').collect();
            let expected = match parts[1..] {
                [kind @ ("tcp" | "tls"), host, port] => {
                    Some(Endpoint::Tcp { host: host.into(), port: port.parse().unwrap(), tls: kind == "tls" })
                }
                [kind @ ("vsock" | "vsock+tls"), cid, port] => Some(Endpoint::Vsock {
                    cid: cid.parse().unwrap(),
                    port: port.parse().unwrap(),
                    tls: kind == "vsock+tls",
                }),
                ["unix", path] => Some(Endpoint::Unix(path.into())),
                ["refused"] => None,
                _ => panic!("{line}"),
            };
            let found = endpoint(parts[0]).ok();
            assert_eq!(found, expected, "{line}");
            if let Some(url) = found {
                assert_eq!(endpoint(&url.to_string()), Ok(url));
                taken += 1;
            }
        }
        assert!(taken > 5);
    }

    #[test]
    fn local_endpoints_are_known() {
        for (text, local) in [
            ("unix:///s", true),
            ("vsock://2:1", true),
            ("grpc://localhost:1", true),
            ("grpc://127.0.0.2:1", true),
            ("grpc://[::1]:1", true),
            ("grpc://10.0.0.1:1", false),
            ("grpc://host:1", false),
        ] {
            assert_eq!(endpoint(text).map(|e| e.is_local()), Ok(local), "{text}");
        }
    }

    #[test]
    fn bad_endpoints_say_what_is_wrong() {
        for (text, word) in [
            ("localhost:7000", "not the address"),
            ("http://h:1", "not the address"),
            ("grpc://h", "no port"),
            ("grpc://h:0", "valid port"),
            ("grpc://h:65536", "valid port"),
            ("grpc://:80", "host name"),
            ("grpc://a/b:80", "host name"),
            ("grpc://::1:80", "host name"),
            ("unix://relative", "absolute"),
            ("vsock://host:1", "valid CID"),
            ("vsock://2", "valid port"),
            ("", "not the address"),
        ] {
            let message = endpoint(text).expect_err(text);
            assert!(message.contains(word) && message.contains("grpc://NAME:PORT"), "{message}");
        }
    }
}
