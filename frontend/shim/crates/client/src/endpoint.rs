//! The URL of a host, as a guest reads it. The grammar is `farlane.hosturl`'s (protos/hosturl).

use crate::config::ConfigError;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

const PLAIN: &str = "grpc://";
const TLS: &str = "farlane+tls://";

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
}

impl Endpoint {
    /// Whether what is sent stays on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
            }
        }
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = |what: &str| {
            Err(ConfigError(format!(
                "\"{text}\" {what}: the host is grpc://NAME:PORT, farlane+tls://NAME:PORT or unix:///PATH (FARLANE_HOST)"
            )))
        };
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') && !path.ends_with('/') && !path.contains('\0') {
                Ok(Self::Unix(PathBuf::from(path)))
            } else {
                wrong("does not name an absolute path")
            };
        }
        let (address, tls) = match (text.strip_prefix(PLAIN), text.strip_prefix(TLS)) {
            (Some(address), _) => (address, false),
            (_, Some(address)) => (address, true),
            (None, None) => return wrong("is not the address of a host"),
        };
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
            ("", "not the address"),
        ] {
            let message = endpoint(text).expect_err(text);
            assert!(message.contains(word) && message.contains("grpc://NAME:PORT"), "{message}");
        }
    }
}
