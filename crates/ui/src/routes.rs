//! Requests and answers.
//!
//! Every request passes the guard, then is found by its method and the parts of its path. Parts are
//! compared or looked up as they are: nothing is decoded, nothing becomes a path.

use crate::fields::{Invocation, Refusal, Target};
use crate::folders::{Folders, Item};
use crate::guard::{Denial, Guard, Pass, REPORT_POLICY, secured};
use crate::job::Job;
use crate::jobs::{Jobs, Unstarted};
use crate::uploads::{Refused, Uploads};
use crate::{Commands, PART, Settings, assets, lattice};
use anomalist_client::remains::Folder;
use anomalist_http::{IntoResponse, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Most bytes of a JSON request.
const REQUEST: usize = 64 << 10;
/// How long a request waits for news.
const PATIENCE: Duration = Duration::from_secs(15);

/// The application's state.
pub(crate) struct App {
    guard: Guard,
    folders: Arc<Folders>,
    jobs: Jobs,
    uploads: Uploads,
    commands: Box<dyn Commands>,
    upload: u64,
    most_jobs: usize,
    lattice: String,
    // Removed last.
    private: Folder,
}

/// Something went wrong: a status, and why.
struct Trouble(StatusCode, String, Option<String>);

impl From<Denial> for Trouble {
    fn from((status, why): Denial) -> Trouble {
        Trouble(status, why.to_owned(), None)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Trouble {
        Trouble(StatusCode::UNPROCESSABLE_ENTITY, refusal.message, refusal.field)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble(StatusCode::INTERNAL_SERVER_ERROR, error.to_string(), None)
    }
}

impl From<Unstarted> for Trouble {
    fn from(why: Unstarted) -> Trouble {
        match why {
            Unstarted::Busy(most) => {
                let why = format!("{most} commands run already: wait for one to end, or cancel one");
                Trouble(StatusCode::TOO_MANY_REQUESTS, why, None)
            }
            Unstarted::Io(error) => error.into(),
        }
    }
}

impl From<Trouble> for Response {
    fn from(Trouble(status, why, field): Trouble) -> Response {
        let body = json!({"error": why, "field": field}).to_string();
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

const NOT_FOUND: Denial = (StatusCode::NOT_FOUND, "there is no such thing");

/// The answer to a request beyond the limits.
pub(crate) fn refused(status: StatusCode, why: &'static str) -> Response {
    secured(Trouble::from((status, why)).into())
}

fn answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

impl App {
    pub(crate) fn new(settings: Settings, guard: Guard) -> io::Result<App> {
        let private = Folder::temporary("ui")?;
        Ok(App {
            guard,
            folders: Arc::new(Folders::new(&settings.folders)?),
            jobs: Jobs::new(settings.program, settings.supervision, settings.jobs),
            uploads: Uploads::new(private.path(), settings.upload),
            commands: settings.commands,
            upload: settings.upload,
            most_jobs: settings.jobs,
            lattice: lattice::document().to_string(),
            private,
        })
    }

    /// Ends all commands.
    pub(crate) fn end(&self) {
        self.jobs.end();
    }

    pub(crate) fn answer(&self, request: Request) -> Response {
        let answered = match self.guard.check(&request) {
            Ok(Pass::Welcome) => Ok(self.guard.welcome()),
            Ok(Pass::Known) => self.route(&request),
            Err(denial) => Err(denial.into()),
        };
        secured(answered.unwrap_or_else(Response::from))
    }

    fn route(&self, request: &Request) -> Result<Response, Trouble> {
        let path: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        match (request.method(), path.as_slice()) {
            (&Method::GET, [""]) => Ok(assets::index()),
            (&Method::GET, ["icon.svg" | "favicon.ico"]) => Ok(assets::icon()),
            (&Method::GET, ["assets", name]) => Ok(assets::file(name).ok_or(NOT_FOUND)?),
            (&Method::GET, ["report", id]) => self.report(id),
            (&Method::GET, ["kept", id]) => Ok(page(self.item(id)?.page().ok_or(NOT_FOUND)?)),
            (&Method::GET, ["api", rest @ ..]) => self.get(rest, request.uri().query().unwrap_or_default()),
            (&Method::POST, ["api", rest @ ..]) => self.post(rest, &object(request)?),
            (&Method::PUT, ["api", "uploads", id]) => self.part(id, request),
            (&Method::GET, _) => Err(NOT_FOUND.into()),
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, "this cannot be done here").into()),
        }
    }

    fn get(&self, path: &[&str], query: &str) -> Result<Response, Trouble> {
        match path {
            ["about"] => Ok(answer(&json!({
                "version": env!("CARGO_PKG_VERSION"), "folders": self.folders.names(),
                "upload": self.upload, "part": PART, "jobs": self.most_jobs, "forms": self.commands.forms(),
            }))),
            ["levels"] => {
                Ok(([(header::CONTENT_TYPE, "application/json")], self.lattice.clone()).into_response())
            }
            ["items"] => Ok(answer(&self.folders.list())),
            ["items", id] => {
                let item = self.item(id)?;
                let mut shown = self.folders.detail(&item);
                let job = self.jobs.about(&item.id);
                shown["job"] = job.map_or(Value::Null, |job| job.summary());
                Ok(answer(&shown))
            }
            ["jobs"] => Ok(answer(&self.jobs.list())),
            ["jobs", id] => {
                let job = self.job(id)?;
                let after = query.strip_prefix("after=").and_then(|n| n.parse().ok()).unwrap_or(0);
                job.wait_for_news(after, PATIENCE, &|| !self.jobs.is_ending());
                Ok(answer(&job.news(after)))
            }
            _ => Err(NOT_FOUND.into()),
        }
    }

    fn post(&self, path: &[&str], body: &Value) -> Result<Response, Trouble> {
        match path {
            // What the form stands for, without running it. That it is wrong is an answer too.
            ["command"] => Ok(match self.invocation(body) {
                Ok((invocation, _)) => answer(&json!({"shown": invocation.shown})),
                Err(Trouble(StatusCode::UNPROCESSABLE_ENTITY, why, field)) => {
                    answer(&json!({"error": why, "field": field}))
                }
                Err(trouble) => return Err(trouble),
            }),
            ["jobs"] => {
                let (invocation, report) = self.invocation(body)?;
                if let Some(made) = &invocation.makes
                    && made.symlink_metadata().is_ok()
                {
                    return Err(Refusal::of("output", "a file of this name exists already").into());
                }
                let job = self.jobs.start(invocation, None, report, |_| ())?;
                Ok(answer(&job.summary()))
            }
            ["jobs", id, "cancel"] => {
                let job = self.job(id)?;
                job.cancel();
                Ok(answer(&job.summary()))
            }
            ["items", id, "check"] => Ok(answer(&self.check(&self.item(id)?)?.summary())),
            ["uploads"] => {
                let name = body["name"].as_str().unwrap_or("history");
                let size = body["size"].as_u64().ok_or_else(|| Refusal::of("size", "the size is missing"))?;
                let id = self.uploads.begin(name, size).map_err(|why| self.upload_refused(why))?;
                Ok(answer(&json!({"id": id})))
            }
            ["uploads", id, "cancel"] => {
                self.uploads.cancel(id).then_some(()).ok_or(NOT_FOUND)?;
                Ok(answer(&json!({})))
            }
            ["uploads", id, "check"] => {
                let (name, path) = self.uploads.finish(id).map_err(|why| self.upload_refused(why))?;
                let item = self.folders.add(name, path)?;
                let job = self.check(&item)?;
                Ok(answer(&json!({"item": item.id, "job": job.summary()})))
            }
            _ => Err(NOT_FOUND.into()),
        }
    }

    /// A part of a file.
    fn part(&self, id: &str, request: &Request) -> Result<Response, Trouble> {
        if !has_type(request, "application/octet-stream") {
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send bytes").into());
        }
        let query = request.uri().query().unwrap_or_default();
        let offset = query.strip_prefix("offset=").and_then(|n| n.parse().ok());
        let offset = offset.ok_or_else(|| Refusal::of("offset", "the offset is missing"))?;
        let written =
            self.uploads.write(id, offset, request.body()).map_err(|why| self.upload_refused(why))?;
        Ok(answer(&json!({"written": written})))
    }

    fn upload_refused(&self, why: Refused) -> Trouble {
        let (status, why) = match why {
            Refused::TooLarge => {
                let limit = self.upload / 1_000_000;
                let why =
                    format!("the file is larger than {limit} MB: put it into a folder that is shown here");
                return Trouble(StatusCode::PAYLOAD_TOO_LARGE, why, None);
            }
            Refused::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too many files are on their way"),
            Refused::Unknown => NOT_FOUND,
            Refused::OutOfPlace => (StatusCode::CONFLICT, "this is not the next part of the file"),
            Refused::Incomplete => (StatusCode::CONFLICT, "the file is not complete"),
            Refused::Io(error) => return error.into(),
        };
        (status, why).into()
    }

    fn item(&self, id: &str) -> Result<Item, Trouble> {
        if self.folders.get(id).is_none() {
            // It may have come since the last list.
            self.folders.list();
        }
        Ok(self.folders.get(id).ok_or(NOT_FOUND)?)
    }

    fn job(&self, id: &str) -> Result<Arc<Job>, Trouble> {
        Ok(self.jobs.get(id).ok_or(NOT_FOUND)?)
    }

    /// What a filled-in form stands for, and where its page goes.
    fn invocation(&self, body: &Value) -> Result<(Invocation, std::path::PathBuf), Trouble> {
        let command = body["command"].as_str().unwrap_or_default();
        let chosen = body["fields"]["history"].as_str().filter(|id| !id.is_empty());
        let item = chosen.map(|id| self.item(id)).transpose()?.filter(Item::has_history);
        let report = Jobs::report(self.private.path())?;
        let target = Target {
            folder: self.folders.first(),
            report: &report,
            history: item.as_ref().map(|item| item.history.as_path()),
        };
        let invocation = self.commands.invocation(command, &body["fields"], &target)?;
        Ok((invocation, report))
    }

    /// Checks an item; a check of it that runs already serves.
    fn check(&self, item: &Item) -> Result<Arc<Job>, Trouble> {
        if !item.has_history() {
            return Err((StatusCode::CONFLICT, "a run of sql has no history to check").into());
        }
        if let Some(job) = self.jobs.about(&item.id).filter(|job| job.is_running()) {
            return Ok(job);
        }
        let report = Jobs::report(self.private.path())?;
        let invocation = self.commands.check(&item.history, &item.title(), &report);
        let (folders, id): (Weak<Folders>, _) = (Arc::downgrade(&self.folders), item.id.clone());
        let learn = move |job: &Job| {
            let (Some(folders), Some(document)) = (folders.upgrade(), job.document()) else { return };
            let results = if document.is_array() { document } else { json!([document]) };
            // An error is a document too; it has no levels.
            if results[0]["levels"].is_array() {
                folders.learn(&id, results);
            }
        };
        Ok(self.jobs.start(invocation, Some(item.id.clone()), report, learn)?)
    }

    /// The page that a command wrote, where it can do no harm.
    fn report(&self, id: &str) -> Result<Response, Trouble> {
        let job = self.job(id)?;
        Ok(page(std::fs::read(&job.report).map_err(|_| NOT_FOUND)?))
    }
}

/// A page that a command wrote, or that another program put there: where it can do no harm.
fn page(text: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
    ];
    (headers, text).into_response()
}

/// The JSON object of a request.
fn object(request: &Request) -> Result<Value, Denial> {
    if !has_type(request, "application/json") {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "send JSON"));
    }
    if request.body().len() > REQUEST {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the request is too long"));
    }
    let parsed: Option<Value> = serde_json::from_slice(request.body()).ok();
    parsed.filter(Value::is_object).ok_or((StatusCode::BAD_REQUEST, "send a JSON object"))
}

fn has_type(request: &Request, wanted: &str) -> bool {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    given.and_then(|value| value.split(';').next()).is_some_and(|value| value.trim() == wanted)
}
