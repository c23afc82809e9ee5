//! A function's body: the shared and local memory declared in it, and which module-scope names it mentions.
//!
//! Bodies are nearly all of a text, so they are walked byte by byte; words are only cut out where names matter, that is
//! in modules with module-scope shared variables.

use super::declaration::{parse_variables, Declaration};
use super::lexer::{in_word, Lexer};
use super::references::{laid_out, Name, References};

/// What a body declares and mentions.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// Size and alignment of its own shared variables, in order.
    pub shared: Vec<(u64, u64)>,
    pub local_bytes: u64,
    /// Each once.
    pub mentions: Vec<Name>,
}

/// Reads from behind the opening brace to behind the closing one.
pub(super) fn read(lexer: &mut Lexer<'_>, references: &References<'_>) -> Body {
    let mut body = Body::default();
    let names_matter = references.matter();
    let mut depth = 1usize;
    let mut before = b'{';
    while let Some(byte) = lexer.byte() {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            b'.' if !in_word(before) => read_directive(lexer, &mut body),
            _ if names_matter && begins_name(byte) && !in_word(before) && before != b'.' => {
                mention(lexer, references, &mut body);
            }
            _ => {}
        }
        before = byte;
    }
    body.mentions.sort_unstable();
    body.mentions.dedup();
    body
}

/// The lexer stands behind the dot of a directive.
fn read_directive(lexer: &mut Lexer<'_>, body: &mut Body) {
    let rest = lexer.rest();
    let starts = |name: &[u8]| rest.starts_with(name) && rest.get(name.len()).is_some_and(|byte| !in_word(*byte));
    let sized = |variables: Vec<Declaration<'_>>| -> Vec<(u64, u64)> {
        variables.iter().filter_map(|variable| Some((variable.size?, variable.align))).collect()
    };
    if starts(b"shared") {
        lexer.advance(b"shared".len());
        body.shared.extend(parse_variables(lexer).map(sized).unwrap_or_default());
    } else if starts(b"local") {
        lexer.advance(b"local".len());
        let variables = parse_variables(lexer).map(sized).unwrap_or_default();
        body.local_bytes = laid_out(body.local_bytes, variables.into_iter());
    }
}

/// The lexer stands behind a word's first byte, which a name of the module may begin with.
fn mention(lexer: &mut Lexer<'_>, references: &References<'_>, body: &mut Body) {
    let length = lexer.rest().iter().position(|byte| !in_word(*byte)).unwrap_or(lexer.rest().len());
    if let Some(name) = references.find(lexer.word_around(length)) {
        body.mentions.push(name);
    }
    // The last byte stays, as the one before whatever follows.
    lexer.advance(length.saturating_sub(1));
}

/// Registers begin with a percent sign, constants with a digit: neither is a name of the module.
fn begins_name(byte: u8) -> bool {
    in_word(byte) && byte != b'%' && !byte.is_ascii_digit()
}
