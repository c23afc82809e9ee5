//! How a session is to be opened: the endpoint, the mode of deferral, the flush rules, from the environment or by hand.

use crate::endpoint::{Endpoint, FORMS};
use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What is deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Nothing: every call waits until the host has replayed it. For comparison and for finding bugs.
    None,
    /// Calls whose results the program does not see.
    Calls,
    /// Whole loops as well, where the analyzer proved that safe.
    #[default]
    Loops,
}

impl Mode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Calls => "calls",
            Self::Loops => "loops",
        }
    }
}

impl FromStr for Mode {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "none" => Ok(Self::None),
            "calls" => Ok(Self::Calls),
            "loops" => Ok(Self::Loops),
            _ => Err(ConfigError(format!("FARLANE_DEFER is \"{text}\": it must be none, calls or loops"))),
        }
    }
}

/// What becomes of loops that have a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decided {
    /// The host leads them where nothing forbids it.
    #[default]
    Auto,
    /// They are the program's.
    Off,
    /// They are the program's, and each of its calls is compared with its slice.
    Verify,
}

impl FromStr for Decided {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            "verify" => Ok(Self::Verify),
            _ => Err(ConfigError(format!("FARLANE_LOOPS is \"{text}\": it must be auto, off or verify"))),
        }
    }
}

/// What carries messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Shared memory where the host is on this machine and offers it, else gRPC.
    #[default]
    Auto,
    Grpc,
    /// Shared memory, or no session.
    Shm,
}

impl FromStr for Transport {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text {
            "auto" => Ok(Self::Auto),
            "grpc" => Ok(Self::Grpc),
            "shm" => Ok(Self::Shm),
            _ => Err(ConfigError(format!("FARLANE_TRANSPORT is \"{text}\": it must be auto, grpc or shm"))),
        }
    }
}

/// What a host may be asked to look for, and that the context goes on after it (tape.md, "Checks").
const CHECKS: [&str; 5] = ["memory", "race", "init", "leak", "continue"];

/// A setting that cannot be used; says what is wrong and what it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// How the guest knows its host, and what it shows to be let in. All of it is for TLS only: nothing secret goes over a
/// connection that is not encrypted.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The certificates of the authorities that the host's may be signed by; none: the system's.
    pub ca: Option<PathBuf>,
    pub token: Option<Token>,
    /// The files of a client certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// The settings of this process's environment.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(&|name: &str| env::var_os(name))
    }

    fn from_variables<V: AsRef<OsStr>>(variable: &impl Fn(&str) -> Option<V>) -> Result<Self, ConfigError> {
        let file = |name: &str| text_of(variable, name).map(|found| found.map(PathBuf::from));
        let token = match (text_of(variable, "FARLANE_TOKEN")?, file("FARLANE_TOKEN_FILE")?) {
            (Some(token), _) => Some(Token::Given(token)),
            (None, found) => found.map(Token::File),
        };
        let identity = match (file("FARLANE_CERTIFICATE")?, file("FARLANE_KEY")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let message =
                    "FARLANE_CERTIFICATE and FARLANE_KEY name two files that belong together: set both or none";
                return Err(ConfigError(message.to_owned()));
            }
        };
        Ok(Self { ca: file("FARLANE_CA")?, token, identity })
    }
}

/// A variable's text; an empty one counts as absent.
fn text_of<V: AsRef<OsStr>>(variable: &impl Fn(&str) -> Option<V>, name: &str) -> Result<Option<String>, ConfigError> {
    match variable(name).map(|value| value.as_ref().to_owned().into_string()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
        Some(Err(_)) => Err(ConfigError(format!("{name} is not valid UTF-8"))),
    }
}

/// Where the token is.
#[derive(Clone)]
pub enum Token {
    Given(String),
    File(PathBuf),
}

/// A token is never printed.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// What [`crate::Session::open`] needs to know.
#[derive(Debug, Clone)]
pub struct Config {
    pub endpoint: Endpoint,
    pub transport: Transport,
    pub mode: Mode,
    pub decided: Decided,
    /// How long the host may lead a loop at first; zero: as long as it is no more iterations than it may.
    pub lead_time: Duration,
    /// A group is sent as soon as it has this many bytes.
    pub group_bytes: usize,
    /// A group is sent when its first record is this old and the host has nothing else to do.
    pub age: Duration,
    /// How long the host may take to answer at all, name resolution included.
    pub connect_timeout: Duration,
    /// How long a host that has answered may take until the session is there: it may start a process for it.
    pub admission_timeout: Duration,
    /// Where `finish` writes the report.
    pub report: Option<PathBuf>,
    /// Whether payloads that the host has are named instead of sent, and others compressed where that pays.
    pub payloads: bool,
    /// What the host is to look for in kernels (`farlane run --check`).
    pub checks: Vec<String>,
    /// Of the session, where sessions give way to each other: 0 to 9, the highest first. The host bounds it.
    pub priority: Option<u32>,
    pub access: Access,
}

