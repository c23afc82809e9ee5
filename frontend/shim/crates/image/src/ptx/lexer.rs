//! PTX tokens, bounded by the text. Comments and white space vanish; a string is one token.

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// An identifier, number or register, or a directive with its leading dot. `ld.param` is two words.
    Word(&'a str),
    /// Anything else, one byte.
    Symbol(u8),
    /// A string literal; what is in it never matters here.
    Text,
}

#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    data: &'a [u8],
    position: usize,
}

pub(super) fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%') || byte >= 0x80
}

impl<'a> Lexer<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Lexer { data, position: 0 }
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blank();
        let start = self.position;
        let first = *self.data.get(start)?;
        self.position += 1;
        if first == b'"' {
            self.skip_text();
            return Some(Token::Text);
        }
        if !in_word(first) && first != b'.' {
            return Some(Token::Symbol(first));
        }
        while self.data.get(self.position).is_some_and(|byte| in_word(*byte)) {
            self.position += 1;
        }
        // A word that is no UTF-8 cannot be a name that anybody asks for.
        Some(Token::Word(std::str::from_utf8(&self.data[start..self.position]).unwrap_or("?")))
    }

    /// Takes the next token when it is this symbol.
    pub(super) fn accept(&mut self, symbol: u8) -> bool {
        let mut ahead = self.clone();
        let found = ahead.next() == Some(Token::Symbol(symbol));
        if found {
            *self = ahead;
        }
        found
    }

    pub(super) fn word(&mut self) -> Option<&'a str> {
        match self.next()? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// An integer constant: decimal, 0x, 0b or octal, with or without U.
    pub(super) fn number(&mut self) -> Option<u64> {
        let word = self.word()?.trim_end_matches('U');
        match word.as_bytes() {
            [b'0', b'x' | b'X', ..] => u64::from_str_radix(&word[2..], 16).ok(),
            [b'0', b'b' | b'B', ..] => u64::from_str_radix(&word[2..], 2).ok(),
            [b'0', _, ..] => u64::from_str_radix(&word[1..], 8).ok(),
            _ => word.parse().ok(),
        }
    }

    /// Moves behind the `close` that matches an `open` already taken; to the end of the text when there is none.
    pub(super) fn skip_nested(&mut self, open: u8, close: u8) {
        let mut depth = 1usize;
        while let Some(byte) = self.byte() {
            if byte == open {
                depth += 1;
            } else if byte == close {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            }
        }
    }

    /// The next byte outside comments and strings.
    pub(super) fn byte(&mut self) -> Option<u8> {
        loop {
            let byte = *self.data.get(self.position)?;
            self.position += 1;
            match byte {
                b'"' => self.skip_text(),
                b'/' if matches!(self.data.get(self.position), Some(b'/' | b'*')) => {
                    self.position -= 1;
                    self.skip_blank();
                }
                _ => return Some(byte),
            }
        }
    }

    /// The bytes that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.data[self.position..]
    }

    /// The word whose first byte was taken and of which `length` bytes are left.
    pub(super) fn word_around(&self, length: usize) -> &'a [u8] {
        &self.data[self.position.saturating_sub(1)..(self.position + length).min(self.data.len())]
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.position = self.position.saturating_add(bytes).min(self.data.len());
    }

    fn skip_text(&mut self) {
        while let Some(byte) = self.data.get(self.position) {
            self.position += 1;
            match byte {
                b'\\' => self.advance(1),
                b'"' => return,
                _ => {}
            }
        }
    }

    fn skip_blank(&mut self) {
        loop {
            match (self.data.get(self.position), self.data.get(self.position + 1)) {
                (Some(byte), _) if byte.is_ascii_whitespace() || *byte == 0 => self.position += 1,
                (Some(b'/'), Some(b'/')) => {
                    let line = self.rest().iter().position(|byte| *byte == b'\n');
                    self.position = line.map_or(self.data.len(), |line| self.position + line + 1);
                }
                (Some(b'/'), Some(b'*')) => {
                    let end = self.data[self.position + 2..].windows(2).position(|pair| pair == b"*/");
                    self.position = end.map_or(self.data.len(), |end| self.position + end + 4);
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text.as_bytes());
        std::iter::from_fn(|| lexer.next()).collect()
    }

    #[test]
    fn words_symbols_and_strings() {
        assert_eq!(
            all(".param .u64 a_$1, // no\n ld.param /* {no} */ [\"}{\\\"\"];"),
            [
                Token::Word(".param"),
                Token::Word(".u64"),
                Token::Word("a_$1"),
                Token::Symbol(b','),
                Token::Word("ld"),
                Token::Word(".param"),
                Token::Symbol(b'['),
                Token::Text,
                Token::Symbol(b']'),
                Token::Symbol(b';'),
            ]
        );
    }

    #[test]
    fn numbers() {
        for (text, value) in [("0", 0), ("128", 128), ("0x1F", 31), ("010", 8), ("0b11", 3), ("7U", 7)] {
            assert_eq!(Lexer::new(text.as_bytes()).number(), Some(value), "{text}");
        }
        assert_eq!(Lexer::new(b"abc").number(), None);
        assert_eq!(Lexer::new(b"99999999999999999999").number(), None);
    }

    #[test]
    fn braces_in_comments_and_strings_do_not_count() {
        let mut lexer = Lexer::new(b" a { b } \"}\" // }\n /* } */ c } after");
        lexer.skip_nested(b'{', b'}');
        assert_eq!(lexer.word(), Some("after"));
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "// abc", "{ { ", "\"\\"] {
            let mut lexer = Lexer::new(text.as_bytes());
            lexer.skip_nested(b'{', b'}');
            assert_eq!(lexer.next(), None, "{text}");
        }
    }
}
