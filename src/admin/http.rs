//! As much of HTTP/1.1 as four questions need: one request a connection, no body, and an answer of known length.
//!
//! Does not know what is asked for. Shown by the tables below.

/// The longest head of a request; kubelet, Prometheus and browsers stay far below.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The most header fields of a request.
const FIELDS_MAX: usize = 64;

/// The longest answer. A certificate of hundreds of long names stays below it.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What the bytes of a request amount to so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// More must come.
    Incomplete,
    /// This is asked. Bytes behind the head are ignored, because the connection ends with the answer.
    Complete(Request),
    /// Whatever comes, this is the answer.
    Refused(Response),
}

/// A request that may be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whether the answer has a body.
    pub method: Method,
    /// The path without the query.
    pub path: String,
}

/// What may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The whole answer.
    Get,
    /// The answer without its body.
    Head,
}

/// An answer, after which the connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    code: Code,
    content_type: &'static str,
    body: String,
    method: Method,
}

/// How a request fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// 200.
    Ok,
    /// 400: not HTTP.
    Bad,
    /// 404.
    NotFound,
    /// 405: neither GET nor HEAD.
    WrongMethod,
    /// 431: the head is too long or has too many fields.
    TooLong,
    /// 500: the answer is too long, or can't be written.
    Internal,
    /// 503.
    NotReady,
    /// 505: neither HTTP/1.0 nor HTTP/1.1.
    WrongVersion,
}

impl Code {
    /// The three digits.
    #[must_use]
    pub fn digits(self) -> &'static str {
        self.line().split_at(3).0
    }

    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::Bad => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::WrongMethod => "405 Method Not Allowed",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Internal => "500 Internal Server Error",
            Self::NotReady => "503 Service Unavailable",
            Self::WrongVersion => "505 HTTP Version Not Supported",
        }
    }
}

/// Reads the head at the front of `bytes`, of which the caller keeps no more than [`HEAD_BYTES_MAX`].
#[must_use]
pub fn parse(bytes: &[u8]) -> Head {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => complete(&request),
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => Head::Incomplete,
        Ok(httparse::Status::Complete(_) | httparse::Status::Partial)
        | Err(httparse::Error::TooManyHeaders) => {
            refuse(Code::TooLong, "the head of the request is too long")
        }
        Err(httparse::Error::Version) => refuse(Code::WrongVersion, "this speaks HTTP/1.1 and HTTP/1.0"),
        Err(error) => refuse(Code::Bad, &error.to_string()),
    }
}

fn complete(request: &httparse::Request<'_, '_>) -> Head {
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some(_) | None => return refuse(Code::WrongMethod, "nothing can be changed here; use GET or HEAD"),
    };
    Head::Complete(Request { method, path: path(request.path.unwrap_or_default()).to_owned() })
}

/// The path of a target, which may be written with scheme and host in front, and with a query behind.
fn path(target: &str) -> &str {
    let target = match target.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => {
            rest.find('/').map_or("/", |start| rest.split_at(start).1)
        }
        Some(_) | None => target,
    };
    target.split(['?', '#']).next().unwrap_or_default()
}

fn refuse(code: Code, why: &str) -> Head {
    Head::Refused(Response::new(code, "text/plain; charset=utf-8", format!("{why}\n")))
}

impl Response {
    /// An answer with its body.
    #[must_use]
    pub fn new(code: Code, content_type: &'static str, body: String) -> Self {
        if body.len() > BODY_BYTES_MAX {
            let why = format!("the answer has {} bytes; the most is {BODY_BYTES_MAX}\n", body.len());
            return Self { code: Code::Internal, content_type: "text/plain", body: why, method: Method::Get };
        }
        Self { code, content_type, body, method: Method::Get }
    }

    /// The answer to a request with this method.
    pub(super) fn to(self, method: Method) -> Self {
        Self { method, ..self }
    }

