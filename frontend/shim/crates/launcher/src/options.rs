//! The command line: the options of `farlane run` that a guest of a running host has (frontend/commands/run.py).

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::UserError;

pub const HELP: &str = "\
usage: farlane-run [OPTION ...] -- PROGRAM [ARGUMENT ...]

Runs a program with its CUDA calls going to a Farlane host.

  --host URL            a running `farlane serve`: grpc://HOST:PORT, farlane+tls://HOST:PORT,
                        unix:///PATH, vsock://CID:PORT or vsock+tls://CID:PORT
                        (default: FARLANE_HOST)
  --ca FILE             the host's ca.pem, for farlane+tls:// (default: FARLANE_CA, else the system's)
  --token-file FILE     a file with the guest's token (default: FARLANE_TOKEN_FILE)
  --defer MODE          none, calls or loops (default: FARLANE_DEFER, else loops)
  --report WHERE        text, json:FILE or json:-: report round trips, calls and bytes when the program ends
  --timing KIND         faithful or throughput: whether clocks wait for work that was answered early
  --transport KIND      auto, grpc or shm
  --guards              let copies to the host in loops wait until their destination is first touched
  --check[=WHAT]        look for errors in kernels: memory, race, init, leak, several with commas, or all
  --error-exitcode N    with --check: the exit status when errors were found
  --priority 0..9       the highest comes first on a host whose sessions share device memory
  --no-manifest         use no manifest: loops are only recorded
  --libraries FOLDER    where the shim is (default: beside this program, else ../lib/farlane)
  --version, --help
";
const CHECKS: [&str; 4] = ["memory", "race", "init", "leak"];
const CONTINUE: &str = "continue";

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    Help,
    Version,
    Run(Box<Options>),
}

/// Where the report goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    Text,
    StandardOutput,
    File(PathBuf),
}

#[derive(Debug, Default)]
pub struct Options {
    pub host: Option<OsString>,
    pub ca: Option<OsString>,
    pub token_file: Option<OsString>,
    pub defer: Option<String>,
    pub report: Option<Target>,
    pub timing: Option<String>,
    pub transport: Option<String>,
    pub guards: bool,
    pub checks: Option<String>,
    pub error_exit_code: Option<u8>,
    pub priority: Option<String>,
    pub no_manifest: bool,
    pub libraries: Option<PathBuf>,
    /// The program and its arguments; never empty.
    pub words: Vec<OsString>,
}

/// Reads the words behind the launcher's own name.
pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Asked, UserError> {
    let mut options = Options::default();
    let mut words = words.peekable();
    while let Some(word) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"-")) {
        if word == "--" {
            break;
        }
        let text = word.to_str().ok_or_else(|| unknown(&word))?;
        let (name, given) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (text, None),
        };
        if given.is_some() && matches!(name, "--guards" | "--no-manifest" | "--help" | "-h" | "--version") {
            return Err(UserError::wrong_call(format!("{name} takes no value")));
        }
        let mut value = || {
            given.clone().or_else(|| words.next()).ok_or_else(|| UserError::wrong_call(format!("{name} needs a value")))
        };
        match name {
            "--help" | "-h" => return Ok(Asked::Help),
            "--version" => return Ok(Asked::Version),
            "--host" => options.host = Some(value()?),
            "--ca" => options.ca = Some(value()?),
            "--token-file" => options.token_file = Some(value()?),
            "--defer" => options.defer = Some(one_of(name, &value()?, &["none", "calls", "loops"])?),
            "--report" => options.report = Some(target(&value()?)?),
            "--timing" => options.timing = Some(one_of(name, &value()?, &["faithful", "throughput"])?),
            "--transport" => options.transport = Some(one_of(name, &value()?, &["auto", "grpc", "shm"])?),
            "--guards" => options.guards = true,
            // As with `farlane run`, what to look for is given behind "=" only: a program may follow.
            "--check" => options.checks = Some(checks(given.as_deref().unwrap_or(OsStr::new("memory")))?),
            "--error-exitcode" => options.error_exit_code = Some(number(name, &value()?)?),
            "--priority" => {
                let digits = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
                options.priority = Some(one_of(name, &value()?, &digits)?);
            }
            "--no-manifest" => options.no_manifest = true,
            "--libraries" => options.libraries = Some(value()?.into()),
            _ => return Err(unknown(&word)),
        }
    }
    options.words = words.collect();
    if options.words.is_empty() {
        return Err(UserError::wrong_call("no program given").advice("farlane-run [options] -- ./program arguments"));
    }
    let checked = options.checks.is_some() || std::env::var_os("FARLANE_CHECK").is_some_and(|names| !names.is_empty());
    if options.error_exit_code.is_some() && !checked {
        return Err(UserError::wrong_call("--error-exitcode is for checks").advice("Give --check as well."));
    }
    Ok(Asked::Run(Box::new(options)))
}