impl Config {
    pub const GROUP_BYTES: usize = 256 * 1024;
    pub const LEAD_TIME: Duration = Duration::from_millis(50);
    pub const AGE: Duration = Duration::from_micros(200);
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
    pub const ADMISSION_TIMEOUT: Duration = Duration::from_secs(120);

    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            transport: Transport::default(),
            decided: Decided::default(),
            lead_time: Self::LEAD_TIME,
            mode: Mode::default(),
            group_bytes: Self::GROUP_BYTES,
            age: Self::AGE,
            connect_timeout: Self::CONNECT_TIMEOUT,
            admission_timeout: Self::ADMISSION_TIMEOUT,
            report: None,
            payloads: true,
            checks: Vec::new(),
            priority: None,
            access: Access::default(),
        }
    }

    /// The settings of this process's environment.
    ///
    /// # Errors
    /// A variable that is missing (FARLANE_HOST) or has no valid value.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(|name| env::var_os(name))
    }

    /// As [`Config::from_env`], from any source of variables. An empty variable counts as absent.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_variables<V: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<V>) -> Result<Self, ConfigError> {
        let text = |name: &str| text_of(&variable, name);
        let Some(host) = text("FARLANE_HOST")? else {
            return Err(ConfigError(format!(
                "FARLANE_HOST is not set: start the program with `farlane run`, or set it to {FORMS}"
            )));
        };
        let mut config = Self::new(host.parse()?);
        if let Some(mode) = text("FARLANE_DEFER")? {
            config.mode = mode.parse()?;
        }
        if let Some(decided) = text("FARLANE_LOOPS")? {
            config.decided = decided.parse()?;
        }
        if let Some(milliseconds) = text("FARLANE_LEAD_MS")? {
            let wrong = || {
                ConfigError(format!("FARLANE_LEAD_MS is \"{milliseconds}\": it must be a whole number of milliseconds"))
            };
            config.lead_time = Duration::from_millis(milliseconds.parse::<u32>().map_err(|_| wrong())?.into());
        }
        if let Some(transport) = text("FARLANE_TRANSPORT")? {
            config.transport = transport.parse()?;
        }
        if let Some(seconds) = text("FARLANE_TIMEOUT")? {
            config.connect_timeout = seconds
                .parse::<f64>()
                .ok()
                .filter(|s| *s > 0.0)
                .and_then(|s| Duration::try_from_secs_f64(s).ok())
                .ok_or_else(|| {
                    ConfigError(format!("FARLANE_TIMEOUT is \"{seconds}\": it must be a number of seconds"))
                })?;
        }
        match text("FARLANE_PAYLOADS")?.as_deref() {
            None | Some("auto") => {}
            Some("off") => config.payloads = false,
            Some(other) => {
                return Err(ConfigError(format!("FARLANE_PAYLOADS is \"{other}\": it must be auto or off")));
            }
        }
        if let Some(names) = text("FARLANE_CHECK")? {
            config.checks = names.split(',').map(str::to_owned).collect();
            if let Some(unknown) = config.checks.iter().find(|name| !CHECKS.contains(&name.as_str())) {
                return Err(ConfigError(format!(
                    "FARLANE_CHECK names \"{unknown}\": there are {}, separated by commas",
                    CHECKS.join(", ")
                )));
            }
        }
        if let Some(priority) = text("FARLANE_PRIORITY")? {
            let valid = priority.parse().ok().filter(|number| *number <= 9);
            config.priority = Some(valid.ok_or_else(|| {
                ConfigError(format!("FARLANE_PRIORITY is \"{priority}\": it must be a number from 0 to 9"))
            })?);
        }
        config.access = Access::from_variables(&variable)?;
        // A program of several processes leaves one report for each.
        config.report =
            text("FARLANE_REPORT")?.map(|name| PathBuf::from(name.replace("%p", &std::process::id().to_string())));
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_variables(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn environment() {
        let config = from(&[("FARLANE_HOST", "grpc://h:1"), ("FARLANE_DEFER", "")]).expect("valid");
        assert_eq!((config.mode, config.connect_timeout, config.report), (Mode::Loops, Config::CONNECT_TIMEOUT, None));
        let config = from(&[
            ("FARLANE_HOST", "unix:///s"),
            ("FARLANE_DEFER", "none"),
            ("FARLANE_TIMEOUT", "0.5"),
            ("FARLANE_REPORT", "/r-%p"),
            ("FARLANE_PAYLOADS", "off"),
            ("FARLANE_CHECK", "memory,leak"),
            ("FARLANE_PRIORITY", "7"),
        ])
        .expect("valid");
        assert!(!config.payloads);
        assert_eq!(config.checks, ["memory", "leak"]);
        assert_eq!(config.priority, Some(7));
        assert_eq!(config.mode, Mode::None);
        assert_eq!(config.connect_timeout, Duration::from_millis(500));
        assert_eq!(config.report, Some(PathBuf::from(format!("/r-{}", std::process::id()))));
    }

    #[test]
    fn bad_environment_names_the_variable() {
        for (name, value) in [
            ("FARLANE_DEFER", "all"),
            ("FARLANE_TIMEOUT", "-1"),
            ("FARLANE_TIMEOUT", "nan"),
            ("FARLANE_TIMEOUT", "1e99"),
            ("FARLANE_PAYLOADS", "on"),
            ("FARLANE_TRANSPORT", "tcp"),
            ("FARLANE_CHECK", "everything"),
            ("FARLANE_PRIORITY", "10"),
        ] {
            let message = from(&[("FARLANE_HOST", "grpc://h:1"), (name, value)]).expect_err(value).to_string();
            assert!(message.contains(name) && message.contains(value), "{message}");
        }
        assert!(from(&[]).expect_err("no host").to_string().contains("farlane run"));
    }
}
