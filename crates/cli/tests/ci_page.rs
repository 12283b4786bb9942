//! The workflow of `docs/ci.md` runs: every `run:` step, in order, in one folder.

#![allow(clippy::unwrap_used, reason = "all of this is a test, helpers too")]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_steps_of_the_workflow_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/ci.md")).unwrap();
    let workflow = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = std::env::temp_dir().join(format!("anomalist-ci-page-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_anomalist")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let summary = folder.join("summary.md");
    let steps: Vec<&str> = workflow.lines().filter_map(|line| line.trim().strip_prefix("run: ")).collect();
    // The binary is installed already.
    let (install, steps): (Vec<&str>, Vec<&str>) = steps.iter().partition(|s| s.starts_with("cargo install"));
    assert_eq!((install.len(), steps.len()), (1, 3));
    for step in steps {
        let run = Command::new("sh")
            .args(["-c", step])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_STEP_SUMMARY", &summary)
            .output()
            .unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(run.status.success(), "{step}\n{said}");
    }
    // What the later steps upload.
    for file in ["isolation.xml", "isolation.sarif", "isolation.html", "runs", "summary.md"] {
        assert!(folder.join(file).exists(), "no {file}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
