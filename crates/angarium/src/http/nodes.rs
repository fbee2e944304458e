//! The servers that work on the database together, as it knows them.

use angarium_domain::time::Timestamp;
use angarium_store::{NODE_LOST_AFTER, NodeView};
use axum::extract::State;
use axum::{Extension, Json};

use super::Shared;
use super::dto::{Node, Page};
use super::exchange::Asked;
use super::problem::Problem;

/// `GET /v1/nodes`
pub(super) async fn list(
    State(app): State<Shared>,
    Extension(asked): Extension<Asked>,
) -> Result<Json<Page<Node>>, Problem> {
    let nodes = app.store.nodes(asked.now).await?;
    Ok(Json(Page::whole(nodes.into_iter().map(|view| node(view, asked.now)).collect())))
}

fn node(view: NodeView, now: Timestamp) -> Node {
    Node {
        lost: now.since(view.seen_at) >= NODE_LOST_AFTER,
        instance: view.instance,
        name: view.name,
        version: view.version,
        address: view.address,
        started_at: view.started_at,
        seen_at: view.seen_at,
        leads: view.leads,
    }
}
