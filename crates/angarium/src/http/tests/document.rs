//! The OpenAPI document says what is served, and what is served is in it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::openapi_json;
use super::super::problem::Code;
use super::super::routes::table;
use super::Server;

fn document() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

/// Every reference in `value`.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member.as_str() {
                    Some(target) if name == "$ref" => _ = found.insert(target.to_owned()),
                    _ => references(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn the_document_and_the_router_agree() {
    let server = Server::start().await;
    let served = server.ask_openly("GET", "/openapi.json").await_reply().await;
    assert_eq!((served.status, served.header("content-type")), (200, Some("application/json")));
    assert_eq!(served.body, openapi_json());
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");

    let mut documented = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            documented.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let routes = table();
    let in_table: BTreeSet<String> = routes
        .iter()
        .map(|route| format!("{} {}", format!("{:?}", route.verb).to_uppercase(), route.path))
        .collect();
    assert_eq!(documented, in_table);
    // Every method on every path: the router serves exactly those that are documented.
    let paths: BTreeSet<&str> = routes.iter().map(|route| route.path).collect();
    for path in paths {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let concrete =
                path.replace("{id}", "x").replace("{name}", "x").replace("{feed}", "x").replace("{key}", "x");
            let reply = server.ask_openly(method, &concrete).await_reply().await;
            let known = documented.contains(&format!("{method} {path}"));
            assert_eq!(reply.status != 405, known, "{method} {path}");
            assert!(reply.status < 400 || reply.code() != "not_found", "{method} {path}");
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let known: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(found, known);
}

#[test]
fn every_code_is_documented_and_every_member_of_an_answer_is_promised() {
    let document = document();
    let words =
        document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
    assert_eq!(words.len(), Code::ALL.len());
    let mut named: BTreeSet<Code> = table().iter().flat_map(|route| route.problems()).collect();
    // These two are answered where there is no route.
    named.extend([Code::NotFound, Code::MethodNotAllowed]);
    assert_eq!(named, Code::ALL.iter().copied().collect());
    let shape = &document["components"]["schemas"]["Notification"];
    let promised: BTreeSet<&str> =
        shape["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let members: BTreeSet<&str> =
        shape["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(promised, members);
    assert_eq!(members.len(), 29);
}
