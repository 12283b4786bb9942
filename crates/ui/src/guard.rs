//! Who may ask, and what an answer allows a browser to do.
//!
//! The server listens on this machine, yet every page that a browser shows can send requests to it. So each
//! request is checked for three things, in this order:
//! - **Host** names this server by an address or as `localhost`. A foreign name that resolves to this
//!   machine (DNS rebinding) is refused, because such a name is not in the list.
//! - **Origin**, if present, is this server; requests that change something must have it. So other pages,
//!   which a browser marks with their own origin, are refused.
//! - **The token**: 128 random bits. It is in the address that the program prints; the page behind it turns
//!   it into a cookie, `HttpOnly` and `SameSite=Strict`. Its name has the port, because cookies are shared
//!   by all ports of a machine.
//!
//! Answers forbid everything that the pages do not need ([`secured`]). There is no CORS header: other
//! origins cannot read anything.

use crate::names::random_name;
use anomalist_http::{IntoResponse, Method, Request, Response, StatusCode, header};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// For the pages of the application: its own scripts, styles and data, reports in frames, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// For reports, which contain their script and style and are made from histories of any origin: an
/// origin of their own, so they can read nothing here and send nothing anywhere.
pub(crate) const REPORT_POLICY: &str = "sandbox allow-scripts allow-downloads; default-src 'none'; \
    script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; \
    connect-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// Why a request is refused.
pub(crate) type Denial = (StatusCode, &'static str);

/// Checks requests.
pub(crate) struct Guard {
    token: String,
    cookie: String,
    at: SocketAddr,
}

/// What a request may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Everything.
    Known,
    /// The token is right: the cookie.
    Welcome,
}

impl Guard {
    pub(crate) fn new(at: SocketAddr) -> io::Result<Guard> {
        Ok(Guard { token: random_name()?, cookie: format!("anomalist-{}", at.port()), at })
    }

    /// The address with the token.
    pub(crate) fn address(&self) -> String {
        let mut at = self.at;
        if at.ip().is_unspecified() {
            at.set_ip(if at.is_ipv4() { [127, 0, 0, 1].into() } else { IpAddr::V6(1_u128.into()) });
        }
        format!("http://{at}/?token={}", self.token)
    }

    pub(crate) fn check(&self, request: &Request) -> Result<Pass, Denial> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if hosts.next().is_some() || !self.is_own(host) {
            return Err((StatusCode::FORBIDDEN, "this name is not a name of this server"));
        }
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD);
        match request.headers().get(header::ORIGIN) {
            Some(origin) if origin.to_str().ok().and_then(|o| o.strip_prefix("http://")) == Some(host) => {}
            None if !changes => {}
            _ => return Err((StatusCode::FORBIDDEN, "requests of other pages are refused")),
        }
        if self.has_cookie(request) {
            return Ok(Pass::Known);
        }
        let query = request.uri().query().unwrap_or_default();
        let given = query.split('&').find_map(|part| part.strip_prefix("token="));
        if request.uri().path() == "/" && !changes && given.is_some_and(|token| same(token, &self.token)) {
            return Ok(Pass::Welcome);
        }
        Err((StatusCode::FORBIDDEN, "the token is missing: open the address that anomalist ui printed"))
    }

    /// Whether a Host header names this server.
    fn is_own(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        if port.parse() != Ok(self.at.port()) {
            return false;
        }
        let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
        let loopback = self.at.ip().is_loopback();
        match name.parse::<IpAddr>() {
            // An address is no name that another can point here.
            Ok(address) => !loopback || address.is_loopback(),
            Err(_) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    fn has_cookie(&self, request: &Request) -> bool {
        let cookies = request.headers().get_all(header::COOKIE).iter();
        let all = cookies.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
        let mut own = all.filter_map(|cookie| cookie.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        own.any(|value| same(value, &self.token))
    }

    /// The page that takes the token out of the address. It leads on by itself rather than by a redirect:
    /// a browser that came from another site would not send a strict cookie along a redirect.
    pub(crate) fn welcome(&self) -> Response {
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token);
        let page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Anomalist</title>\
            <meta http-equiv=\"refresh\" content=\"0;url=/\"><p><a href=\"/\">Anomalist</a></p></html>";
        let headers =
            [(header::SET_COOKIE, cookie), (header::CONTENT_TYPE, "text/html; charset=utf-8".into())];
        (headers, page).into_response()
    }
}

/// Compares without a hint in the time that it takes about how much is equal.
fn same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && differences == 0
}