fn unknown(word: &OsStr) -> UserError {
    UserError::wrong_call(format!("{} is no option", word.to_string_lossy())).advice("farlane-run --help lists them.")
}

fn one_of(name: &str, value: &OsStr, valid: &[&str]) -> Result<String, UserError> {
    let found = value.to_str().filter(|text| valid.contains(text));
    found.map(str::to_owned).ok_or_else(|| {
        UserError::wrong_call(format!("{name} {} is not known", value.to_string_lossy()))
            .advice(format!("One of {}.", valid.join(", ")))
    })
}

fn number(name: &str, value: &OsStr) -> Result<u8, UserError> {
    let found = value.to_str().and_then(|text| text.parse().ok());
    found.ok_or_else(|| UserError::wrong_call(format!("{name} needs a number from 0 to 255")))
}

fn target(value: &OsStr) -> Result<Target, UserError> {
    match value.to_str() {
        Some("text") => Ok(Target::Text),
        Some("json:-") => Ok(Target::StandardOutput),
        Some(text) if text.len() > 5 && text.starts_with("json:") => {
            let path = PathBuf::from(&text[5..]);
            // Before the program runs, so that no run is wasted.
            std::fs::OpenOptions::new().append(true).create(true).open(&path).map_err(|error| {
                UserError::wrong_call(format!("cannot write the report to {}: {error}", path.display()))
            })?;
            Ok(Target::File(path))
        }
        _ => Err(UserError::wrong_call(format!("--report {} is not known", value.to_string_lossy()))
            .advice("--report text, or --report json:FILE (json:- for standard output)")),
    }
}

fn checks(value: &OsStr) -> Result<String, UserError> {
    let text = value.to_string_lossy();
    if text == "all" {
        return Ok(CHECKS.join(","));
    }
    match text.split(',').find(|name| !CHECKS.contains(name) && *name != CONTINUE) {
        None => Ok(text.into_owned()),
        Some(name) => Err(UserError::wrong_call(format!("--check={name} is not known"))
            .advice(format!("{}, separated by commas, or all; a program's name goes behind --", CHECKS.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Box<Options>, UserError> {
        match parse(words.iter().map(OsString::from))? {
            Asked::Run(options) => Ok(options),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        let options = parsed(&["--defer", "calls", "--check=race,leak", "--host=unix:///s", "--", "./a", "--defer"])
            .expect("valid");
        assert_eq!(options.words, ["./a", "--defer"]);
        assert_eq!(options.defer.as_deref(), Some("calls"));
        assert_eq!(options.checks.as_deref(), Some("race,leak"));
        assert_eq!(options.host, Some("unix:///s".into()));
        assert_eq!(parsed(&["--guards", "app", "-x"]).expect("valid").words, ["app", "-x"]);
    }

    #[test]
    fn wrong_calls_say_what_is_wrong() {
        for (words, part) in [
            (&[][..], "no program"),
            (&["--defer", "all", "--", "a"][..], "all is not known"),
            (&["--embedded", "--", "a"][..], "--embedded is no option"),
            (&["--host"][..], "needs a value"),
            (&["--report", "xml", "--", "a"][..], "xml is not known"),
            (&["--check=memory,all", "--", "a"][..], "--check=all is not known"),
            (&["--priority", "10", "--", "a"][..], "10 is not known"),
            (&["--guards=on", "--", "a"][..], "takes no value"),
        ] {
            let error = parsed(words).expect_err(part);
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.status, crate::error::WRONG_CALL);
        }
    }
}
