//! Who may know whom, judged from the resolved dependency graph.
//!
//! The crates form two lines that meet at the top, `domain ← store ← engine ← angarium` and
//! `domain ← egress ← channels ← angarium`, with `egress ← engine` and `receivers ← angarium`. The testbed
//! serves tests, and `xtask`, which starts a server for them. What reaches outside (a database driver, an HTTP
//! client, TLS) is named by as few crates as can be, so that its rules hold everywhere. A manifest that says
//! otherwise fails here, before anyone builds upon it.

mod graph;

use graph::{Graph, Kind};

use crate::failure::Failure;
use crate::repo;

/// A crate of ours and those of ours that it may use.
struct Member {
    name: &'static str,
    may_use: &'static [&'static str],
    /// In its tests only.
    tests_may_use: &'static [&'static str],
}

const MEMBERS: [Member; 9] = [
    Member { name: "angarium-domain", may_use: &[], tests_may_use: &[] },
    Member { name: "angarium-store", may_use: &["angarium-domain"], tests_may_use: &["angarium-testbed"] },
    Member { name: "angarium-egress", may_use: &["angarium-domain"], tests_may_use: &[] },
    Member {
        name: "angarium-channels",
        may_use: &["angarium-domain", "angarium-egress"],
        tests_may_use: &["angarium-receivers"],
    },
    Member {
        name: "angarium-engine",
        may_use: &["angarium-domain", "angarium-store", "angarium-egress"],
        tests_may_use: &["angarium-receivers", "angarium-testbed"],
    },
    Member { name: "angarium-receivers", may_use: &[], tests_may_use: &[] },
    Member { name: "angarium-testbed", may_use: &[], tests_may_use: &[] },
    Member {
        name: "angarium",
        may_use: &[
            "angarium-domain",
            "angarium-store",
            "angarium-egress",
            "angarium-channels",
            "angarium-engine",
            "angarium-receivers",
        ],
        tests_may_use: &["angarium-testbed"],
    },
    Member { name: "xtask", may_use: &["angarium-testbed"], tests_may_use: &[] },
];

/// Libraries, and the only crates of ours whose manifest may name them outside its tests.
const RESERVED: [(&str, &[&str]); 8] = [
    ("rusqlite", &["angarium-store"]),
    ("tokio-postgres", &["angarium-store"]),
    ("tokio-postgres-rustls", &["angarium-store"]),
    ("axum", &["angarium"]),
    ("hyper", &["angarium-egress", "angarium"]),
    // Receivers serve with it.
    ("tokio-rustls", &["angarium-egress", "angarium-receivers"]),
    ("webpki-roots", &["angarium-egress", "angarium-store"]),
    ("mail-parser", &["angarium-channels"]),
];

/// What the domain may not reach, however long the way.
const IMPURE: [&str; 7] =
    ["tokio", "tokio-postgres", "rusqlite", "libsqlite3-sys", "hyper", "http", "rustls"];

/// Modules that one crate only may name, where features cannot tell: hyper is a server to one crate and a
/// client to another.
const RESERVED_MODULES: [(&str, &str); 1] = [("hyper::client", "crates/angarium-egress/")];

