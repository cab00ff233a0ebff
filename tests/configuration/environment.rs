//! Variables, exit codes and streams of the real binary. No case here is a configuration that runs.

use std::process::{Command, Output};

use crate::fault_lines;

fn run(args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tlsidecar"));
    command.args(args).env_clear().envs(variables.iter().copied()).output().unwrap()
}

fn faults_of(args: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let output = run(args, variables);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    let text = String::from_utf8(output.stderr).unwrap();
    fault_lines(&text).into_iter().map(str::to_owned).collect()
}

#[test]
fn a_fault_names_the_variable_it_stands_in() {
    let variables = [
        ("TLSIDECAR_LISTEN", ":8443"),
        ("TLSIDECAR_UPSTREAM", "localhost:8443"),
        ("TLSIDECAR_CERT", ""),
        ("TLSIDECAR_KEY", "/tls/tls.key"),
        ("TLSIDECAR_ALLOW_EXPIRED", "perhaps"),
    ];
    let faults = faults_of(&["serve", "--workers=0"], &variables);
    let places: Vec<_> = faults.iter().map(|line| line.split([':', '"']).next().unwrap().trim()).collect();
    assert_eq!(
        places,
        ["TLSIDECAR_LISTEN and TLSIDECAR_UPSTREAM", "TLSIDECAR_CERT", "TLSIDECAR_ALLOW_EXPIRED", "--workers"]
    );
}

#[test]
fn a_flag_wins_over_its_variable() {
    let args = ["serve", "--listen=:1", "--upstream=h:2", "--cert=c", "--key=k", "--log-level=loud"];
    let faults = faults_of(&args, &[("TLSIDECAR_LISTEN", "nowhere"), ("TLSIDECAR_LOG_LEVEL", "quiet")]);
    assert_eq!(faults, [r#"--log-level "loud": is not one of error, warn, info, debug, trace"#]);
}

#[test]
fn variables_that_kubernetes_sets_beside_a_service_of_our_name_do_no_harm() {
    let variables = [
        ("TLSIDECAR_PORT", "tcp://10.0.0.1:443"),
        ("TLSIDECAR_SERVICE_HOST", "10.0.0.1"),
        ("TLSIDECAR_SERVICE_PORT", "443"),
        ("TLSIDECAR_PORT_443_TCP_PROTO", "tcp"),
    ];
    let args = ["serve", "--listen=:1", "--upstream=h:2", "--cert=c", "--key=k", "--workers=0"];
    assert_eq!(faults_of(&args, &variables).len(), 1);
}

#[test]
fn help_and_version_are_no_faults() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["serve", "--help"],
        &["demo", "-h"],
        &["doctor", "--help"],
        &["serve", "-V"],
    ] {
        let output = run(args, &[]);
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{args:?}");
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
    assert_eq!(
        run(&["--version"], &[]).stdout,
        concat!("tlsidecar ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()
    );
}

#[test]
fn no_command_and_unknown_flags_end_with_code_2() {
    for args in [&[][..], &["serv"], &["serve", "--lisen=:1"], &["demo", "--workers=1"], &["serve", "extra"]]
    {
        let output = run(args, &[]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_private_key_in_the_wrong_place_is_not_repeated() {
    const PEM: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----";
    for args in [&["serve", "--key", PEM][..], &["serve", &format!("--key={PEM}")], &["serve", PEM]] {
        let text = String::from_utf8(run(args, &[]).stderr).unwrap();
        assert!(
            text.contains("holds PEM text; write the name of the file") && !text.contains("c2Vj"),
            "{text}"
        );
    }
    let text = String::from_utf8(run(&["serve"], &[("TLSIDECAR_KEY", PEM)]).stderr).unwrap();
    assert!(text.contains("TLSIDECAR_KEY: holds PEM text") && !text.contains("c2Vj"), "{text}");
}
