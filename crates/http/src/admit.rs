//! Which requests are taken: by the name of the server, by the page that sends them, by the type of what
//! they send.
//!
//! These servers ask for no password, so pages of other sites that a browser on this machine shows must not
//! reach them. A page that got this machine's address by its own name (DNS rebinding) sends that name as
//! `Host`; a page that sends a form or a script's request names itself in `Origin`; and a type that forms
//! cannot send makes a browser ask first, which is refused.

use crate::receive::Refusal;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use std::net::IpAddr;
use std::sync::Arc;

/// What is asked of requests.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    /// The address of this side of the connection.
    pub(crate) local: Option<IpAddr>,
    /// Other names that the server has.
    pub(crate) hosts: Arc<[String]>,
    /// The types of which a body that is posted has to be one; none: any.
    pub(crate) types: &'static [&'static str],
}

impl Admission {
    /// Why a request is refused, if it is.
    pub(crate) fn refuses<B>(&self, request: &Request<B>) -> Option<Refusal> {
        let headers = request.headers();
        let mut hosts = headers.get_all(header::HOST).iter();
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let named = hosts.next().map(|host| host.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Some((StatusCode::BAD_REQUEST, "the request has several hosts"));
        }
        if !named.into_iter().chain(authority).all(|host| self.is_own(host)) {
            return Some((StatusCode::FORBIDDEN, "the host is not a name of this server"));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let host = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            if !host.is_some_and(|(_, host)| self.is_own(host)) {
                return Some((StatusCode::FORBIDDEN, "requests of pages of other sites are refused"));
            }
        }
        self.refuses_type(request.method(), headers)
    }

    fn refuses_type(&self, method: &Method, headers: &HeaderMap) -> Option<Refusal> {
        let empty = !headers.contains_key(header::TRANSFER_ENCODING)
            && headers.get(header::CONTENT_LENGTH).is_none_or(|length| length == "0");
        if self.types.is_empty() || method != Method::POST || empty {
            return None;
        }
        let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = given.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let known = kind.is_some_and(|kind| self.types.iter().any(|known| known.eq_ignore_ascii_case(kind)));
        const WRONG: &str = "send it with Content-Type: application/json";
        (!known).then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, WRONG))
    }

    /// Whether `name`, `name:port`, `address:port` or `[address]:port` is this server.
    fn is_own(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
            None => host.split_once(':').map_or(host, |(name, _)| name),
        };
        if let Ok(address) = name.parse::<IpAddr>() {
            return address.is_loopback() || self.local == Some(address) || self.is_allowed(name);
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name == "localhost" || name.ends_with(".localhost") || self.is_allowed(&name)
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
    }
}