pub(crate) fn run() -> Result<(), Failure> {
    let metadata = repo::output(repo::cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    let graph =
        Graph::parse(&metadata).map_err(|error| Failure::Wrong(format!("cargo metadata: {error}")))?;
    let mut problems = judge(&graph);
    for path in repo::files()?.iter().filter(|path| path.ends_with(".rs") && path.starts_with("crates/")) {
        problems.extend(judge_modules(path, &repo::read(path)?));
    }
    for problem in &problems {
        println!("{problem}");
    }
    Failure::unless_clean(problems.len(), "deps")
}

fn judge(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for package in graph.members() {
        match MEMBERS.iter().find(|member| member.name == package) {
            Some(member) => problems.extend(judge_member(member, graph)),
            None => problems.push(format!("{package}: not in the table of xtask/src/deps.rs")),
        }
    }
    for (library, owners) in RESERVED {
        for package in graph.members().filter(|package| !owners.contains(package)) {
            if graph.uses(package, library, Kind::Shipped) {
                problems.push(format!("{package}: may not name {library}; only {} may", owners.join(", ")));
            }
        }
    }
    for way in IMPURE.iter().filter_map(|library| graph.way("angarium-domain", library)) {
        problems.push(format!("angarium-domain: must stay pure, but reaches {}", way.join(" → ")));
    }
    problems
}

fn judge_member(member: &Member, graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for other in graph.members().filter(|other| !member.may_use.contains(other)) {
        if graph.uses(member.name, other, Kind::Shipped) {
            problems.push(format!("{}: may not depend on {other}", member.name));
        } else if graph.uses(member.name, other, Kind::Tests) && !member.tests_may_use.contains(&other) {
            problems.push(format!("{}: may not depend on {other}, not even in tests", member.name));
        }
    }
    problems
}

fn judge_modules(path: &str, text: &str) -> Vec<String> {
    let named = |module: &str| text.lines().position(|line| line.contains(module));
    RESERVED_MODULES
        .iter()
        .filter(|(_, owner)| !path.starts_with(owner))
        .filter_map(|(module, owner)| Some((module, owner, named(module)?)))
        .map(|(module, owner, line)| format!("{path}:{}: only {owner} may name {module}", line + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str, Kind)]) -> Graph {
        Graph::of(&MEMBERS.map(|member| member.name), edges)
    }

    #[test]
    fn the_allowed_lines_pass() {
        let allowed = [
            ("angarium-store", "angarium-domain", Kind::Shipped),
            ("angarium-store", "rusqlite", Kind::Shipped),
            ("angarium-store", "webpki-roots", Kind::Shipped),
            ("angarium-engine", "angarium-testbed", Kind::Tests),
            ("angarium-engine", "tokio-postgres", Kind::Tests),
            ("xtask", "angarium-testbed", Kind::Shipped),
            ("angarium-channels", "angarium-receivers", Kind::Tests),
            ("angarium-egress", "hyper", Kind::Shipped),
            ("angarium", "angarium-channels", Kind::Shipped),
            ("angarium-domain", "serde", Kind::Shipped),
            ("angarium-domain", "tokio", Kind::Tests),
        ];
        assert_eq!(judge(&graph(&allowed)), Vec::<String>::new());
    }

    #[test]
    fn every_forbidden_line_is_named() {
        let forbidden = [
            (
                "angarium-store",
                "angarium-egress",
                Kind::Shipped,
                "angarium-store: may not depend on angarium-egress",
            ),
            (
                "angarium-channels",
                "angarium-receivers",
                Kind::Shipped,
                "may not depend on angarium-receivers",
            ),
            ("angarium-store", "angarium-receivers", Kind::Tests, "angarium-receivers, not even in tests"),
            ("angarium-engine", "angarium-channels", Kind::Shipped, "may not depend on angarium-channels"),
            ("angarium", "angarium-testbed", Kind::Shipped, "angarium: may not depend on angarium-testbed"),
            ("angarium", "tokio-postgres", Kind::Shipped, "may not name tokio-postgres"),
            ("angarium-engine", "rusqlite", Kind::Shipped, "may not name rusqlite; only angarium-store may"),
            ("angarium-channels", "tokio-rustls", Kind::Shipped, "may not name tokio-rustls"),
            ("angarium-engine", "axum", Kind::Shipped, "may not name axum"),
            (
                "angarium-domain",
                "tokio",
                Kind::Shipped,
                "must stay pure, but reaches angarium-domain → tokio",
            ),
        ];
        for (from, to, kind, expected) in forbidden {
            let problems = judge(&graph(&[(from, to, kind)]));
            assert!(problems.len() == 1 && problems[0].contains(expected), "{from} {to}: {problems:?}");
        }
    }

    #[test]
    fn the_domain_is_impure_by_the_longest_way_too() {
        let edges = [
            ("angarium-domain", "a", Kind::Shipped),
            ("a", "b", Kind::Shipped),
            ("b", "http", Kind::Shipped),
        ];
        let problems = judge(&graph(&edges));
        assert_eq!(problems, ["angarium-domain: must stay pure, but reaches angarium-domain → a → b → http"]);
    }

    #[test]
    fn a_new_crate_must_enter_the_table() {
        let problems = judge(&Graph::of(&["newcomer"], &[]));
        assert_eq!(problems, ["newcomer: not in the table of xtask/src/deps.rs"]);
    }

    #[test]
    fn the_http_client_is_named_by_egress_only() {
        let text = "use hyper::body;\nuse hyper::client::conn;\n";
        assert_eq!(judge_modules("crates/angarium-egress/src/a.rs", text), Vec::<String>::new());
        let problems = judge_modules("crates/angarium/src/a.rs", text);
        assert!(
            problems.len() == 1 && problems[0].starts_with("crates/angarium/src/a.rs:2: "),
            "{problems:?}"
        );
    }
}
