//! Where we listen and where the upstream is, as text. Resolves no name and opens no socket. Shown by the tables in
//! `tests/configuration.rs`.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::limits::{HOST_BYTES_MAX, UNIX_NAME_BYTES_MAX};
use super::{Endpoint, Listen, Upstream, value};

const LISTEN_FORMS: &str = "write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443";
const UPSTREAM_FORMS: &str = "write HOST:PORT, for example 127.0.0.1:8080, or unix:/path";

/// `ADDR:PORT`, or `:PORT` for every address.
pub(super) fn listen(text: &OsStr) -> Result<Listen, String> {
    let text = value::utf8(text)?;
    refuse_scheme(text)?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Listen(address));
    }
    let (host, port) = host_and_port(text, LISTEN_FORMS)?;
    if host.is_empty() {
        return Ok(Listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)));
    }
    Err(format!("has no IP address before the port; {LISTEN_FORMS}"))
}

/// `HOST:PORT`, `unix:PATH` or `unix:@NAME`. A relative path starts at `working_directory`.
pub(super) fn upstream(text: &OsStr, working_directory: &Path) -> Result<Upstream, String> {
    if let Some(path) = text.as_bytes().strip_prefix(b"unix:") {
        return unix(path, working_directory);
    }
    let text = value::utf8(text)?;
    refuse_scheme(text)?;
    let (host, port) = host_and_port(text, UPSTREAM_FORMS)?;
    if port == 0 {
        return Err("has port 0, where nothing can listen; write 1 to 65535".into());
    }
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(inside) => inside.parse::<Ipv6Addr>().map_err(|_| not_an_address(inside, "IPv6"))?.to_string(),
        None => named_host(host)?,
    };
    Ok(Upstream::Tcp { host, port })
}

/// `ADDR:PORT`, `:PORT` or `unix:PATH`. A relative path starts at `working_directory`.
pub(super) fn endpoint(text: &OsStr, working_directory: &Path) -> Result<Endpoint, String> {
    let Some(path) = text.as_bytes().strip_prefix(b"unix:") else {
        return listen(text).map(Endpoint::Tcp);
    };
    match unix(path, working_directory)? {
        Upstream::Unix(path) => Ok(Endpoint::Unix(path)),
        // An abstract socket has no permissions: every process of the network namespace could ask.
        Upstream::UnixAbstract(_) | Upstream::Tcp { .. } => {
            Err("is an abstract socket, which nobody can be kept from; write unix:/path".into())
        }
    }
}

/// Whether a connection to `upstream` would come back to `listen`, as far as the text can tell.
pub(super) fn leads_back(listen: Listen, upstream: &Upstream) -> bool {
    let Upstream::Tcp { host, port } = upstream else { return false };
    if listen.0.port() != *port {
        return false;
    }
    let upstream_ip = match host.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical(),
        Err(_) if host.eq_ignore_ascii_case("localhost") => Ipv4Addr::LOCALHOST.into(),
        Err(_) => return false,
    };
    let listen_ip = listen.0.ip().to_canonical();
    let on_this_host = upstream_ip.is_loopback() || upstream_ip.is_unspecified();
    upstream_ip == listen_ip || (on_this_host && listen_ip.is_unspecified())
}

/// Whether both addresses can't be held at once. Port zero is any free one.
pub(super) fn overlap(one: Listen, other: Listen) -> bool {
    let (one, other) = (one.0, other.0);
    let (one_ip, other_ip) = (one.ip().to_canonical(), other.ip().to_canonical());
    let same_ip = one_ip == other_ip || one_ip.is_unspecified() || other_ip.is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_ip
}

fn unix(path: &[u8], working_directory: &Path) -> Result<Upstream, String> {
    if let Some(name) = path.strip_prefix(b"@") {
        if name.is_empty() {
            return Err("has no name after the @; write unix:@name".into());
        }
        return fitting(name.len()).map(|()| Upstream::UnixAbstract(name.to_vec()));
    }
    // The URL form has an empty host between its second and third slash.
    let path = match path.strip_prefix(b"//") {
        Some(path) if path.starts_with(b"/") => path,
        Some(_) => return Err("has a host in a unix: address; write unix:/path".into()),
        None => path,
    };
    let path = value::file(OsStr::from_bytes(path), working_directory)?;
    fitting(path.as_os_str().len()).map(|()| Upstream::Unix(path))
}

fn fitting(length_bytes: usize) -> Result<(), String> {
    if length_bytes > UNIX_NAME_BYTES_MAX {
        return Err(format!("names a socket in {length_bytes} bytes; the most is {UNIX_NAME_BYTES_MAX}"));
    }
    Ok(())
}

fn refuse_scheme(text: &str) -> Result<(), String> {
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(()) };
    let address = rest.split('/').next().unwrap_or(rest);
    Err(format!("is a URL, but bytes are relayed whatever they say; drop {scheme}:// and write {address}"))
}

fn host_and_port<'a>(text: &'a str, forms: &str) -> Result<(&'a str, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("has no port; {forms}"))?;
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(format!("has colons outside brackets; {forms}, and IPv6 as [::1]:PORT"));
    }
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("has no port number after its last colon; {forms}"));
    }
    let number = port.parse().map_err(|_| format!("has port {port}; the most is 65535"))?;
    Ok((host, number))
}

fn named_host(host: &str) -> Result<String, String> {
    if host.is_empty() {
        return Err(format!("has no host before the port; {UPSTREAM_FORMS}"));
    }
    if host.len() > HOST_BYTES_MAX {
        return Err(format!("has a host name of {} bytes; the most is {HOST_BYTES_MAX}", host.len()));
    }
    if let Some(odd) = host.chars().find(|&c| !(c.is_ascii_alphanumeric() || "-._".contains(c))) {
        return Err(format!("has {odd:?} in its host name; {UPSTREAM_FORMS}"));
    }
    let looks_numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if looks_numeric && host.parse::<Ipv4Addr>().is_err() {
        return Err(not_an_address(host, "IPv4"));
    }
    Ok(host.to_owned())
}

fn not_an_address(text: &str, kind: &str) -> String {
    format!("has {text:?} where an {kind} address belongs; {UPSTREAM_FORMS}")
}
