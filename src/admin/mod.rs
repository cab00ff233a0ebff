//! The admin endpoint's questions and answers: whether the process lives, whether it is ready and why not, its numbers,
//! and all that is known of what it serves.
//!
//! Bytes of a request and a [`Status`] to the bytes of an answer. Does not know sockets, or how the status is gathered.
//! Shown by the tables in each file, and over sockets by `tests/admin.rs`.

mod http;
mod status;

pub use http::{Code, HEAD_BYTES_MAX, Head, Method, Request, Response, parse};
pub use status::{
    ByGeneration, Certificate, Connections, Failure, InForce, OnDisk, Phase, Set, Status, Timestamp,
    WatchMode, Watcher,
};

use crate::metrics::{self, Metrics};

/// What can be asked for, with a word on each for whoever asks for something else.
const PATHS: [(&str, &str); 4] = [
    ("/livez", "whether the loop turns"),
    ("/readyz", "whether clients should be sent here, or why not"),
    ("/metrics", "numbers for Prometheus"),
    ("/status", "all that is known of what is served, as JSON"),
];

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// The answer to a request. The gauges of `metrics` are those of `status` if whoever gathers it has set them.
#[must_use]
pub fn respond(request: &Request, status: &Status, metrics: &Metrics) -> Response {
    let response = match request.path.as_str() {
        "/livez" => Response::new(Code::Ok, TEXT, "alive\n".to_owned()),
        "/readyz" => readiness(&status.obstacles()),
        "/metrics" => Response::new(Code::Ok, metrics::CONTENT_TYPE, metrics.text()),
        "/status" => match status.json() {
            Ok(json) => Response::new(Code::Ok, JSON, json),
            Err(error) => Response::new(Code::Internal, TEXT, format!("{error}\n")),
        },
        _ => Response::new(Code::NotFound, TEXT, map()),
    };
    response.to(request.method)
}

fn readiness(obstacles: &[String]) -> Response {
    if obstacles.is_empty() {
        return Response::new(Code::Ok, TEXT, "ready\n".to_owned());
    }
    let lines = obstacles.iter().map(|obstacle| format!("{obstacle}\n")).collect();
    Response::new(Code::NotReady, TEXT, lines)
}

fn map() -> String {
    let lines = PATHS.iter().map(|(path, what)| format!("{path:<10} {what}\n"));
    std::iter::once("not found; there are:\n".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::status::tests::serving;
    use super::*;

    fn ask(line: &str, status: &Status) -> String {
        let Head::Complete(request) = parse(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()) else {
            panic!("{line} is a request");
        };
        String::from_utf8(respond(&request, status, &Metrics::new("1.2.3")).bytes()).unwrap()
    }

    #[test]
    fn every_path_of_the_map_is_answered() {
        for (path, _) in PATHS {
            assert!(ask(&format!("GET {path}"), &serving()).starts_with("HTTP/1.1 200 OK\r\n"), "{path}");
        }
        let metrics = ask("GET /metrics", &serving());
        assert!(metrics.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{metrics}");
        assert!(metrics.contains("tlsidecar_build_info{version=\"1.2.3\"} 1\n"), "{metrics}");
        let status = ask("GET /status", &serving());
        assert!(status.contains("Content-Type: application/json\r\n"), "{status}");
    }

    #[test]
    fn any_other_path_is_answered_with_the_map() {
        for path in ["/", "/livez/", "/METRICS", "//readyz", "/status/x", "*"] {
            let answer = ask(&format!("GET {path}"), &serving());
            assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{path}: {answer}");
            assert!(PATHS.iter().all(|(path, _)| answer.contains(path)), "{answer}");
        }
    }

    #[test]
    fn a_head_has_the_length_of_the_body_it_leaves_out() {
        for (path, _) in [PATHS.as_slice(), &[("/nowhere", "")]].concat() {
            let whole = ask(&format!("GET {path}"), &serving());
            let (head, body) = whole.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
            assert_eq!(ask(&format!("HEAD {path}"), &serving()), format!("{head}\r\n\r\n"));
        }
    }

    #[test]
    fn who_is_not_ready_says_why_a_line_each() {
        assert!(ask("GET /readyz", &serving()).ends_with("\r\n\r\nready\n"));
        let status = Status { phase: Phase::Draining, sets: vec![Set::default()], ..serving() };
        let answer = ask("GET /readyz", &status);
        assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\ndraining\nno certificate\n"), "{answer}");
        // Who drains is still alive.
        assert!(ask("GET /livez", &status).starts_with("HTTP/1.1 200 OK\r\n"));
    }
}
