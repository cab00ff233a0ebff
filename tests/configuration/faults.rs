//! Wrong values, each with the line its user reads.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::document::help_entries;
use crate::{REQUIRED, fault_lines, parse, serve};

/// Flag, value, and the fault.
const WRONG: &[(&str, &str, &str)] = &[
    ("listen", "", "has no port; write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443"),
    ("listen", "127.0.0.1", "has no port; write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443"),
    (
        "listen",
        "localhost:1",
        "has no IP address before the port; write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443",
    ),
    ("listen", "127.0.0.1:65536", "has port 65536; the most is 65535"),
    (
        "listen",
        "https://127.0.0.1:8443",
        "is a URL, but bytes are relayed whatever they say; drop https:// and write 127.0.0.1:8443",
    ),
    (
        "listen",
        "::1:8443",
        "has colons outside brackets; write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443, and IPv6 as [::1]:PORT",
    ),
    ("admin", "9090", "has no port; write ADDR:PORT, for example 127.0.0.1:8443, [::1]:8443 or :8443"),
    ("admin", "unix:@x", "is an abstract socket, which nobody can be kept from; write unix:/path"),
    (
        "admin",
        "unix:/run/",
        "ends with a slash, as only the path of a directory does; write the path of a file",
    ),
    ("ready-stale-limit", "5", "has no unit; write 5s for seconds"),
    ("upstream", "127.0.0.1:0", "has port 0, where nothing can listen; write 1 to 65535"),
    (
        "upstream",
        ":8080",
        "has no host before the port; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    ("upstream", "app", "has no port; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path"),
    (
        "upstream",
        "app:http",
        "has no port number after its last colon; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    (
        "upstream",
        "app:+80",
        "has no port number after its last colon; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    (
        "upstream",
        "http://127.0.0.1:8080/",
        "is a URL, but bytes are relayed whatever they say; drop http:// and write 127.0.0.1:8080",
    ),
    (
        "upstream",
        "me@app:80",
        "has '@' in its host name; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    (
        "upstream",
        "300.0.0.1:80",
        "has \"300.0.0.1\" where an IPv4 address belongs; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    (
        "upstream",
        "[app]:80",
        "has \"app\" where an IPv6 address belongs; write HOST:PORT, for example 127.0.0.1:8080, or unix:/path",
    ),
    ("upstream", "unix:", "is empty; write the path of a file"),
    (
        "upstream",
        "unix:/run/",
        "ends with a slash, as only the path of a directory does; write the path of a file",
    ),
    ("upstream", "unix://run/app", "has a host in a unix: address; write unix:/path"),
    ("upstream", "unix:@", "has no name after the @; write unix:@name"),
    ("cert", "", "is empty; write the path of a file"),
    (
        "cert",
        "/tls/tls.crt/",
        "ends with a slash, as only the path of a directory does; write the path of a file",
    ),
    ("cert", "/tls/.", "is a directory; write the path of a file in it"),
    ("key", "..", "is a directory; write the path of a file in it"),
    ("tls-min-version", "1.1", "is not one of 1.2, 1.3, VersionTLS12, VersionTLS13"),
    ("tls-cipher-suites", "", "is empty; write names separated by commas"),
    (
        "tls-cipher-suites",
        "TLS_AES_128_GCM_SHA256,,",
        "has an empty name; write names separated by single commas",
    ),
    (
        "tls-cipher-suites",
        "ECDHE-RSA-AES128-GCM-SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "names TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 twice",
    ),
    (
        "tls-groups",
        "X448",
        "names \"X448\", which is not one of X25519MLKEM768, SECP256R1MLKEM768, X25519, P-256, P-384, MLKEM768, MLKEM1024",
    ),
    ("alpn", "h2,h2", "names \"h2\" twice"),
    ("reload-interval", "1ms", "is not between 10ms and 1day, nor 0 for off"),
    ("handshake-timeout", "0", "is not between 1ms and 1day"),
    ("connect-timeout", "soon", "is not a duration; write for example 250ms, 10s, 1m 30s or 2h"),
    ("connect-timeout", "-1s", "is not a duration; write for example 250ms, 10s, 1m 30s or 2h"),
    (
        "connect-timeout",
        "99999999999999999999999y",
        "is not a duration; write for example 250ms, 10s, 1m 30s or 2h",
    ),
    ("idle-timeout", "300", "has no unit; write 300s for seconds"),
    ("idle-timeout", "31d", "is not between 1ms and 30days, nor 0 for off"),
    ("max-connections", "1.5", "is not a whole number from 1 to 1048576, nor 0 for no limit"),
    (
        "max-connections",
        "99999999999999999999",
        "is not a whole number from 1 to 1048576, nor 0 for no limit",
    ),
    ("max-handshakes", "0", "is not a whole number from 1 to 1048576"),
    ("drain-delay", "2h", "is not between 0s and 1h"),
    ("max-connections-per-client", "-1", "is not a whole number from 1 to 1048576, nor 0 for no limit"),
    ("accept-rate", "10/s", "is not a whole number from 1 to 1000000, nor 0 for no limit"),
    ("workers", "many", "is not a whole number from 1 to 256, nor auto"),
    ("log-format", "xml", "is not one of text, json"),
    ("allow-expired", "maybe", "is not one of true, false, 1, 0, yes, no"),
];

#[test]
fn a_wrong_value_is_the_one_fault_and_says_what_would_be_right() {
    for (flag, value, problem) in WRONG {
        let refusal = serve(&[&format!("--{flag}={value}")]).expect_err(value);
        assert_eq!(fault_lines(&refusal.text), [format!("--{flag} {value:?}: {problem}")]);
        assert_eq!(refusal.exit_code, 2);
    }
}

#[test]
fn a_negative_value_is_the_fault_of_the_flag_before_it() {
    for (words, line) in [
        (
            ["--max-connections", "-1"],
            "--max-connections \"-1\": is not a whole number from 1 to 1048576, nor 0 for no limit",
        ),
        (
            ["--drain-timeout", "-1s"],
            "--drain-timeout \"-1s\": is not a duration; write for example 250ms, 10s, 1m 30s or 2h",
        ),
        (
            ["--drain-timeout", "-.5s"],
            "--drain-timeout \"-.5s\": is not a duration; write for example 250ms, 10s, 1m 30s or 2h",
        ),
    ] {
        let refusal = serve(&words).expect_err(line);
        assert_eq!((fault_lines(&refusal.text), refusal.exit_code), (vec![line], 2));
    }
    for subcommand in ["serve", "demo", "doctor"] {
        let flags: Vec<_> = help_entries(subcommand).into_iter().map(|entry| entry.flag).collect();
        let apart = flags.iter().flat_map(|flag| [flag.clone(), "-1s".to_owned()]);
        let apart = parse([subcommand.to_owned()].into_iter().chain(apart));
        let joined = flags.iter().map(|flag| format!("{flag}=-1s"));
        assert_eq!(apart, parse([subcommand.to_owned()].into_iter().chain(joined)), "{subcommand}");
    }
    for words in [["-1s", "--max-connections=1"], ["--max-connections=1", "-1s"]] {
        assert!(serve(&words).unwrap_err().text.contains("unexpected argument '-1'"), "{words:?}");
    }
}

#[test]
fn lengths_end_where_the_kernel_and_the_wire_end_them() {
    let of_bytes = |prefix: &str, count: usize| format!("{prefix}{}", "a".repeat(count));
    for (prefix, most, problem) in [
        ("--upstream=unix:/", 106, "names a socket in 108 bytes; the most is 107"),
        ("--upstream=unix:@", 107, "names a socket in 108 bytes; the most is 107"),
        ("--alpn=", 255, "has a name of 256 bytes; the most is 255"),
        ("--cert=/", 4094, "is a path of 4096 bytes; the most is 4095"),
    ] {
        assert!(serve(&[&of_bytes(prefix, most)]).is_ok(), "{prefix}");
        let refusal = serve(&[&of_bytes(prefix, most + 1)]).expect_err(prefix);
        assert!(refusal.text.contains(problem), "{}", refusal.text);
    }
    // A relative path counts with the directory it starts in.
    assert!(serve(&[&of_bytes("--upstream=unix:", 107 - "/srv/here/".len())]).is_ok());
    assert!(serve(&[&of_bytes("--upstream=unix:", 108 - "/srv/here/".len())]).is_err());
    let protocols: Vec<_> = (0..65).map(|number| number.to_string()).collect();
    assert!(serve(&[&format!("--alpn={}", protocols[..64].join(","))]).is_ok());
    assert!(serve(&[&format!("--alpn={}", protocols.join(","))]).is_err());
}

#[test]
fn every_flag_that_is_wrong_is_reported_in_one_run() {
    for subcommand in ["serve", "demo", "doctor"] {
        let flags: Vec<_> = help_entries(subcommand).into_iter().map(|entry| entry.flag).collect();
        // Neither a word, a number, a duration, an address, a list, nor a file.
        let words = flags.iter().map(|flag| format!("{flag}=/,,/"));
        let refusal =
            parse([subcommand.to_owned()].into_iter().chain(words)).expect_err("all flags are wrong");
        let lines = fault_lines(&refusal.text);
        let places: Vec<_> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(places, flags);
        assert!(refusal.text.starts_with(&format!("error: {} faults in the configuration\n", flags.len())));
    }
}

#[test]
fn what_is_missing_is_reported_beside_what_is_wrong() {
    let refusal = parse(["serve", "--key=/k", "--log-level=x"]).unwrap_err();
    assert_eq!(
        fault_lines(&refusal.text),
        [
            "--listen: is missing; give it or set TLSIDECAR_LISTEN",
            "--upstream: is missing; give it or set TLSIDECAR_UPSTREAM",
            "--cert: is missing; give it or set TLSIDECAR_CERT",
            "--log-level \"x\": is not one of error, warn, info, debug, trace",
        ]
    );
}

#[test]
fn an_upstream_that_is_ourselves_is_a_loop() {
    const PROBLEM: &str = "--listen and --upstream: lead to the same port of this host, so that every connection would come back to us";
    for (listen, upstream, loops) in [
        ("127.0.0.1:8443", "127.0.0.1:8443", true),
        (":8443", "127.0.0.1:8443", true),
        (":8443", "LOCALHOST:8443", true),
        ("0.0.0.0:8443", "[::1]:8443", true),
        ("127.0.0.1:8443", "[::ffff:127.0.0.1]:8443", true),
        ("10.0.0.1:8443", "10.0.0.1:8443", true),
        ("10.0.0.1:8443", "127.0.0.1:8443", false),
        (":8443", "10.0.0.1:8443", false),
        (":8443", "app:8443", false),
        (":8443", "127.0.0.1:8080", false),
        (":8443", "unix:/run/8443", false),
    ] {
        let result = serve(&[&format!("--listen={listen}"), &format!("--upstream={upstream}")]);
        let faults = result.err().map(|refusal| refusal.text).unwrap_or_default();
        assert_eq!(fault_lines(&faults), vec![PROBLEM; usize::from(loops)], "{listen} {upstream}");
    }
}

#[test]
fn the_admin_endpoint_has_an_address_of_its_own() {
    const PORT: &str = "--admin and --listen: ask for the same port";
    const PLACE: &str = "--admin and --upstream: lead to the same place, so that every client could read what the admin endpoint tells";
    for (admin, upstream, faults) in [
        ("127.0.0.1:8443", "127.0.0.1:8080", vec![PORT]),
        ("0.0.0.0:8443", "127.0.0.1:8080", vec![PORT]),
        ("127.0.0.1:8080", "127.0.0.1:8080", vec![PLACE]),
        ("unix:/run/a", "unix:/run/a", vec![PLACE]),
        ("127.0.0.1:0", "127.0.0.1:8080", vec![]),
        ("127.0.0.1:9090", "127.0.0.1:8080", vec![]),
        ("unix:/run/a", "unix:/run/b", vec![]),
    ] {
        let flags =
            ["--listen=127.0.0.1:8443", &format!("--admin={admin}"), &format!("--upstream={upstream}")];
        let text = serve(&flags).err().map(|refusal| refusal.text).unwrap_or_default();
        assert_eq!(fault_lines(&text), faults, "{admin} {upstream}");
    }
}

#[test]
fn suites_and_least_version_must_have_something_in_common() {
    let old = "--tls-cipher-suites=ECDHE-ECDSA-AES128-GCM-SHA256,ECDHE-RSA-AES128-GCM-SHA256";
    let refusal = serve(&["--tls-min-version=1.3", old]).unwrap_err();
    assert_eq!(
        fault_lines(&refusal.text),
        [
            "--tls-min-version and --tls-cipher-suites: leave nothing to agree on, because every suite listed ends with TLS 1.2; add one of TLS 1.3"
        ]
    );
    assert!(serve(&["--tls-min-version=1.3", &format!("{old},TLS_AES_128_GCM_SHA256")]).is_ok());
    assert!(serve(&["--tls-min-version=1.2", old]).is_ok());
    assert!(serve(&["--tls-min-version=1.2", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256"]).is_ok());
}

#[test]
fn bytes_that_are_no_text_are_a_fault_everywhere_but_in_paths() {
    let mut word = b"--alpn=h2,".to_vec();
    word.push(0xff);
    let words = ["serve"].iter().chain(&REQUIRED).map(OsString::from).chain([OsString::from_vec(word)]);
    let refusal = parse(words).unwrap_err();
    assert_eq!(fault_lines(&refusal.text), ["--alpn \"h2,\u{fffd}\": is not valid UTF-8"]);
    assert!(serve(&["--cert=/a\0b"]).unwrap_err().text.contains("has a NUL byte"));
}
