//! A kernel's signature: its parameters' places in the parameter buffer, and the limits declared behind them.

use super::declaration::parse_parameter;
use super::lexer::{Lexer, Token};
use crate::limits;
use crate::module::{Kernel, Parameter};

/// Reads `(.param ..., .param ...)` from behind the kernel's name.
///
/// # Errors
/// Says what in the signature was not understood; the lexer then stands somewhere in it.
pub(super) fn read_signature(lexer: &mut Lexer<'_>, name: &str) -> Result<Kernel, String> {
    let mut kernel = Kernel::default();
    if name.len() > limits::NAME_BYTES {
        return Err("its name is too long".to_owned());
    }
    if !lexer.accept(b'(') || lexer.accept(b')') {
        return Ok(kernel);
    }
    let mut end = 0u64;
    loop {
        if lexer.word() != Some(".param") {
            return Err(format!("parameter {} does not begin with .param", kernel.parameters.len()));
        }
        let found = parse_parameter(lexer).map_err(|what| format!("parameter {}: {what}", kernel.parameters.len()))?;
        let size = found.size.ok_or_else(|| format!("parameter {} has no size", kernel.parameters.len()))?;
        let offset = end.checked_next_multiple_of(found.align).ok_or("a parameter too large")?;
        end = offset.checked_add(size).ok_or("a parameter too large")?;
        if end > u64::from(limits::PARAMETER_BYTES) || kernel.parameters.len() == limits::PARAMETERS {
            return Err(format!("its parameters take more than {} bytes", limits::PARAMETER_BYTES));
        }
        kernel.parameters.push(Parameter { offset: offset as u32, size: size as u32 });
        match lexer.next() {
            Some(Token::Symbol(b',')) => {}
            Some(Token::Symbol(b')')) => break,
            _ => return Err(format!("parameter {} is not followed by another", kernel.parameters.len() - 1)),
        }
    }
    kernel.parameter_bytes = end as u32;
    Ok(kernel)
}

/// Reads the directives behind a signature (or what is left of one). True when a body follows, whose brace is taken;
/// false at the end of a prototype.
pub(super) fn find_body(lexer: &mut Lexer<'_>, kernel: Option<&mut Kernel>) -> bool {
    let mut ignored = Kernel::default();
    let kernel = kernel.unwrap_or(&mut ignored);
    while let Some(token) = lexer.next() {
        match token {
            Token::Symbol(b'{') => return true,
            Token::Symbol(b';') => return false,
            Token::Symbol(b'(') => lexer.skip_nested(b'(', b')'),
            Token::Word(".maxntid") => kernel.max_threads = read_shape(lexer),
            Token::Word(".reqntid") => kernel.required_threads = read_shape(lexer),
            Token::Word(".reqnctapercluster") => kernel.required_cluster = read_shape(lexer),
            Token::Word(".maxclusterrank") => kernel.most_cluster_blocks = number(lexer),
            Token::Word(".explicitcluster") => kernel.explicit_cluster = true,
            Token::Word(".maxnreg") => kernel.max_registers = number(lexer),
            _ => {}
        }
    }
    false
}

fn number(lexer: &mut Lexer<'_>) -> Option<u32> {
    lexer.number().and_then(|value| u32::try_from(value).ok())
}

/// One to three extents; those not given are 1.
fn read_shape(lexer: &mut Lexer<'_>) -> Option<[u32; 3]> {
    let mut shape = [1; 3];
    for (axis, extent) in shape.iter_mut().enumerate() {
        if axis > 0 && !lexer.accept(b',') {
            break;
        }
        *extent = number(lexer)?;
    }
    Some(shape)
}
