//! What TLS's ciphers cost by themselves, the measure of what benchmarks/copies.py prints: no socket, no records. One line of JSON, microseconds.
//!
//! Usage: cipher BYTES ROUNDS
//!
//! Encrypts and decrypts BYTES in place, in pieces as long as TLS's records, with the guest's library (ring) and with the host's.

use plane::security::encrypts_by_aws_lc;
use std::error::Error;

/// The longest record of TLS (RFC 8446, 5.1), and what GCM and Poly1305 put behind it.
const RECORD_BYTES: usize = 16 << 10;
const TAG_BYTES: usize = 16;

/// The two libraries have the same interface.
macro_rules! library {
    ($library:ident) => {
        mod $library {
            use super::{RECORD_BYTES, TAG_BYTES};
            use ::$library::aead::{
                Aad, Algorithm, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305, NONCE_LEN,
            };
            use ::$library::error::Unspecified;
            use std::hint::black_box;
            use std::time::Instant;

            fn nonce() -> Nonce {
                Nonce::assume_unique_for_key([0; NONCE_LEN]) // nothing of it is ever sent
            }

            /// Median times of encrypting and of decrypting.
            fn measure(cipher: &'static Algorithm, bytes: usize, rounds: usize) -> Result<[f64; 2], Unspecified> {
                let key = LessSafeKey::new(UnboundKey::new(cipher, &vec![7; cipher.key_len()])?);
                let mut data = vec![1; bytes];
                let mut sealed =
                    data.chunks(RECORD_BYTES).map(|piece| vec![0; piece.len() + TAG_BYTES]).collect::<Vec<_>>();
                let mut times = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
                for _ in 0..rounds {
                    for (piece, sealed) in data.chunks(RECORD_BYTES).zip(&mut sealed) {
                        sealed.truncate(piece.len());
                        sealed.copy_from_slice(piece);
                    }
                    let started = Instant::now();
                    for piece in &mut sealed {
                        key.seal_in_place_append_tag(nonce(), Aad::empty(), piece)?;
                    }
                    times[0].push(started.elapsed().as_nanos());
                    let started = Instant::now();
                    for piece in &mut sealed {
                        key.open_in_place(nonce(), Aad::empty(), piece)?;
                    }
                    times[1].push(started.elapsed().as_nanos());
                    black_box(&mut data);
                }
                Ok(times.map(|mut times| {
                    times.sort_unstable();
                    times[times.len() / 2] as f64 / 1000.0
                }))
            }

            /// Of each cipher.
            pub fn all(side: &str, bytes: usize, rounds: usize) -> Result<Vec<String>, String> {
                let ciphers = [("aes_128", &AES_128_GCM), ("aes_256", &AES_256_GCM), ("chacha20", &CHACHA20_POLY1305)];
                let mut found = Vec::new();
                for (name, cipher) in ciphers {
                    let [seal, open] = measure(cipher, bytes, rounds).map_err(|_| format!("{name} cannot be used"))?;
                    found.push(format!("\"{side}_{name}_seal\": {seal:.4}, \"{side}_{name}_open\": {open:.4}"));
                }
                Ok(found)
            }
        }
    };
}

library!(ring);
library!(aws_lc_rs);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bytes, rounds] = &arguments[..] else { return Err("usage: cipher BYTES ROUNDS".into()) };
    let (bytes, rounds) = (bytes.parse()?, rounds.parse()?);
    let of_host = if encrypts_by_aws_lc() { aws_lc_rs::all } else { ring::all };
    let found = [ring::all("guest", bytes, rounds)?, of_host("host", bytes, rounds)?].concat();
    println!("{{{}}}", found.join(", "));
    Ok(())
}
