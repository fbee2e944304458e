//! The server's life: start, serve, stop.
//!
//! A start opens the database (a SQLite file is taken for this process by that), signs in among the nodes that use it,
//! lets suspended channels try again, makes the store agree with the configuration, takes back what nobody holds any
//! more, starts to dispatch, and only then serves connections; `listening on …` is printed and `/readyz` answers 200 from
//! then on. The first signal stops softly: nothing new is claimed, what is in flight is finished and written, the node
//! signs out, the status is 0. A second signal, or a grace that ends, stops hard, which is safe at any point. A part that
//! ends by itself ends the process, loudly.

mod build;
mod log;
mod process;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use angarium_domain::chance::{Chance, SystemChance};
use angarium_domain::text::ChannelName;
use angarium_domain::time::{Clock, SystemClock};
use angarium_engine::clock::FollowingClock;
use angarium_engine::dispatcher::{Dispatcher, Parts, Settings};
use angarium_engine::nodes::{Node, Running};
use angarium_engine::render::Renderings;
use angarium_engine::wake::Wake;
use angarium_store::{Applied, Options, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::{Exit, Failure};
use crate::config::{Config, Loaded};
use crate::http;

pub use log::start_logging;

/// Why the server could not start, in words for whoever started it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address from the configuration.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A setting turned out wrong only when it was used.
    #[error("{0}")]
    Setting(String),
}

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether this start made the admin key.
    pub admin_key: http::AdminKey,
    store: Arc<Store>,
    node: Running,
    dispatcher: Dispatcher,
    health: http::Health,
    stop_http: watch::Sender<bool>,
    http: JoinHandle<usize>,
    /// Looks through the file after a crash; holds on to the database while it does.
    looking: JoinSet<()>,
    grace: Duration,
}

impl Server {
    /// Starts everything, in the order in which one part needs another.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        let address = config.server.listen;
        let listener =
            TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })?;
        let address = listener.local_addr().map_err(|error| StartError::Listen { address, error })?;
        let followed = Arc::new(FollowingClock::new(Arc::new(SystemClock::new())));
        let clock = Arc::clone(&followed) as Arc<dyn Clock>;
        let chance: Arc<dyn Chance> = Arc::new(SystemChance);
        let catalog = Arc::new(build::catalog(&config));
        let adapters = build::adapters(&config)?;
        let store = Arc::new(Store::open(&options(&config)).await?);
        let health = http::Health::default();
        let looking = look_through_after_a_crash(&store, &health);
        let node = Node::new(Arc::clone(&store), followed, build::node(&config, address));
        let mut node = node.remembering(config.outbox.ledger_retention);
        node.beat().await?;
        health.heed(node.vitals());
        // From the first heartbeat on the clock is the database's, by which keys end.
        let admin_key = admin_key(&config, &store, clock.as_ref(), chance.as_ref()).await?;
        give_channels_another_try(&store, clock.as_ref()).await?;
        let channels = Arc::new(catalog.facts());
        store.configure(Arc::clone(&channels));
        apply(&config, &store, clock.as_ref()).await?;
        store.learn_routes().await?;

        let metrics = http::Metrics::default();
        let observed = metrics.clone();
        let wake = Wake::default();
        let renderings = Arc::<Renderings>::default();
        let parts = Parts {
            store: Arc::clone(&store),
            catalog: Arc::clone(&catalog),
            adapters: adapters.clone(),
            clock: Arc::clone(&clock),
            chance: Arc::clone(&chance),
            renderings: Arc::clone(&renderings),
            default_locale: config.server.default_locale.clone(),
            vitals: node.vitals(),
            wake: wake.clone(),
            observer: Arc::new(move |kind, class| observed.attempt(kind, class)),
        };
        let dispatcher = Dispatcher::start(parts, settings(&config)).await?;
        let node = node.start();

        let app = http::App {
            store: Arc::clone(&store),
            channels,
            renderings,
            default_locale: config.server.default_locale.clone(),
            catalog,
            adapters,
            limits: config.limits.clone(),
            guard: config.security.guard(),
            clock,
            chance,
            wake,
            stuck_after: config.outbox.stuck_after,
            health: health.clone(),
            metrics,
            bounds: bounds(&config),
            keys: Arc::default(),
            tests: Arc::default(),
        };
        let (stop_http, mut stopped) = watch::channel(false);
        let until_stopped = async move { drop(stopped.wait_for(|stop| *stop).await) };
        let http = tokio::spawn(http::serve(listener, app, until_stopped));
        health.set_ready();
        let grace = config.server.shutdown_grace;
        Ok(Server { address, admin_key, store, node, dispatcher, health, stop_http, http, looking, grace })
    }

    /// Returns only if a part of the server ends by itself, and says which.
    pub async fn failed(&mut self) -> &'static str {
        tokio::select! {
            () = self.dispatcher.ended() => "the dispatcher",
            () = self.node.ended() => "the heartbeat",
            _ = &mut self.http => "the API",
            () = self.store.ended() => "the database's writer",
        }
    }

    /// Stops softly: finishes requests and deliveries, writes what is to be written, closes the database. Says
    /// whether everything ended within the grace.
    pub async fn stop(mut self) -> bool {
        self.health.set_stopping();
        self.looking.shutdown().await;
        let _it_ended_already = self.stop_http.send(true);
        let (settled, http) = tokio::join!(self.dispatcher.stop(self.grace), self.http);
        match http {
            Ok(0) => {}
            Ok(cut_off) => tracing::warn!(connections = cut_off, "requests were cut off"),
            Err(_) => tracing::error!("the API had panicked"),
        }
        self.node.stop().await;
        // Whatever still holds the database at this point only reads.
        match Arc::try_unwrap(self.store) {
            Ok(store) => {
                let _closing_cannot_fail = tokio::task::spawn_blocking(|| store.close()).await;
            }
            Err(_) => tracing::warn!(
                "the database is still read from and was not closed; it is durable all the same"
            ),
        }
        settled
    }
}