    /// How the request fared.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// As it goes on the wire.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let allow = if self.code == Code::WrongMethod { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.code.line(),
            self.content_type,
            self.body.len(),
        );
        if self.method == Method::Get {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(bytes: impl AsRef<[u8]>) -> Option<Code> {
        match parse(bytes.as_ref()) {
            Head::Incomplete => None,
            Head::Complete(_) => Some(Code::Ok),
            Head::Refused(response) => Some(response.code()),
        }
    }

    #[test]
    fn what_the_first_bytes_amount_to() {
        for (bytes, expected) in [
            ("", None),
            ("GET /livez HTTP/1.1\r\n", None),
            ("GET /livez HTTP/1.1\r\nHost: x\r\n", None),
            ("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", Some(Code::Ok)),
            ("GET /livez HTTP/1.1\nHost: x\n\n", Some(Code::Ok)),
            ("GET /livez HTTP/1.1\r\n\r\n", Some(Code::Ok)),
            ("\r\nGET /livez HTTP/1.0\r\n\r\n", Some(Code::Ok)),
            ("HEAD /livez HTTP/1.1\r\n\r\n", Some(Code::Ok)),
            ("GET /livez HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", Some(Code::Ok)),
            ("GET /livez HTTP/1.1\r\n\r\n\0\0\0", Some(Code::Ok)),
            ("POST /livez HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", Some(Code::WrongMethod)),
            ("get /livez HTTP/1.1\r\n\r\n", Some(Code::WrongMethod)),
            ("CONNECT x:1 HTTP/1.1\r\n\r\n", Some(Code::WrongMethod)),
            ("GET /livez HTTP/2.0\r\n\r\n", Some(Code::WrongVersion)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Code::WrongVersion)),
            ("GET /livez\r\n\r\n", Some(Code::Bad)),
            ("GET  /livez HTTP/1.1\r\n\r\n", Some(Code::Bad)),
            ("GET /a b HTTP/1.1\r\n\r\n", Some(Code::WrongVersion)),
            ("GET /\u{1} HTTP/1.1\r\n\r\n", Some(Code::Bad)),
            ("GET /livez HTTP/1.1\r\nNo colon\r\n\r\n", Some(Code::Bad)),
            ("\u{16}\u{3}\u{1}\u{2}\0", Some(Code::Bad)),
        ] {
            assert_eq!(code(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_head_is_refused_when_it_can_grow_no_more() {
        let start = "GET /livez HTTP/1.1\r\nX: ";
        let fill = |bytes: usize| format!("{start}{}", "x".repeat(bytes - start.len()));
        assert_eq!(code(fill(HEAD_BYTES_MAX - 1)), None);
        assert_eq!(code(fill(HEAD_BYTES_MAX)), Some(Code::TooLong));
        assert_eq!(code(fill(HEAD_BYTES_MAX - 4) + "\r\n\r\n"), Some(Code::Ok));
        assert_eq!(code(fill(HEAD_BYTES_MAX - 3) + "\r\n\r\n"), Some(Code::TooLong));
        let fields = |count| format!("GET /livez HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
        assert_eq!(code(fields(FIELDS_MAX)), Some(Code::Ok));
        assert_eq!(code(fields(FIELDS_MAX + 1)), Some(Code::TooLong));
        assert_eq!(code(format!("GET /{}", "x".repeat(HEAD_BYTES_MAX))), Some(Code::TooLong));
    }

    #[test]
    fn a_request_is_the_same_however_it_is_cut() {
        let whole = b"GET /status?verbose HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]), Head::Incomplete, "{cut}");
        }
        let request = Request { method: Method::Get, path: "/status".to_owned() };
        assert_eq!(parse(whole), Head::Complete(request));
    }

    #[test]
    fn the_path_of_a_target() {
        for (target, expected) in [
            ("/livez", "/livez"),
            ("/livez?", "/livez"),
            ("/livez?a=/b#c", "/livez"),
            ("http://host/livez?x", "/livez"),
            ("http://host:80", "/"),
            ("/redirect?to=http://host/livez", "/redirect"),
            ("*", "*"),
        ] {
            assert_eq!(path(target), expected, "{target}");
        }
    }

    #[test]
    fn an_answer_tells_its_length_and_its_end() {
        let Head::Refused(refused) = parse(b"PUT / HTTP/1.1\r\n\r\n") else { panic!("it is refused") };
        let refused = String::from_utf8(refused.bytes()).unwrap();
        let (head, body) = refused.split_once("\r\n\r\n").unwrap();
        for field in ["HTTP/1.1 405 Method Not Allowed", "\r\nAllow: GET, HEAD\r\n", "\r\nConnection: close"]
        {
            assert!(head.contains(field), "{head}");
        }
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        assert!(
            !String::from_utf8(Response::new(Code::Ok, "a/b", String::new()).bytes())
                .unwrap()
                .contains("Allow")
        );
    }

    #[test]
    fn an_answer_without_bounds_is_not_given() {
        let fits = Response::new(Code::Ok, "a/b", "x".repeat(BODY_BYTES_MAX));
        assert_eq!(fits.code(), Code::Ok);
        let too_long = Response::new(Code::Ok, "a/b", "x".repeat(BODY_BYTES_MAX + 1));
        assert_eq!(too_long.code(), Code::Internal);
        assert!(too_long.bytes().len() < 1000);
    }
}