/// An answer with the headers that every answer has.
pub(crate) fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    for (name, value) in [
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, header::HeaderValue::from_static(value));
    }
    let policy = header::HeaderValue::from_static(POLICY);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use anomalist_http::Bytes;

    fn guard() -> Guard {
        Guard::new("127.0.0.1:4000".parse().unwrap()).unwrap()
    }

    fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> Request {
        let builder = Request::new(Bytes::new());
        let (mut head, body) = builder.into_parts();
        head.method = method.parse().unwrap();
        head.uri = target.parse().unwrap();
        for (name, value) in headers {
            head.headers.append(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
        }
        Request::from_parts(head, body)
    }

    #[test]
    fn hosts_are_addresses_of_this_machine() {
        let guard = guard();
        for host in ["127.0.0.1:4000", "localhost:4000", "LOCALHOST:4000", "[::1]:4000"] {
            assert!(guard.is_own(host), "{host}");
        }
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:4001",
            "evil.example:4000",
            "localhost.evil.example:4000",
            "10.0.0.1:4000",
            "localhost:4000:4000",
            "127.0.0.1:4000@evil:4000",
        ] {
            assert!(!guard.is_own(host), "{host}");
        }
        let open = Guard::new("0.0.0.0:4000".parse().unwrap()).unwrap();
        assert!(open.is_own("10.0.0.1:4000") && !open.is_own("evil.example:4000"));
        assert!(open.address().starts_with("http://127.0.0.1:4000/?token="));
    }

    #[test]
    fn the_token_opens_the_door_once_and_the_cookie_afterwards() {
        let guard = guard();
        let host = ("host", "127.0.0.1:4000");
        let welcome = format!("/?token={}", guard.token);
        assert_eq!(guard.check(&request("GET", &welcome, &[host])), Ok(Pass::Welcome));
        assert!(guard.check(&request("GET", "/?token=0", &[host])).is_err());
        assert!(guard.check(&request("GET", "/", &[host])).is_err());
        let asks = format!("/api/items?token={}", guard.token);
        assert!(guard.check(&request("GET", &asks, &[host])).is_err(), "a token is for the first page only");
        let cookie = format!("other=1; anomalist-4000={}", guard.token);
        let with = [host, ("cookie", cookie.as_str())];
        assert_eq!(guard.check(&request("GET", "/", &with)), Ok(Pass::Known));
        assert!(guard.check(&request("GET", "/", &[host, ("cookie", "anomalist-4000=")])).is_err());
        assert!(guard.check(&request("GET", "/", &[host, host, with[1]])).is_err(), "two hosts");
    }

    #[test]
    fn other_pages_cannot_ask() {
        let guard = guard();
        let cookie = format!("anomalist-4000={}", guard.token);
        let ask = |method: &str, origin: Option<&str>| {
            let mut headers = vec![("host", "127.0.0.1:4000"), ("cookie", cookie.as_str())];
            headers.extend(origin.map(|origin| ("origin", origin)));
            guard.check(&request(method, "/", &headers)).is_ok()
        };
        assert!(ask("GET", None) && ask("GET", Some("http://127.0.0.1:4000")));
        assert!(ask("POST", Some("http://127.0.0.1:4000")));
        assert!(!ask("POST", None), "a change has to say where it comes from");
        for foreign in ["http://evil.example", "null", "https://127.0.0.1:4000", "http://127.0.0.1:4001"] {
            assert!(!ask("GET", Some(foreign)) && !ask("POST", Some(foreign)), "{foreign}");
        }
    }
}
