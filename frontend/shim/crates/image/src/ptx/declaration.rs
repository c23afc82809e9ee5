//! PTX variable and parameter declarations: `.align 4 .v2 .f32 name[8][2] = {...}, other;`
//!
//! Source: PTX ISA, "Variables" and "Kernel function parameters".

use super::lexer::{Lexer, Token};

/// One declared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declaration<'a> {
    pub name: &'a str,
    /// Bytes; `None` for an array without a length.
    pub size: Option<u64>,
    pub align: u64,
    pub managed: bool,
}

/// Bytes of a fundamental type, by its directive.
fn scalar_size(directive: &str) -> Option<u64> {
    Some(match directive {
        ".b8" | ".u8" | ".s8" | ".e4m3" | ".e5m2" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" | ".e4m3x2" | ".e5m2x2" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" | ".tf32" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        // Opaque references are 64-bit handles.
        ".texref" | ".samplerref" | ".surfref" => 8,
        _ => return None,
    })
}

/// The type in front of the declared names.
struct Type {
    size: u64,
    align: u64,
    managed: bool,
}

/// Parses from behind the state space up to the name, which it returns too.
fn parse_type<'a>(lexer: &mut Lexer<'a>) -> Result<(Type, &'a str), String> {
    let (mut size, mut align, mut lanes, mut pointer, mut managed) = (None, None, 1, false, false);
    loop {
        match lexer.next().ok_or("the text ends in a declaration")? {
            Token::Word(".align") => {
                let value = lexer.number().filter(|value| value.is_power_of_two()).ok_or("a bad alignment")?;
                // Behind `.ptr` it tells about the memory that is pointed to.
                if !pointer {
                    align = Some(value);
                }
            }
            Token::Word(".v2") => lanes = 2,
            Token::Word(".v4") => lanes = 4,
            Token::Word(".v8") => lanes = 8,
            Token::Word(".ptr") => pointer = true,
            Token::Word(".attribute") if lexer.accept(b'(') => managed |= parse_attributes(lexer)?,
            Token::Word(word) if word.starts_with('.') => {
                if let Some(bytes) = scalar_size(word) {
                    size = Some(bytes);
                } else if !pointer && !matches!(word, ".const" | ".global" | ".local" | ".shared") {
                    return Err(format!("the type {word} is not known"));
                }
            }
            Token::Word(name) => {
                let size = size.ok_or_else(|| format!("{name} has no type"))? * lanes;
                let align = align.unwrap_or(size).max(1);
                return Ok((Type { size, align, managed }, name));
            }
            Token::Symbol(symbol) => return Err(format!("unexpected '{}' in a declaration", char::from(symbol))),
            Token::Text => return Err("unexpected string in a declaration".to_owned()),
        }
    }
}

/// Whether the attributes, up to the parenthesis that ends them, say that the variable is managed.
fn parse_attributes(lexer: &mut Lexer<'_>) -> Result<bool, String> {
    let mut managed = false;
    loop {
        match lexer.next().ok_or("the text ends in a declaration")? {
            Token::Word(word) => managed |= word == ".managed",
            Token::Symbol(b'(') => lexer.skip_nested(b'(', b')'),
            Token::Symbol(b')') => return Ok(managed),
            _ => {}
        }
    }
}

/// Parses the dimensions behind a name.
fn parse_size(lexer: &mut Lexer<'_>, element: u64) -> Result<Option<u64>, String> {
    let mut size = Some(element);
    while lexer.accept(b'[') {
        if lexer.accept(b']') {
            size = None;
            continue;
        }
        let count = lexer.number().ok_or("an array length that is no number")?;
        if !lexer.accept(b']') {
            return Err("an array length that is no number".to_owned());
        }
        if let Some(bytes) = size {
            size = Some(bytes.checked_mul(count).ok_or("an array too large")?);
        }
    }
    Ok(size)
}