/// A start is what follows when somebody mended the configuration: what was suspended under the old one is tried
/// under this.
async fn give_channels_another_try(store: &Store, clock: &dyn Clock) -> Result<(), StoreError> {
    for state in store.channel_states().await? {
        let (Some(reason), Ok(name)) = (state.suspended, ChannelName::parse(&state.channel)) else {
            continue;
        };
        tracing::info!(channel.name = %name, channel.reason = reason, "a suspended channel is tried again after the start");
        store.reopen_channel(&name, clock.now()).await?;
    }
    Ok(())
}

/// Feeds, templates, lists and subscriptions of the file go into the store, where all nodes find them. A node that was left
/// with an older file than another changes nothing.
async fn apply(config: &Config, store: &Store, clock: &dyn Clock) -> Result<(), StoreError> {
    let declared = build::declared(config);
    let epoch = declared.epoch;
    let Applied { outdated, created, changed, retired, taken } =
        store.apply_declared(declared, clock.now()).await?;
    if outdated {
        tracing::warn!(
            config.epoch = epoch,
            "a newer configuration than this one was applied before: its feeds, templates, lists and subscriptions \
             stand; if this one is to count, raise server.config_epoch"
        );
        return Ok(());
    }
    tracing::info!(
        config.epoch = epoch,
        created,
        changed,
        retired,
        "feeds, templates, lists and subscriptions are as the configuration says"
    );
    if taken > 0 {
        tracing::warn!(
            taken,
            "some of what the configuration declares was made through the API under the same name, and stands as it was made there"
        );
    }
    Ok(())
}

fn bounds(config: &Config) -> http::Bounds {
    let default = http::Bounds::default();
    http::Bounds {
        header_timeout: config.server.header_timeout,
        body_timeout: config.server.body_timeout,
        shutdown_grace: config.server.shutdown_grace,
        max_connections: process::room_for_connections(
            default.max_connections,
            config.outbox.max_parallel_deliveries,
        ),
        ..default
    }
}

