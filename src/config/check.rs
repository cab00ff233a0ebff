//! Unchecked text to a configuration. Everything is looked at before anything is refused, so that one run shows all
//! faults: no check may be skipped because another one failed. Shown by `tests/configuration.rs`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::fault::Faults;
use super::tls_names::{self, GROUPS, SUITES};
use super::{
    Admin, CipherSuites, Config, Demo, Doctor, Endpoint, ExpiredCertificate, Limits, Listen, Log, LogFormat,
    LogLevel, MissingCertificate, Output, Reload, Timeouts, Tls, TlsVersion, Upstream, Workers, address,
    args, limits, value,
};

/// The configuration of `serve`, or all that is wrong with it.
pub(super) fn serve(given: &args::Serve, working_directory: &Path) -> Result<Config, Faults> {
    let mut faults = Faults::default();
    let sides = sides(&mut faults, &given.sides, working_directory);
    let reload = reload(&mut faults, &given.certificate, working_directory);
    let tls = tls(&mut faults, &given.tls);
    let timeouts = timeouts(&mut faults, &given.timeouts);
    let limits = limits(&mut faults, &given.limits);
    let workers = faults.check(&given.limits.workers, worker_threads);
    let admin = admin(&mut faults, &given.admin, working_directory);
    if let (Some((listen, upstream)), Some(admin)) = (&sides, &admin) {
        admin_apart(&mut faults, given, (*listen, upstream), admin);
    }
    let log = log(&mut faults, &given.log);
    let config = || {
        let (listen, upstream) = sides?;
        let (reload, tls, timeouts, limits) = (reload?, tls?, timeouts?, limits?);
        let (workers, admin, log) = (workers?, admin?, log?);
        Some(Config { listen, upstream, reload, tls, timeouts, limits, workers, admin, log })
    };
    faults.or(config())
}

/// What `demo` is told, or all that is wrong with it.
pub(super) fn demo(given: &args::Demo) -> Result<Demo, Faults> {
    let mut faults = Faults::default();
    let rotations =
        faults.check(&given.rotations, |text| value::count_or_unlimited(text, limits::DEMO_ROTATIONS));
    let interval = faults.check(&given.interval, |text| value::duration(text, limits::DEMO_INTERVAL));
    let listen = faults.check(&given.listen, address::listen);
    let demo = || Some(Demo { rotations: rotations?, interval: interval?, listen: listen? });
    faults.or(demo())
}

/// What `doctor` is told, or all that is wrong with it.
pub(super) fn doctor(given: &args::Doctor, working_directory: &Path) -> Result<Doctor, Faults> {
    let mut faults = Faults::default();
    let files = files(&mut faults, &given.files, working_directory);
    let expired = expired(&mut faults, &given.expired);
    let tls = tls(&mut faults, &given.tls);
    let output = faults.check(&given.output.json, |text| value::switch(text, Output::Json, Output::Text));
    let doctor = || {
        let (cert, key) = files?;
        Some(Doctor { cert, key, expired: expired?, tls: tls?, output: output? })
    };
    faults.or(doctor())
}

fn sides(faults: &mut Faults, given: &args::Sides, working_directory: &Path) -> Option<(Listen, Upstream)> {
    let listen = faults.require(given.listen.as_ref(), "listen", address::listen);
    let upstream = faults
        .require(given.upstream.as_ref(), "upstream", |text| address::upstream(text, working_directory));
    let (listen, upstream) = (listen?, upstream?);
    if address::leads_back(listen, &upstream) {
        faults.combination(
            [given.listen.as_ref()?, given.upstream.as_ref()?],
            "lead to the same port of this host, so that every connection would come back to us",
        );
    }
    Some((listen, upstream))
}

/// The admin endpoint needs an address of its own: clients must not meet it, and what it tells is not theirs to read.
fn admin_apart(faults: &mut Faults, given: &args::Serve, sides: (Listen, &Upstream), admin: &Admin) {
    let Some(endpoint) = &admin.endpoint else { return };
    let (listen, upstream) = sides;
    let (Some(admin_text), Some(listen_text), Some(upstream_text)) =
        (&given.admin.admin, &given.sides.listen, &given.sides.upstream)
    else {
        return;
    };
    let (meets_listen, meets_upstream) = match endpoint {
        Endpoint::Tcp(address) => {
            (address::overlap(*address, listen), address::leads_back(*address, upstream))
        }
        Endpoint::Unix(path) => (false, *upstream == Upstream::Unix(path.clone())),
    };
    if meets_listen {
        faults.combination([admin_text, listen_text], "ask for the same port");
    }
    if meets_upstream {
        faults.combination(
            [admin_text, upstream_text],
            "lead to the same place, so that every client could read what the admin endpoint tells",
        );
    }
}

fn reload(faults: &mut Faults, given: &args::Certificate, working_directory: &Path) -> Option<Reload> {
    let files = files(faults, &given.files, working_directory);
    let interval =
        faults.check(&given.reload_interval, |text| value::duration_or_off(text, limits::RELOAD_INTERVAL));
    let missing = faults.check(&given.require_certificate, |text| {
        value::switch(text, MissingCertificate::Exit, MissingCertificate::Wait)
    });
    let expired = expired(faults, &given.expired);
    let (cert, key) = files?;
    Some(Reload { cert, key, interval: interval?, missing: missing?, expired: expired? })
}

fn files(faults: &mut Faults, given: &args::Files, working_directory: &Path) -> Option<(PathBuf, PathBuf)> {
    let cert = faults.require(given.cert.as_ref(), "cert", |text| value::file(text, working_directory));
    let key = faults.require(given.key.as_ref(), "key", |text| value::file(text, working_directory));
    Some((cert?, key?))
}

