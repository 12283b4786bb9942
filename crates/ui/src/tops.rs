//! Sentence and matrix of levels, as reports have them, beside each result that a page shows.

use serde_json::Value;

/// Adds `top` to every result in a document of `check` (one or several) or of `test`. What is no result
/// stays as it is.
pub(crate) fn add(document: &mut Value) {
    if let Some(all) = document.as_array_mut() {
        all.iter_mut().for_each(add);
    } else if let Some(runs) = document.get_mut("runs").and_then(Value::as_array_mut) {
        runs.iter_mut().filter_map(|run| run.get_mut("result")).for_each(add);
    } else if document["history"].is_object()
        && let Ok(top) = anomalist_page::top(document)
    {
        document["top"] = top;
    }
}

#[cfg(test)]
mod tests {
    use super::add;
    use serde_json::{Value, json};

    #[test]
    fn results_get_the_matrix_of_reports() {
        let history = json!({"path": "h", "format": "plume", "sessions": 1, "transactions": 1, "aborted": 0,
                             "indeterminate": 0, "operations": 1, "keys": 1});
        let level = |name: &str| json!({"level": name, "verdict": "holds", "by": "values", "anomalies": []});
        let result = json!({"history": history, "anomalies": [],
                            "levels": [level("snapshot-isolation"), level("strong-session-snapshot-isolation")]});
        let mut several = json!([result, {"error": "no"}]);
        add(&mut several);
        assert_eq!(several[0]["top"]["rows"][0]["name"], "snapshot isolation");
        assert_eq!(several[0]["top"]["rows"].as_array().map(Vec::len), Some(1));
        assert_eq!(several[1], json!({"error": "no"}));
        let mut test = json!({"runs": [{"result": result}]});
        add(&mut test);
        assert!(test["runs"][0]["result"]["top"]["sentence"].is_string());
        for mut other in [Value::Null, json!(7), json!({"levels": 3, "history": {}}), json!({"runs": [7]})] {
            let before = other.clone();
            add(&mut other);
            assert_eq!(other, before);
        }
    }
}
