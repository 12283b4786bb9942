//! Documents for other programs against their schemas: SARIF against the one that Microsoft's multitool
//! carries, and by that tool; JUnit against a schema written from its documentation. Of histories with
//! violations, with unknown levels, without anything, and with hostile names.

mod support;

use anomalist_testkit::skip;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Scratch, anomalist};

const HOSTILE: &str = r#"{"session":"]]>","id":"</script>\u0001","ops":[["w","::error::\n<x>&\"'","\u202e{0} [a](1)"],["w","y",1]]}
{"session":"b|`c`","ops":[["r","y",1],["r","::error::\n<x>&\"'",null]]}
"#;
const SKEW: &str = r#"{"session":1,"ops":[["r","x",null],["w","y",1]]}
{"session":2,"ops":[["r","y",null],["w","x",1]]}
"#;

/// Writes every document about some histories; the folder has them as `N.junit` and `N.sarif`.
fn documents(scratch: &Scratch) -> usize {
    let histories = [SKEW, HOSTILE, "{\"session\":1,\"ops\":[[\"w\",\"x\",1]]}\n"];
    let files: Vec<String> =
        (0..).zip(histories).map(|(i, text)| scratch.file(&format!("h {i}#.jsonl"), text)).collect();
    let all: Vec<&str> = files.iter().map(String::as_str).collect();
    let subjects: [&[&str]; 4] = [&all[..1], &all[1..2], &all[2..], &all];
    let levels: [&[&str]; 3] =
        [&[], &["--level", "serializable,strict-serializable"], &["--anomalies", "G2-item"]];
    let mut written = 0;
    for subject in subjects {
        for level in levels {
            let [junit, sarif] = ["junit", "sarif"].map(|kind| scratch.path(&format!("{written}.{kind}")));
            let arguments = [&["check", "--junit", &junit, "--sarif", &sarif], level, subject].concat();
            // Some are violated, some unknown; all write their documents.
            let run = anomalist(&arguments);
            assert!((0..3).any(|status| run.ended_with(status)), "{arguments:?}: {}", run.stderr());
            written += 1;
        }
    }
    written
}

fn python() -> String {
    std::env::var("ANOMALIST_PYTHON").unwrap_or_else(|_| "python3".to_owned())
}

/// Runs a script with the folder of documents and a schema.
fn validate(script: &str, folder: &Path, schema: &Path) {
    let out = Command::new(python()).args(["-c", script]).args([folder, schema]).output();
    let out = out.unwrap_or_else(|e| panic!("{}: {e}", python()));
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

fn has_modules() -> bool {
    let out = Command::new(python()).args(["-c", "import jsonschema, xmlschema"]).output();
    let has = out.is_ok_and(|out| out.status.success());
    if !has {
        skip::missing("python", "Python's jsonschema and xmlschema are not installed");
    }
    has
}

#[test]
fn junit_conforms() {
    if !has_modules() {
        return;
    }
    let scratch = Scratch::new("junit-schema");
    let written = documents(&scratch);
    let script = "import glob, sys, xmlschema\n\
        schema = xmlschema.XMLSchema(sys.argv[2])\n\
        files = glob.glob(sys.argv[1] + '/*.junit')\n\
        for f in files: schema.validate(f)\n\
        assert not schema.is_valid('<testsuites><testcase/></testsuites>')\n\
        print(len(files))";
    assert!(written > 10);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas/junit.xsd");
    validate(script, Path::new(&scratch.path("")), &schema);
}

/// The package of Microsoft's multitool, fetched once.
fn multitool() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sarif-multitool");
    let package = folder.join("package");
    if !package.join("sarif-2.1.0.json").is_file() {
        std::fs::create_dir_all(&folder).expect("a folder");
        let fetch = "npm pack --silent @microsoft/sarif-multitool-linux@5 && tar xzf *.tgz && rm *.tgz";
        let out = Command::new("sh").args(["-c", fetch]).current_dir(&folder).output().expect("sh");
        if !out.status.success() {
            skip::missing("clients", format!("npm: {}", String::from_utf8_lossy(&out.stderr)));
            return None;
        }
    }
    Some(package)
}

#[test]
fn sarif_conforms() {
    let (true, Some(package)) = (has_modules(), multitool()) else { return };
    let scratch = Scratch::new("sarif-schema");
    let written = documents(&scratch);
    let script = "import glob, json, sys, jsonschema\n\
        schema = json.load(open(sys.argv[2]))\n\
        validator = jsonschema.validators.validator_for(schema)(schema)\n\
        files = glob.glob(sys.argv[1] + '/*.sarif')\n\
        for f in files: validator.validate(json.load(open(f)))\n\
        assert not validator.is_valid({'version': '2.1.0'})\n\
        print(len(files))";
    validate(script, Path::new(&scratch.path("")), &package.join("sarif-2.1.0.json"));
    let program = package.join("Sarif.Multitool");
    let mut command = Command::new("sh");
    command.args(["-c", "chmod +x \"$0\" && exec \"$0\" validate \"$@\""]).arg(&program);
    command.args((0..written).map(|i| scratch.path(&format!("{i}.sarif"))));
    // It is a program of .NET; without its libraries for languages it wants to know that they are missing.
    let out = command.env("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1").output().expect("the multitool");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains(&format!("{written} files scanned")), "{said}");
    let found: Vec<&str> =
        said.lines().filter(|line| line.contains("SARIF") && line.contains(": ")).collect();
    assert!(found.is_empty(), "{found:#?}");
}