fn expired(faults: &mut Faults, given: &args::Expired) -> Option<ExpiredCertificate> {
    faults.check(&given.allow_expired, |text| {
        value::switch(text, ExpiredCertificate::Serve, ExpiredCertificate::Refuse)
    })
}

fn tls(faults: &mut Faults, given: &args::Tls) -> Option<Tls> {
    const VERSIONS: &[(&str, TlsVersion)] = &[
        ("1.2", TlsVersion::V1_2),
        ("1.3", TlsVersion::V1_3),
        ("VersionTLS12", TlsVersion::V1_2),
        ("VersionTLS13", TlsVersion::V1_3),
    ];
    let min_version = faults.check(&given.tls_min_version, |text| value::word(text, VERSIONS));
    let cipher_suites = faults.check(&given.tls_cipher_suites, |text| {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(CipherSuites::Auto);
        }
        value::code_points(text, SUITES).map(CipherSuites::Listed)
    });
    let groups = faults.check(&given.tls_groups, |text| value::code_points(text, GROUPS));
    let alpn = match &given.alpn {
        Some(text) => faults.check(text, value::alpn),
        None => Some(Vec::new()),
    };
    let (min_version, cipher_suites) = (min_version?, cipher_suites?);
    if !some_suite_fits(min_version, &cipher_suites) {
        faults.combination(
            [&given.tls_min_version, &given.tls_cipher_suites],
            "leave nothing to agree on, because every suite listed ends with TLS 1.2; add one of TLS 1.3",
        );
    }
    Some(Tls { min_version, cipher_suites: with_newest(cipher_suites), groups: groups?, alpn: alpn? })
}

/// A list without a suite of TLS 1.3 says nothing of TLS 1.3, as in Kubernetes' own flags of this name: all of its
/// suites stay, before those listed.
fn with_newest(cipher_suites: CipherSuites) -> CipherSuites {
    let CipherSuites::Listed(listed) = cipher_suites else { return cipher_suites };
    let newest = SUITES.iter().filter(|suite| suite.newest_version == TlsVersion::V1_3);
    let mut newest: Vec<u16> = newest.map(|suite| suite.code_point).collect();
    if listed.iter().any(|code_point| newest.contains(code_point)) {
        return CipherSuites::Listed(listed);
    }
    newest.extend(listed);
    CipherSuites::Listed(newest)
}

fn some_suite_fits(min_version: TlsVersion, cipher_suites: &CipherSuites) -> bool {
    let CipherSuites::Listed(code_points) = cipher_suites else { return true };
    let fits = |&code_point: &u16| {
        tls_names::by_code_point(SUITES, code_point).is_some_and(|suite| suite.newest_version >= min_version)
    };
    code_points.iter().any(fits)
}

fn timeouts(faults: &mut Faults, given: &args::Timeouts) -> Option<Timeouts> {
    let phase = |text: &OsStr| value::duration(text, limits::PHASE_TIMEOUT);
    let life = |text: &OsStr| value::duration_or_off(text, limits::LIFE_TIMEOUT);
    let handshake = faults.check(&given.handshake_timeout, phase);
    let connect = faults.check(&given.connect_timeout, phase);
    let idle = faults.check(&given.idle_timeout, life);
    let half_close = faults.check(&given.half_close_timeout, phase);
    let connection_age = faults.check(&given.max_connection_age, life);
    let drain = faults.check(&given.drain_timeout, |text| value::duration(text, limits::DRAIN_TIMEOUT));
    let drain_delay = faults.check(&given.drain_delay, |text| value::duration(text, limits::DRAIN_DELAY));
    Some(Timeouts {
        handshake: handshake?,
        connect: connect?,
        idle: idle?,
        half_close: half_close?,
        connection_age: connection_age?,
        drain: drain?,
        drain_delay: drain_delay?,
    })
}

fn limits(faults: &mut Faults, given: &args::Limits) -> Option<Limits> {
    let connections =
        faults.check(&given.max_connections, |text| value::count_or_unlimited(text, limits::CONNECTIONS));
    let handshakes = faults.check(&given.max_handshakes, |text| value::count(text, limits::HANDSHAKES));
    let connections_per_client = faults.check(&given.max_connections_per_client, |text| {
        value::count_or_unlimited(text, limits::CONNECTIONS_PER_CLIENT)
    });
    let accept_rate =
        faults.check(&given.accept_rate, |text| value::count_or_unlimited(text, limits::ACCEPT_RATE));
    Some(Limits {
        connections: connections?,
        handshakes: handshakes?,
        connections_per_client: connections_per_client?,
        accept_rate: accept_rate?,
    })
}

fn admin(faults: &mut Faults, given: &args::Admin, working_directory: &Path) -> Option<Admin> {
    let endpoint = match &given.admin {
        Some(text) => faults.check(text, |text| address::endpoint(text, working_directory)).map(Some),
        None => Some(None),
    };
    let ready_stale_limit = faults
        .check(&given.ready_stale_limit, |text| value::duration_or_off(text, limits::READY_STALE_LIMIT));
    Some(Admin { endpoint: endpoint?, ready_stale_limit: ready_stale_limit? })
}

fn log(faults: &mut Faults, given: &args::Log) -> Option<Log> {
    const FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
    const LEVELS: &[(&str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    let format = faults.check(&given.log_format, |text| value::word(text, FORMATS));
    let level = faults.check(&given.log_level, |text| value::word(text, LEVELS));
    Some(Log { format: format?, level: level? })
}

fn worker_threads(text: &OsStr) -> Result<Workers, String> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(Workers::Auto);
    }
    value::count(text, limits::WORKERS).map(Workers::Fixed).map_err(|problem| format!("{problem}, nor auto"))
}
