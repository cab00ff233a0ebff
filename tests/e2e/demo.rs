//! The demo as a person runs it, but piped: it ends, it succeeds, and it shows what it promised.

use crate::sidecar::run;

#[test]
fn two_rotations_end_well_and_show_their_serials() {
    let demo = run(&[], &["demo", "--rotations", "2", "--interval", "200ms"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    assert!(demo.stdout.contains("curl --cacert"), "{}", demo.stdout);
    assert!(!demo.stdout.contains('\u{1b}'), "colours in a pipe: {:?}", demo.stdout);
    // Serials count up by one; two rotations show three of them.
    let shown = |serial: u64| demo.stdout.to_ascii_lowercase().contains(&format!("{serial:x}"));
    let first = (0x1000..0x1010).find(|serial| shown(*serial)).expect("no serial is shown");
    assert!(shown(first + 1) && shown(first + 2), "{}", demo.stdout);
    assert!(!shown(first + 3), "{}", demo.stdout);
}

#[test]
fn a_demo_with_a_wrong_flag_is_refused() {
    assert_eq!(run(&[], &["demo", "--rotations", "many"]).code, Some(2));
}

#[test]
fn a_demo_is_not_led_astray_by_variables_for_serve() {
    let variables = [("TLSIDECAR_MAX_CONNECTIONS", "1"), ("TLSIDECAR_IDLE_TIMEOUT", "never")];
    let demo = run(&variables, &["demo", "--rotations", "1", "--interval", "200ms"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
}
