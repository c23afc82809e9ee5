//! Lines for the user on stderr (`client::log`), with the names of kernels as the program's source has them.
//!
//! Owns demangling: a word of a line that a C++ compiler mangled (`_Z5storePii`) becomes `store(int*, int)`, by the
//! C++ library that the program has loaded. Without one, the word stays as it is. A function's references multiply the
//! length of what a short name stands for, so a name with many of them stays as it is, too.
//!
//! Source: the Itanium C++ ABI, "External Names" and "Demangler API".

use std::borrow::Cow;
use std::ffi::{c_char, c_int, CStr, CString};
use std::fmt;

use crate::process::real;
pub use client::log::{level, line, Level};
use limits::{MANGLED_BYTES, MANGLED_REFERENCES};

pub fn error(message: fmt::Arguments<'_>) {
    shown(Level::Error, message);
}

pub fn warn(message: fmt::Arguments<'_>) {
    shown(Level::Warn, message);
}

pub fn info(message: fmt::Arguments<'_>) {
    shown(Level::Info, message);
}

pub fn debug(message: fmt::Arguments<'_>) {
    shown(Level::Debug, message);
}

fn shown(line_level: Level, message: fmt::Arguments<'_>) {
    if line_level <= level() {
        line(line_level, format_args!("{}", readable(&message.to_string())));
    }
}

/// The text with each mangled name demangled.
fn readable(text: &str) -> Cow<'_, str> {
    if !text.contains("_Z") {
        return Cow::Borrowed(text);
    }
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let in_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
        let word = &rest[..rest.find(|c| !in_word(c)).unwrap_or(rest.len())];
        let skipped = rest[word.len()..].find(in_word).unwrap_or(rest.len() - word.len());
        found.push_str(&demangled(word).unwrap_or_else(|| word.to_owned()));
        found.push_str(&rest[word.len()..word.len() + skipped]);
        rest = &rest[word.len() + skipped..];
    }
    Cow::Owned(found)
}

fn demangled(word: &str) -> Option<String> {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    if !word.starts_with("_Z") || word.len() > MANGLED_BYTES || references(word) > MANGLED_REFERENCES {
        return None;
    }
    let function = real::function_of(&[c"libstdc++.so.6", c"libc++abi.so.1"], c"__cxa_demangle");
    if function.is_null() {
        return None;
    }
    let (name, mut status) = (CString::new(word).ok()?, 0);
    // SAFETY: the C++ library's function, as the ABI declares it; the text that it answers is ours to free.
    unsafe {
        let demangle: Demangle = std::mem::transmute(function);
        let text = demangle(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), &mut status);
        if text.is_null() {
            return None;
        }
        let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
        libc::free(text.cast());
        Some(owned)
    }
}

/// At least as many as a name's references to what stands before it (`S1_`, `T_`), and its packs.
fn references(word: &str) -> usize {
    word.bytes().filter(|byte| matches!(byte, b'S' | b'T')).count() + word.matches("Dp").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mangled_stays() {
        for text in ["", "kernel saxpy: x", "_Z", "a_Zb, (_Znothing) \u{fc} _Z", "_ZN"] {
            assert_eq!(readable(text), text);
        }
        let long = format!("_Z1fI{}", "S_".repeat(25));
        assert_eq!(readable(&long), long);
    }

    #[test]
    fn names_are_demangled_in_place() {
        // SAFETY: a library of this machine, which a C++ program has loaded.
        let library = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return; // no C++ library on this machine: names stay
        }
        let shown = readable("kernel _Z5storePii: (_ZN4grid4stepEf, plain and 7 more)");
        assert_eq!(shown, "kernel store(int*, int): (grid::step(float), plain and 7 more)");
    }
}
