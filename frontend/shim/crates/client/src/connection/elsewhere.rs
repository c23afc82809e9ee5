//! A gateway's answer to the Hello: the session is opened at another host, which lets the guest in once by a token.
//!
//! The guest follows one such answer, and no second one. What it has shown to the gateway it shows to no other host. A
//! guest that has come by TLS goes on by TLS, and only to the host with the very certificate that the gateway has named.
//!
//! Source: protos/tape.md, "Gateways".

use crate::connection::security::Credentials;
use crate::generated_farlane_v1::Elsewhere;
use crate::{Endpoint, OpenError};

/// Where the session is opened, and what is shown there.
///
/// # Errors
/// The answer cannot be followed; why.
pub(crate) fn follow(gateway: &Endpoint, answer: &Elsewhere) -> Result<(Endpoint, Credentials), String> {
    let encrypted = gateway.is_encrypted();
    let endpoint: Endpoint = answer.url.parse().map_err(|_| "it names no address of a host".to_owned())?;
    let credentials = match &endpoint {
        Endpoint::Unix(_) | Endpoint::Vsock { .. } => {
            return Err("it leads to a socket of the guest's own machine".to_owned());
        }
        Endpoint::Tcp { tls: true, .. } => Credentials::pinned(&answer.certificate, &answer.token)?,
        Endpoint::Tcp { tls: false, .. } if encrypted => {
            return Err("it leads to a host without encryption".to_owned());
        }
        Endpoint::Tcp { tls: false, .. } => Credentials::plain(&answer.token)?,
    };
    Ok((endpoint, credentials))
}

/// Where a session has moved, and what is shown there; `None`: what the guest shows to any host.
///
/// # Errors
/// The answer cannot be followed; why.
pub(crate) fn moved(from: &Endpoint, answer: &Elsewhere) -> Result<(Endpoint, Option<Credentials>), String> {
    if !answer.token.is_empty() {
        return follow(from, answer).map(|(endpoint, credentials)| (endpoint, Some(credentials)));
    }
    let endpoint: Endpoint = answer.url.parse().map_err(|_| "names no address of a host".to_owned())?;
    match (from, &endpoint) {
        (Endpoint::Tcp { tls: before, .. }, Endpoint::Tcp { tls: after, .. }) if before == after => {
            Ok((endpoint, None))
        }
        _ => Err(format!("leads to {endpoint}, which is another kind of address")),
    }
}

/// The session's host cannot be reached: it is one of the gateway's, and the guest has not named it.
pub(crate) fn led(gateway: &Endpoint, error: OpenError) -> OpenError {
    let message = format!("{}; the gateway at {gateway} has led there: try again", error.message);
    OpenError { message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "grpc://gateway:1";
    const TLS: &str = "farlane+tls://gateway:1";

    fn answer(url: &str, token: &str, certificate: &[u8]) -> Elsewhere {
        Elsewhere { url: url.to_owned(), token: token.to_owned(), certificate: certificate.to_vec() }
    }

    #[test]
    fn a_session_moves_to_the_same_kind_of_address() {
        let to = |from: &str, url: &str| {
            let found = moved(&from.parse().unwrap(), &answer(url, "", b""));
            found.map(|(endpoint, named)| (endpoint.to_string(), named.is_some()))
        };
        assert_eq!(to(PLAIN, "grpc://other:2"), Ok(("grpc://other:2".to_owned(), false)));
        assert_eq!(to(TLS, "farlane+tls://other:2"), Ok(("farlane+tls://other:2".to_owned(), false)));
        for (from, url) in [(PLAIN, "farlane+tls://other:2"), (TLS, "grpc://other:2"), (PLAIN, "unix:///socket")] {
            assert!(to(from, url).unwrap_err().contains("another kind of address"), "{url}");
        }
        assert!(to(PLAIN, "nowhere").unwrap_err().contains("no address"));
    }

    fn outcome(gateway: &str, answer: &Elsewhere) -> Result<(Endpoint, Credentials), String> {
        follow(&gateway.parse().expect("an endpoint"), answer)
    }

    #[test]
    fn a_host_is_followed_with_the_token_that_is_for_it() {
        let (endpoint, shown) = outcome(PLAIN, &answer("grpc://host:2", "once", b"")).expect("followed");
        assert_eq!(endpoint.to_string(), "grpc://host:2");
        assert!(shown.tls.is_none());
        assert_eq!(shown.token.expect("a token").to_str().expect("text"), "Bearer once");
        for gateway in [PLAIN, TLS] {
            let (_, shown) = outcome(gateway, &answer("farlane+tls://host:2", "once", b"der")).expect("followed");
            assert!(shown.tls.is_some() && shown.token.is_some());
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        for (gateway, answer, why) in [
            (PLAIN, answer("", "once", b""), "names no address"),
            (PLAIN, answer("http://host:2", "once", b""), "names no address"),
            (PLAIN, answer("unix:///run/docker.sock", "once", b""), "own machine"),
            (PLAIN, answer("vsock://2:22", "once", b""), "own machine"),
            (TLS, answer("vsock+tls://2:22", "once", b"der"), "own machine"),
            (PLAIN, answer("grpc://host:2", "", b""), "no token"),
            (PLAIN, answer("grpc://host:2", "two words", b""), "no token"),
            (TLS, answer("grpc://host:2", "once", b""), "without encryption"),
            (TLS, answer("farlane+tls://host:2", "once", b""), "no certificate"),
            (TLS, answer("farlane+tls://host:2", "", b"der"), "no token"),
        ] {
            let error = outcome(gateway, &answer).err().expect(why);
            assert!(error.contains(why), "{error}");
        }
    }

    /// Whatever a gateway says, a guest that has come by TLS is not led to a host without, and none to a socket file.
    #[test]
    fn random_answers_lead_nowhere_else() {
        let mut state = 0x5eed_0001_u64;
        let mut below = |limit: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % limit as u64).expect("small")
        };
        let pieces = [
            "grpc://",
            "farlane+tls://",
            "unix://",
            "vsock://",
            "/",
            "host",
            "[::1]",
            ":",
            "7070",
            "0",
            "@",
            " ",
            "\0",
            "\u{fc}",
            "#",
        ];
        let mut followed = 0;
        for _ in 0..fuzzing::inputs(100_000) {
            let mut url: String = ["grpc://host:7070", "farlane+tls://h:1", ""][below(3)].to_owned();
            for _ in 0..below(4) {
                let at = (0..=below(url.len() + 1)).rev().find(|&at| url.is_char_boundary(at)).unwrap_or(0);
                url.insert_str(at, pieces[below(pieces.len())]);
            }
            let token: String =
                (0..below(300)).map(|_| char::from_u32(33 + below(94) as u32).expect("ASCII")).collect();
            let certificate = vec![below(256) as u8; below(3)];
            let answer = answer(&url, &token, &certificate);
            for gateway in [PLAIN, TLS] {
                let Ok((endpoint, shown)) = outcome(gateway, &answer) else { continue };
                followed += 1;
                let Endpoint::Tcp { tls, .. } = endpoint else { panic!("{url}") };
                assert!(tls || gateway == PLAIN, "{url}");
                assert_eq!(tls, shown.tls.is_some());
                assert!(shown.token.is_some());
            }
        }
        assert!(followed > 1000, "{followed}");
    }
}
