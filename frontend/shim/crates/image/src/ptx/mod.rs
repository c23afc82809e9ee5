//! A light scanner for PTX modules: kernel signatures and what kernels declare. It does not check instructions; the
//! host compiles the text and reports what is wrong with it.
//!
//! One pass over the text. A declaration that is not understood spoils the kernel it belongs to, never the module.
//! Source: PTX ISA, "Directives" and "Kernel function parameters".

mod body;
mod declaration;
mod entry;
mod lexer;
mod references;

use std::collections::HashMap;

use crate::container::Reach;
use crate::error::Error;
use crate::limits;
use crate::module::{Kernel, Module, Source, Variable};
use lexer::{Lexer, Token};
use references::References;

/// Bytes at the start in which `.version` must stand, behind comments.
const PREAMBLE: usize = 1 << 16;

/// The newest version of PTX that is read: that of CUDA 13.5. A driver refuses PTX of later releases of CUDA.
pub const NEWEST: (u32, u32) = (9, 5);

/// Whether the bytes begin like a PTX text.
pub(crate) fn is_ptx(data: &[u8]) -> bool {
    Lexer::new(&data[..data.len().min(PREAMBLE)]).next() == Some(Token::Word(".version"))
}

/// Reads a PTX text (NUL padding at its end is allowed). Also tells on which devices it runs.
///
/// # Errors
/// When it has no `.target`, more than [`limits`] allow, or a later version than [`NEWEST`].
pub(crate) fn read(text: &[u8]) -> Result<(Module, Reach), Error> {
    let mut scanner = Scanner::new(text);
    scanner.run()?;
    scanner.finish()
}

struct Scanner<'a> {
    lexer: Lexer<'a>,
    target: Option<(u32, Reach)>,
    kernels: HashMap<&'a str, Result<Kernel, String>>,
    /// Which function or kernel body uses which module-scope shared variables and functions.
    references: References<'a>,
    variables: HashMap<&'a str, Variable>,
    constant_bytes: u64,
    /// Some function may print: what `printf` becomes is declared.
    prints: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Self {
        Scanner {
            lexer: Lexer::new(text),
            target: None,
            kernels: HashMap::new(),
            references: References::default(),
            variables: HashMap::new(),
            constant_bytes: 0,
            prints: false,
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        let mut external = false;
        while let Some(token) = self.lexer.next() {
            match token {
                Token::Word(".extern") => external = true,
                Token::Word(".version") => self.read_version()?,
                Token::Word(".target") => self.read_target(),
                Token::Word(".entry") => self.read_entry()?,
                Token::Word(".func") => self.read_function(),
                Token::Word(".shared") => self.read_shared(external),
                Token::Word(".const") => self.read_variable(external, true),
                Token::Word(".global") => self.read_variable(external, false),
                Token::Symbol(b'{') => self.lexer.skip_nested(b'{', b'}'),
                Token::Symbol(b';') => external = false,
                _ => continue,
            }
            if token != Token::Word(".extern") {
                external = false;
            }
        }
        Ok(())
    }

    fn read_version(&mut self) -> Result<(), Error> {
        let number = |word: Option<&str>| word.and_then(|word| word.trim_start_matches('.').parse::<u32>().ok());
        let Some(major) = number(self.lexer.word()) else { return Ok(()) };
        let minor = number(self.lexer.clone().word()).unwrap_or(0);
        if (major, minor) > NEWEST {
            let (most, least) = NEWEST;
            return Err(Error::TooNew(format!(
                "PTX {major}.{minor} comes from a newer CUDA than 13.5, which knows PTX up to {most}.{least}; compile with CUDA 13.5 or an older one"
            )));
        }
        Ok(())
    }

    fn read_target(&mut self) {
        let Some(word) = self.lexer.word() else { return };
        let Some(name) = word.strip_prefix("sm_") else { return };
        let (digits, reach) = match name.as_bytes().last() {
            Some(b'a') => (&name[..name.len() - 1], Reach::Exact),
            Some(b'f') => (&name[..name.len() - 1], Reach::Family),
            _ => (name, Reach::Forward),
        };
        if let Ok(architecture) = digits.parse() {
            self.target.get_or_insert((architecture, reach));
        }
    }

    fn read_entry(&mut self) -> Result<(), Error> {
        let Some(name) = self.lexer.word() else { return Ok(()) };
        if self.kernels.len() == limits::KERNELS {
            return Err(Error::too_large(format!("a module with more than {} kernels", limits::KERNELS)));
        }
        let mut kernel = entry::read_signature(&mut self.lexer, name);
        let defined = entry::find_body(&mut self.lexer, kernel.as_mut().ok());
        if defined {
            let body = body::read(&mut self.lexer, &self.references);
            if let Ok(kernel) = &mut kernel {
                kernel.local_bytes = body.local_bytes;
            }
            self.references.add_body(name, body);
        }
        if defined || !self.kernels.contains_key(name) {
            self.kernels.insert(name, kernel);
        }
        Ok(())
    }

    fn read_function(&mut self) {
        // `.func (result) name (parameters)`: the result is optional.
        if self.lexer.accept(b'(') {
            self.lexer.skip_nested(b'(', b')');
        }
        let Some(name) = self.lexer.word() else { return };
        self.prints |= name == limits::PRINT;
        self.references.declare_function(name);
        if entry::find_body(&mut self.lexer, None) {
            let body = body::read(&mut self.lexer, &self.references);
            self.references.add_body(name, body);
        }
    }

    fn read_shared(&mut self, external: bool) {
        let Ok(variables) = declaration::parse_variables(&mut self.lexer) else { return };
        if !external {
            variables.into_iter().for_each(|variable| self.references.declare_shared(variable));
        }
    }

    fn read_variable(&mut self, external: bool, constant: bool) {
        let Ok(found) = declaration::parse_variables(&mut self.lexer) else { return };
        if external {
            return;
        }
        let sized = || found.iter().filter_map(|variable| Some((variable, variable.size?)));
        let known = |managed, size| Variable { size, managed };
        self.variables.extend(sized().map(|(variable, size)| (variable.name, known(variable.managed, size))));
        if constant {
            self.constant_bytes =
                references::laid_out(self.constant_bytes, sized().map(|(variable, size)| (size, variable.align)));
        }
    }

    fn finish(mut self) -> Result<(Module, Reach), Error> {
        let (architecture, reach) = self.target.ok_or_else(|| Error::malformed("the PTX has no .target"))?;
        let mut budget = limits::REFERENCE_STEPS;
        for (name, kernel) in &mut self.kernels {
            if let Ok(kernel) = kernel {
                kernel.static_shared_bytes = self.references.shared_bytes(name, &mut budget)?;
                kernel.prints = self.prints;
            }
        }
        let kernels = self.kernels.into_iter().map(|(name, kernel)| (name.to_owned(), kernel)).collect();
        let variables = self.variables.into_iter().map(|(name, known)| (name.to_owned(), known)).collect();
        let module = Module {
            source: Source::Ptx,
            architecture,
            kernels,
            variables,
            constant_bytes: self.constant_bytes,
            prints: self.prints,
        };
        Ok((module, reach))
    }
}

#[cfg(test)]
mod tests;
