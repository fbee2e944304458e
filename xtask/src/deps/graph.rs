//! The dependency graph as cargo resolved it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// It ends up in what is built from the crate, or helps to build it.
    Shipped,
    /// The crate's tests alone use it.
    Tests,
}

/// Crates by name; versions of one crate are one.
#[derive(Debug, Default)]
pub(super) struct Graph {
    members: Vec<String>,
    edges: BTreeMap<String, BTreeSet<(String, Kind)>>,
}

impl Graph {
    /// Reads the output of `cargo metadata --format-version 1`.
    ///
    /// # Errors
    /// When it is not JSON, or not of that shape.
    pub(super) fn parse(metadata: &[u8]) -> Result<Graph, String> {
        let metadata: Value = serde_json::from_slice(metadata).map_err(|error| error.to_string())?;
        let names: BTreeMap<&str, &str> = array(&metadata["packages"])?
            .iter()
            .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect();
        let name = |id: &Value| -> Result<String, String> {
            let name = id.as_str().and_then(|id| names.get(id));
            name.map(|name| (*name).to_owned()).ok_or_else(|| format!("an unknown package: {id}"))
        };

        let mut graph = Graph::default();
        for id in array(&metadata["workspace_members"])? {
            graph.members.push(name(id)?);
        }
        for node in array(&metadata["resolve"]["nodes"])? {
            let from = name(&node["id"])?;
            for dependency in array(&node["deps"])? {
                let to = name(&dependency["pkg"])?;
                for use_ in array(&dependency["dep_kinds"])? {
                    let kind = if use_["kind"] == "dev" { Kind::Tests } else { Kind::Shipped };
                    graph.add(&from, &to, kind);
                }
            }
        }
        Ok(graph)
    }

    /// The crates of the workspace.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(String::as_str)
    }

    /// Whether the manifest of `from` names `to` for `kind`.
    pub(super) fn uses(&self, from: &str, to: &str, kind: Kind) -> bool {
        self.edges.get(from).is_some_and(|edges| edges.contains(&(to.to_owned(), kind)))
    }

    /// The shortest way by which what is shipped of `from` reaches `to`, both ends included.
    pub(super) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from]);
        let mut ways = VecDeque::from([vec![from]]);
        while let Some(way) = ways.pop_front() {
            let last = *way.last()?;
            if last == to {
                return Some(way.into_iter().map(str::to_owned).collect());
            }
            for (next, kind) in self.edges.get(last).into_iter().flatten() {
                if *kind == Kind::Shipped && seen.insert(next) {
                    ways.push_back(way.iter().copied().chain([next.as_str()]).collect());
                }
            }
        }
        None
    }

    fn add(&mut self, from: &str, to: &str, kind: Kind) {
        self.edges.entry(from.to_owned()).or_default().insert((to.to_owned(), kind));
    }

    #[cfg(test)]
    pub(super) fn of(members: &[&str], edges: &[(&str, &str, Kind)]) -> Graph {
        let mut graph =
            Graph { members: members.iter().map(|name| (*name).to_owned()).collect(), ..Graph::default() };
        for (from, to, kind) in edges {
            graph.add(from, to, *kind);
        }
        graph
    }
}

fn array(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| "a list is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "packages": [{"id": "a#1", "name": "a"}, {"id": "b#1", "name": "b"}, {"id": "c#1", "name": "c"}],
        "workspace_members": ["a#1"],
        "resolve": {"nodes": [
            {"id": "a#1", "deps": [{"pkg": "b#1", "dep_kinds": [{"kind": null}]}, {"pkg": "c#1", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "b#1", "deps": [{"pkg": "c#1", "dep_kinds": [{"kind": "build"}, {"kind": "dev"}]}]},
            {"id": "c#1", "deps": []}
        ]}
    }"#;

    #[test]
    fn reads_members_edges_and_ways() {
        let graph = Graph::parse(METADATA.as_bytes()).unwrap();
        assert_eq!(graph.members().collect::<Vec<_>>(), ["a"]);
        assert!(graph.uses("a", "b", Kind::Shipped) && !graph.uses("a", "b", Kind::Tests));
        assert!(graph.uses("a", "c", Kind::Tests) && !graph.uses("a", "c", Kind::Shipped));
        assert_eq!(graph.way("a", "c").unwrap(), ["a", "b", "c"]);
        assert_eq!(graph.way("c", "a"), None);
    }

    #[test]
    fn refuses_what_is_not_metadata() {
        assert!(Graph::parse(b"{}").is_err());
        assert!(Graph::parse(b"no").is_err());
        assert!(
            Graph::parse(
                METADATA
                    .replace("\"workspace_members\": [\"a#1\"]", "\"workspace_members\": [\"z#1\"]")
                    .as_bytes()
            )
            .is_err()
        );
    }
}
