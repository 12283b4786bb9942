//! `anomalist ui` over its socket: who may ask, what can be read, how commands start and end.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Scratch, anomalist};

const HISTORY: &str = "{\"session\":1,\"ops\":[[\"r\",\"x\",null],[\"w\",\"y\",1]]}\n\
    {\"session\":2,\"ops\":[[\"r\",\"y\",null],[\"w\",\"x\",1]]}\n";

/// The application, ended with the test.
struct Ui {
    child: Child,
    host: String,
    token: String,
    private: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {} {}", self.head, self.body))
    }

    #[track_caller]
    fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.body);
        self
    }
}

impl Ui {
    fn start(scratch: &Scratch, flags: &[&str]) -> Ui {
        let private = scratch.path("tmp");
        std::fs::create_dir_all(&private).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_anomalist"))
            .args(["ui", "--folder", &scratch.path("runs")])
            .args(flags)
            .env("TMPDIR", &private)
            .env_remove("DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, token) = line
            .trim()
            .strip_prefix("anomalist ui: http://")
            .and_then(|rest| rest.split_once("/?token="))
            .unwrap_or_else(|| panic!("{line}"));
        Ui { host: host.to_owned(), token: token.to_owned(), private, child }
    }

    /// Sends bytes, and reads the answer.
    fn raw(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses may close before it has read everything.
        _ = stream.write_all(body);
        let mut text = Vec::new();
        _ = stream.read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn cookie(&self) -> String {
        format!("anomalist-{}={}", self.host.rsplit(':').next().unwrap(), self.token)
    }

    /// A request as the application's own page sends it.
    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {}\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.cookie(),
            body.len(),
            host = self.host,
        );
        self.raw(&head, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "text/plain", b"")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, "application/json", body.to_string().as_bytes())
    }

    /// Follows a job to its end.
    #[track_caller]
    fn ended(&self, job: &Value) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        let mut after = 0;
        loop {
            let news = self.get(&format!("/api/jobs/{}?after={after}", job["id"])).expect(200).json();
            if !["running", "ending"].contains(&news["status"].as_str().unwrap()) {
                return self.get(&format!("/api/jobs/{}", job["id"])).expect(200).json();
            }
            after = news["version"].as_u64().unwrap();
            assert!(Instant::now() < until, "{news}");
        }
    }

    /// Waits until a job reports progress; the process that it is.
    #[track_caller]
    fn reporting(&self, job: &Value) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.get(&format!("/api/jobs/{}", job["id"])).json()["samples"].as_array().unwrap().is_empty() {
            assert!(Instant::now() < until);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn items(&self) -> Vec<Value> {
        self.get("/api/items").expect(200).json()["items"].as_array().unwrap().clone()
    }

    /// Sends a file and starts its check.
    fn drop_file(&self, name: &str, content: &[u8]) -> Value {
        let id = self.post("/api/uploads", &json!({"name": name, "size": content.len()})).expect(200).json();
        let id = id["id"].as_str().unwrap().to_owned();
        let path = format!("/api/uploads/{id}?offset=0");
        self.ask("PUT", &path, "application/octet-stream", content).expect(200);
        self.post(&format!("/api/uploads/{id}/check"), &json!({})).expect(200).json()
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn only_the_own_page_with_its_token_is_answered() {
    let scratch = Scratch::new("ui-guard");
    let ui = Ui::start(&scratch, &[]);
    let (host, cookie) = (ui.host.clone(), ui.cookie());
    let get = |host: &str, more: &str| {
        ui.raw(&format!("GET /api/items HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"), b"")
    };
    get(&host, &format!("Cookie: {cookie}\r\n")).expect(200);
    assert!(get(&host, "").expect(403).body.contains("token is missing"));
    get(&host, "Cookie: anomalist-1=0\r\n").expect(403);
    let port = host.rsplit(':').next().unwrap();
    get(&format!("evil.example:{port}"), &format!("Cookie: {cookie}\r\n")).expect(403);
    for origin in ["http://evil.example", "null", &format!("http://127.0.0.1:{}0", &port[1..])] {
        get(&host, &format!("Cookie: {cookie}\r\nOrigin: {origin}\r\n")).expect(403);
    }
    let welcome = ui
        .raw(&format!("GET /?token={} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", ui.token), b"");
    let welcome = welcome.expect(200).head.to_lowercase();
    assert!(welcome.contains("httponly; samesite=strict"), "{welcome}");
    // A change without an origin, or as a form of another page could send it.
    let body = json!({"command": "sql"}).to_string();
    let post = |more: &str| {
        ui.raw(
            &format!(
                "POST /api/jobs HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nContent-Length: {}\r\n\
                 Connection: close\r\n{more}\r\n",
                body.len()
            ),
            body.as_bytes(),
        )
    };
    post("Content-Type: application/json\r\n").expect(403);
    post(&format!("Content-Type: text/plain\r\nOrigin: http://{host}\r\n")).expect(415);
    assert_eq!(ui.get("/api/jobs").json(), json!([]));
    ui.ask("DELETE", "/api/jobs/1", "application/json", b"{}").expect(405);
}

#[test]
fn answers_allow_nothing_that_is_not_needed() {
    let scratch = Scratch::new("ui-headers");
    let ui = Ui::start(&scratch, &[]);
    for path in ["/", "/api/items", "/assets/main.js", "/nowhere"] {
        let head = ui.get(path).head.to_lowercase();
        assert!(head.contains("content-security-policy: default-src 'none'"), "{path}: {head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        assert!(head.contains("referrer-policy: no-referrer") && !head.contains("access-control-"), "{head}");
        assert!(!head.contains("unsafe"), "{head}");
    }
    // Reports have an origin of their own.
    let job = ui.drop_file("h.jsonl", HISTORY.as_bytes())["job"].clone();
    assert_eq!(ui.ended(&job)["report"], true);
    let report = ui.get(&format!("/report/{}", job["id"])).expect(200);
    assert!(report.head.to_lowercase().contains("content-security-policy: sandbox allow-scripts"));
    assert!(!report.head.contains("allow-same-origin") && report.body.contains("serializable"));
}

#[test]
fn nothing_outside_of_the_folders_is_read() {
    let scratch = Scratch::new("ui-paths");
    let ui = Ui::start(&scratch, &[]);
    let secret = scratch.file("secret.jsonl", HISTORY);
    let runs = scratch.path("runs");
    std::fs::write(format!("{runs}/inside.jsonl"), HISTORY).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, format!("{runs}/link.jsonl")).unwrap();
        std::os::unix::fs::symlink(scratch.path(""), format!("{runs}/linked")).unwrap();
    }
    let items = ui.items();
    let names: Vec<&str> = items.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["inside.jsonl"], "links are not followed");
    for path in [
        "/api/items/..%2fsecret.jsonl",
        "/api/items/../../secret.jsonl",
        "/assets/../../../../etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/report/../1",
        "/report/..%2f..%2fsecret.jsonl",
        "//etc/passwd",
        "/api/jobs/../../etc/passwd",
    ] {
        assert_eq!(ui.get(path).status, 404, "{path}");
    }
    // A file that becomes a link between the list and its use.
    let id = items[0]["id"].as_str().unwrap();
    ui.get(&format!("/api/items/{id}")).expect(200);
    std::fs::remove_file(format!("{runs}/inside.jsonl")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(&secret, format!("{runs}/inside.jsonl")).unwrap();
    ui.get(&format!("/api/items/{id}")).expect(404);
    ui.post(&format!("/api/items/{id}/check"), &json!({})).expect(404);
    // Forms take identifiers and plain names.
    for (command, fields) in [
        ("watch", json!({"history": secret})),
        ("generate", json!({"output": "../x.txt"})),
        ("test", json!({"url": format!("sqlite:{}", scratch.path("x.db"))})),
        ("test", json!({"url": "exec:touch /tmp/x"})),
        ("explore", json!({"command": "touch /tmp/x"})),
    ] {
        let status = ui.post("/api/jobs", &json!({"command": command, "fields": fields})).status;
        assert!([404, 422].contains(&status), "{command} {fields}: {status}");
    }
}

#[test]
fn files_beyond_the_limit_are_refused_early() {
    let scratch = Scratch::new("ui-upload");
    let ui = Ui::start(&scratch, &["--upload-limit", "1MB"]);
    let announced = ui.post("/api/uploads", &json!({"name": "huge.edn", "size": 1_u64 << 30}));
    assert!(announced.expect(413).body.contains("larger than 1 MB"));
    // One request of a gigabyte: the answer comes before the body.
    let since = Instant::now();
    let head = format!(
        "PUT /api/uploads/0?offset=0 HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 1073741824\r\n\r\n",
        ui.cookie(),
        host = ui.host
    );
    ui.raw(&head, &[0; 1 << 16]).expect(413);
    assert!(since.elapsed() < Duration::from_secs(10));
    // A file that grows beyond what was announced.
    let id = ui.post("/api/uploads", &json!({"name": "x", "size": 4})).expect(200).json();
    let path = format!("/api/uploads/{}?offset=0", id["id"].as_str().unwrap());
    ui.ask("PUT", &path, "application/octet-stream", b"12345").expect(413);
    ui.ask("PUT", &path.replace("=0", "=2"), "application/octet-stream", b"12").expect(409);
    ui.ask("PUT", &path, "text/plain", b"12").expect(415);
    let long = "x".repeat(70_000);
    ui.post("/api/jobs", &json!({"command": "test", "fields": {"level": long}})).expect(413);
    ui.raw(&format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", ui.host, "x".repeat(40_000)), b"")
        .expect(431);
}

#[test]
fn a_dropped_file_gets_its_verdict_whatever_it_is_called() {
    let scratch = Scratch::new("ui-drop");
    let ui = Ui::start(&scratch, &[]);
    let name = "<script>alert(1)</script>\u{202e}../\u{1b}[31m\".jsonl";
    let dropped = ui.drop_file(name, HISTORY.as_bytes());
    let job = ui.ended(&dropped["job"]);
    assert_eq!((&job["status"], &job["exit"]), (&json!("done"), &json!(0)), "{job}");
    let levels = job["document"]["levels"].as_array().unwrap();
    let verdict = |name: &str| levels.iter().find(|level| level["level"] == name).unwrap()["verdict"].clone();
    assert_eq!((verdict("serializable"), verdict("snapshot-isolation")), (json!("violated"), json!("holds")));
    let items = ui.items();
    assert_eq!(items[0]["name"], name);
    assert_eq!(items[0]["verdicts"]["serializable"], "violated");
    assert_eq!(items[0]["path"], Value::Null, "the private folder is not shown");
    // Answers are data for scripts, never pages.
    assert!(ui.get("/api/items").head.to_lowercase().contains("content-type: application/json"));
    // What is no history has no verdict, and says why.
    let job = ui.ended(&ui.drop_file("x.txt", b"nothing of the kind")["job"]);
    assert_eq!((&job["status"], &job["exit"]), (&json!("failed"), &json!(3)), "{job}");
    assert!(job["messages"].to_string().contains("unknown format"), "{job}");
}

/// A folder may hold what another program wrote: what has the wrong type is left out, the rest is shown.
#[test]
fn hostile_results_do_not_spoil_the_list() {
    let scratch = Scratch::new("ui-hostile");
    let ui = Ui::start(&scratch, &[]);
    for (name, result) in [
        (
            "types",
            json!({"target": 7, "claim": "x", "started": {}, "result": {"levels": {}, "anomalies": [1]}}),
        ),
        ("deep", json!({"result": [[[]]]})),
        (
            "names",
            json!({"target": "<b>x</b>", "result": {"levels": [{"level": "<i>", "verdict": "holds"}, 3]}}),
        ),
        ("none", json!(null)),
    ] {
        let folder = format!("{}/{name}", scratch.path("runs"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(format!("{folder}/history.jsonl"), HISTORY).unwrap();
        std::fs::write(format!("{folder}/result.json"), result.to_string()).unwrap();
    }
    let items = ui.items();
    assert_eq!(items.len(), 4, "{items:?}");
    let of = |name: &str| items.iter().find(|item| item["name"] == name).unwrap();
    assert_eq!((&of("types")["run_target"], &of("types")["verdicts"]), (&Value::Null, &json!({})));
    assert_eq!(of("names")["verdicts"], json!({"<i>": "holds"}));
    for item in &items {
        ui.get(&format!("/api/items/{}", item["id"].as_str().unwrap())).expect(200);
    }
}

#[test]
fn a_test_is_started_watched_and_kept() {
    let scratch = Scratch::new("ui-test");
    let ui = Ui::start(&scratch, &[]);
    let fields = json!({"url": "simulated:snapshot-isolation", "txns": "2000", "seed": "3"});
    let asked = ui.post("/api/command", &json!({"command": "test", "fields": fields})).expect(200).json();
    let shown = asked["shown"].as_str().unwrap();
    assert!(shown.starts_with("anomalist test simulated:snapshot-isolation --txns 2000 --seed 3"), "{shown}");
    let job = ui.post("/api/jobs", &json!({"command": "test", "fields": fields})).expect(200).json();
    let ended = ui.ended(&job);
    assert_eq!((&ended["status"], &ended["shown"]), (&json!("done"), &json!(shown)), "{ended}");
    let samples = ended["samples"].as_array().unwrap();
    assert!(samples.iter().any(|sample| sample["done"].as_u64() > Some(0)), "{samples:?}");
    let items = ui.items();
    assert_eq!((&items[0]["kind"], &items[0]["run_workload"]), (&json!("run"), &json!("list-append")));
    assert_eq!(items[0]["verdicts"]["serializable"], "violated", "{items:?}");
    let detail = ui.get(&format!("/api/items/{}", items[0]["id"].as_str().unwrap())).expect(200).json();
    assert_eq!(detail["run"]["seed"], 3);
    assert_eq!(detail["results"][0]["levels"].as_array().unwrap().len(), 20);
    // The command that the page shows is one that works.
    let wrong =
        ui.post("/api/command", &json!({"command": "test", "fields": {"txns": "few"}})).expect(200).json();
    assert_eq!(wrong["field"], "txns", "{wrong}");
}

#[test]
fn commands_can_be_cancelled_and_are_limited() {
    let scratch = Scratch::new("ui-cancel");
    let ui = Ui::start(&scratch, &["--jobs", "1"]);
    let long = json!({"command": "test", "fields": {"url": "simulated:serializable", "duration": "100s"}});
    let job = ui.post("/api/jobs", &long).expect(200).json();
    ui.reporting(&job);
    assert!(ui.post("/api/jobs", &long).expect(429).body.contains("1 commands run already"));
    let since = Instant::now();
    ui.post(&format!("/api/jobs/{}/cancel", job["id"]), &json!({})).expect(200);
    let ended = ui.ended(&job);
    assert_eq!(ended["status"], "cancelled");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    // What was recorded until then is judged.
    assert_eq!(ended["document"]["runs"][0]["interrupted"], true, "{}", ended["messages"]);
    ui.post("/api/jobs/99/cancel", &json!({})).expect(404);
}

#[test]
fn a_watch_reports_what_it_sees() {
    let scratch = Scratch::new("ui-watch");
    let ui = Ui::start(&scratch, &[]);
    let stream = format!("{}/stream.jsonl", scratch.path("runs"));
    anomalist(&[
        "generate",
        "--kind",
        "timestamped",
        "--sessions",
        "4",
        "--txns-per-session",
        "50",
        "--arrival",
        "none",
        "--inject",
        "EXT",
        "-o",
        &stream,
    ])
    .expect(0);
    let id = ui.items()[0]["id"].clone();
    let fields = json!({"history": id, "settle": "50ms"});
    let job = ui.post("/api/jobs", &json!({"command": "watch", "fields": fields})).expect(200).json();
    let ended = ui.ended(&job);
    assert_eq!(ended["exit"], 1, "{ended}");
    assert_eq!(ended["tally"]["groups"][0]["code"], "EXT", "{ended}");
    assert_eq!(ended["tally"]["summary"]["verdict"], "violated");
    assert_eq!(ended["samples"].as_array().unwrap().last().unwrap()["standing"]["EXT"], 1);
}

#[test]
fn a_watch_listens_on_a_port() {
    let scratch = Scratch::new("ui-listen");
    let ui = Ui::start(&scratch, &[]);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let fields = json!({"listen": port, "settle": "50ms", "exit-when-idle": "3s"});
    let job = ui.post("/api/jobs", &json!({"command": "watch", "fields": fields})).expect(200).json();
    let sent = format!("tcp://127.0.0.1:{port}");
    let until = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
        assert!(Instant::now() < until, "it listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    anomalist(&["generate", "--kind", "timestamped", "--txns-per-session", "20", "-o", &sent]).expect(0);
    let ended = ui.ended(&job);
    assert_eq!(
        (&ended["exit"], &ended["tally"]["summary"]["transactions"]),
        (&json!(0), &json!(500)),
        "{ended}"
    );
}

/// Whether a process with this text in its command line is there.
#[cfg(unix)]
fn runs(text: &str) -> bool {
    let out = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .any(|line| line.contains(text) && !line.contains("anomalist ui"))
}

/// Starts a command that takes long, ends the application by a signal, and waits for the end of both.
#[cfg(unix)]
fn ends_with_it(signal: &str, name: &str) -> String {
    let scratch = Scratch::new(name);
    let mut ui = Ui::start(&scratch, &[]);
    let fields = json!({"url": "simulated:serializable", "duration": "100s"});
    let job = ui.post("/api/jobs", &json!({"command": "test", "fields": fields})).expect(200).json();
    ui.reporting(&job);
    let kept = scratch.path("runs");
    assert!(runs(&kept), "the command runs");
    Command::new("kill").args([signal, &ui.child.id().to_string()]).status().unwrap();
    ui.child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while runs(&kept) {
        assert!(Instant::now() < until, "a command is left behind");
        std::thread::sleep(Duration::from_millis(100));
    }
    let left = std::fs::read_dir(&ui.private).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    left.filter(|name| name.starts_with("anomalist-ui-")).collect()
}

#[cfg(unix)]
#[test]
fn commands_and_files_end_with_the_application() {
    assert_eq!(ends_with_it("-INT", "ui-ctrl-c"), "", "the private folder is removed");
}

#[cfg(unix)]
#[test]
fn commands_end_even_if_the_application_is_killed() {
    ends_with_it("-KILL", "ui-killed");
}

#[cfg(unix)]
#[test]
fn the_private_folder_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("ui-private");
    let ui = Ui::start(&scratch, &[]);
    let folder = std::fs::read_dir(&ui.private).unwrap().next().unwrap().unwrap();
    assert!(folder.file_name().to_str().unwrap().starts_with("anomalist-ui-"));
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn other_machines_need_permission() {
    let scratch = Scratch::new("ui-remote");
    let refused = anomalist(&["ui", "--listen", "0.0.0.0:0", "--folder", &scratch.path("runs")]).expect(3);
    assert!(refused.stderr().contains("--allow-remote"), "{}", refused.stderr());
    let missing =
        anomalist(&["ui", "--folder", &scratch.path("a"), "--folder", &scratch.path("none")]).expect(3);
    assert!(missing.stderr().contains("is not a folder"), "{}", missing.stderr());
}