/// One kernel parameter, from behind `.param` to the comma or parenthesis that follows.
pub(super) fn parse_parameter<'a>(lexer: &mut Lexer<'a>) -> Result<Declaration<'a>, String> {
    let (kind, name) = parse_type(lexer)?;
    let size = parse_size(lexer, kind.size)?;
    Ok(Declaration { name, size, align: kind.align, managed: kind.managed })
}

/// The variables of a declaration, from behind the state space to behind the semicolon.
pub(super) fn parse_variables<'a>(lexer: &mut Lexer<'a>) -> Result<Vec<Declaration<'a>>, String> {
    let mut found = Vec::new();
    let (kind, mut name) = parse_type(lexer)?;
    loop {
        let size = parse_size(lexer, kind.size)?;
        found.push(Declaration { name, size, align: kind.align, managed: kind.managed });
        loop {
            match lexer.next().ok_or("the text ends in a declaration")? {
                Token::Symbol(b';') => return Ok(found),
                Token::Symbol(b',') => break,
                Token::Symbol(b'{') => lexer.skip_nested(b'{', b'}'),
                Token::Symbol(b'(') => lexer.skip_nested(b'(', b')'),
                Token::Symbol(b'}') => return Err("a declaration without its end".to_owned()),
                _ => {}
            }
        }
        name = lexer.word().ok_or("a declaration without a name")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(text: &str) -> Result<(Option<u64>, u64), String> {
        parse_parameter(&mut Lexer::new(text.as_bytes())).map(|found| (found.size, found.align))
    }

    #[test]
    fn parameters() {
        for (text, expected) in [
            (".u64 p", (8, 8)),
            (".u8 p,", (1, 1)),
            (".align 8 .b8 p[24]", (24, 8)),
            (".align 16 .b8 p[16]", (16, 16)),
            (".b32 .align 16 p", (4, 16)),
            (".u64 .ptr .global .align 16 p", (8, 8)),
            (".u64 .ptr .align 1 p", (8, 8)),
            (".u64 .ptr p", (8, 8)),
            (".v4 .f32 p", (16, 16)),
            (".v2 .u16 p[3]", (12, 4)),
            (".b8 p[2][3]", (6, 1)),
            (".b128 p", (16, 16)),
            (".bf16x2 p", (4, 4)),
        ] {
            assert_eq!(parameter(text), Ok((Some(expected.0), expected.1)), "{text}");
        }
    }

    #[test]
    fn nothing_is_guessed() {
        for text in [".wide p", "p", ".u64", ".u64 )", ".align 3 .b8 p[3]", ".b8 p[n]", ".b8 p[99999999999999999999]"] {
            assert!(parameter(text).is_err(), "{text}");
        }
        assert!(parameter(".b64 p[0x2000000000000001]").is_err());
        assert_eq!(parameter(".b8 p[]"), Ok((None, 1)));
    }

    #[test]
    fn managed_variables() {
        for (text, managed) in [
            (".attribute(.managed) .align 4 .u32 a;", true),
            (".align 4 .attribute(.unified(0xAB, 0x1), .managed) .b8 a[12] = {1};", true),
            (".attribute(.unified(0xAB, 0x1)) .u32 a;", false),
            (".u32 managed;", false),
        ] {
            let found = parse_variables(&mut Lexer::new(text.as_bytes())).unwrap();
            assert_eq!((found.len(), found[0].managed), (1, managed), "{text}");
        }
    }

    #[test]
    fn variables_with_initializers() {
        let text = ".align 4 .u32 a[2] = {1, {2}}, b = generic(x), c[]; next";
        let mut lexer = Lexer::new(text.as_bytes());
        let found = parse_variables(&mut lexer).unwrap();
        let sizes: Vec<_> = found.iter().map(|found| (found.name, found.size)).collect();
        assert_eq!(sizes, [("a", Some(8)), ("b", Some(4)), ("c", None)]);
        assert_eq!(lexer.word(), Some("next"));
    }
}