fn options(config: &Config) -> Options {
    Options { poll_only: config.outbox.poll_only, ..Options::at(config.server.database.clone()) }
}

fn settings(config: &Config) -> Settings {
    Settings {
        dispatch_interval: config.outbox.dispatch_interval,
        max_parallel_deliveries: config.outbox.max_parallel_deliveries,
        lease: config.outbox.lease,
        node: build::node_name(config),
    }
}

async fn admin_key(
    config: &Config,
    store: &Store,
    clock: &dyn Clock,
    chance: &dyn Chance,
) -> Result<http::AdminKey, StartError> {
    let given = match std::env::var("ANGARIUM_ADMIN_KEY") {
        Ok(given) => Some(given),
        Err(std::env::VarError::NotPresent) => None,
        Err(std::env::VarError::NotUnicode(_)) => {
            return Err(StartError::Setting("ANGARIUM_ADMIN_KEY is not UTF-8".to_owned()));
        }
    };
    let file = config.server.admin_key_file();
    http::ensure_admin_key(store, clock, chance, given, &file)
        .await
        .map_err(|error| StartError::Setting(error.to_string()))
}

/// After an unclean end the file is looked through, apart from all other work; damage makes the server unready.
fn look_through_after_a_crash(store: &Arc<Store>, health: &http::Health) -> JoinSet<()> {
    let mut looking = JoinSet::new();
    if store.closed_before() {
        return looking;
    }
    tracing::info!("the last process did not close the database; its file is being looked through");
    let (store, health) = (Arc::clone(store), health.clone());
    looking.spawn(async move {
        match store.quick_check().await {
            Ok(()) => tracing::info!("the database file is sound"),
            Err(error) => {
                tracing::error!(store.error = %error, "the database file is damaged; restore a backup");
                health.set_fault("database", Some("the database file is damaged".to_owned()));
            }
        }
    });
    looking
}

/// `angarium serve`: starts, says where it listens, and runs until it is told to stop.
pub fn run(loaded: Loaded) -> Result<ExitCode, Failure> {
    start_logging();
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("no_runtime", &format!("no threads to work with: {error}")))?;
    let ended = runtime.block_on(serve(loaded.config));
    // A name look-up that hangs must not hold up the end.
    runtime.shutdown_background();
    ended
}

async fn serve(config: Config) -> Result<ExitCode, Failure> {
    let _file_size = process::survive_file_size_limits();
    let mut signals = Signals::listen().map_err(|error| Failure::failed("no_signals", &error.to_string()))?;
    let key_file = config.server.admin_key_file();
    let mut server = tokio::select! {
        started = Server::start(config) => started.map_err(|error| match error {
            StartError::Setting(detail) => Failure::usage(&detail),
            other => Failure::failed("start_failed", &other.to_string()),
        })?,
        // Nothing has been promised yet; what was under way is a lease for the next start.
        () = signals.next() => return Ok(Exit::Fine.into()),
    };
    if server.admin_key == http::AdminKey::Made {
        say(&format!("the admin key stands in {}", key_file.display()));
    }
    say(&format!("listening on http://{}", server.address));
    let part = tokio::select! {
        part = server.failed() => part,
        () = signals.next() => {
            tracing::info!("stopping: what is in flight is finished first; a second signal stops at once");
            let settled = tokio::select! {
                settled = server.stop() => settled,
                () = signals.next() => false,
            };
            if !settled {
                tracing::warn!("stopped with deliveries in flight; the next start takes them back");
            }
            return Ok(Exit::Fine.into());
        }
    };
    tracing::error!("{part} ended by itself; the process ends, so that it is started afresh");
    Ok(Exit::Failed.into())
}

/// A line on standard output. That nobody reads it is no reason not to serve.
fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _nobody_reads_it = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The signals that ask the process to end.
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// The terminal was closed, or somebody hopes for a reload: there is none, so that a restart is the honest answer.
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
