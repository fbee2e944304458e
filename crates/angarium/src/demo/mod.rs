//! `angarium demo`: a newcomer's first minute. A server, its database, four receivers with their own moods and a
//! mail server, all on loopback, some sample traffic, a live picture of it, and at the end a reckoning: what the
//! receivers saw beside what must be.
//!
//! Nothing in it is pretended: the server is the one that `angarium serve` starts, configured by a file as
//! users write it, and everything goes over real sockets through the public API. With `--exit` it ends by
//! itself and its status is the verdict, so that it also tells whether a build works on a machine at all.
//!
//! Deliberately absent: settings of its own, and anything that stays. Its folder is removed at the end.

mod api;
mod cast;
mod mail;
mod outage;
mod picture;
mod screen;
mod stage;
#[cfg(test)]
mod tests;
mod traffic;
mod verdict;

use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use angarium_channels::webhook::SigningSecret;
use angarium_domain::chance::SystemChance;
use angarium_domain::state::Status;
use angarium_domain::text::one_line;
use angarium_domain::time::SystemClock;
use tokio::time::{Instant, interval, timeout_at};

use crate::cli::{Exit, Failure};
use crate::serve::{Server, Signals};
use api::{Api, Row};
use cast::Cast;
use outage::Outage;
use picture::Snapshot;
use screen::Screen;
use stage::Scratch;
use traffic::Traffic;
use verdict::{Check, Reckoning};

/// How long everything may take until it has come to its end.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at the server.
const LOOK: Duration = Duration::from_millis(200);
/// Between two notifications that are handed in one by one, so that the picture can be followed.
const PACE: Duration = Duration::from_millis(150);

/// Runs the demo. With `exit` it ends by itself, 0 only if everything came out as it must, else 1; without,
/// the server stays up until a signal.
pub fn run(exit: bool) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Runtime::new().map_err(|error| failed("no threads to work with", &error))?;
    runtime.block_on(perform(exit))
}

async fn perform(exit: bool) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed("no signals", &error))?;
    let cast = Cast::assemble().await.map_err(|error| failed("no receivers", &error))?;
    let scratch = Scratch::make(&SystemChance).map_err(|error| failed("no scratch folder", &error))?;
    let secret = stage::make_secret(&SystemChance);
    let text = stage::configuration(&cast.members(), &cast.subscribers(), &cast.mail.url());
    let config = scratch.configure(&text, &secret)?;
    scratch.start_logging().map_err(|error| failed("no log file", &error))?;
    let key_file = config.server.admin_key_file();
    let mut server =
        Server::start(config).await.map_err(|error| failed("the server cannot start", &error))?;

    let mut play = Play {
        api: Api::new(server.address, &key_file)?,
        secret: secret.parse().map_err(|error| failed("the signing secret", &error))?,
        traffic: Traffic::plan(&cast, &SystemClock::new(), &SystemChance),
        cast,
        screen: Screen::stdout(),
        deadline: Instant::now() + LIMIT,
        known_again: false,
        outage: Outage::default(),
    };
    play.screen.lines(&stage::introduction(&scratch, server.address, &text));
    let ended = tokio::select! {
        fine = play.all_acts() => fine.map(Some),
        part = server.failed() => return Err(failed(part, &"ended by itself")),
        () = signals.next() => Ok(None),
    };
    if let Ok(Some(_)) = ended
        && !exit
        && !play.screen.is_closed()
    {
        play.screen.lines(&stage::what_next(
            &scratch,
            server.address,
            &key_file,
            &play.traffic,
            &play.outage,
        ));
        tokio::select! {
            part = server.failed() => return Err(failed(part, &"ended by itself")),
            () = signals.next() => {}
        }
    }
    tokio::select! {
        _nothing_hangs_on_it = server.stop() => {}
        () = signals.next() => {}
    }
    if !matches!(ended, Ok(Some(true) | None)) {
        play.screen.lines(&scratch.end_of_log());
    }
    // Whoever asks for a verdict and then interrupts gets none.
    let fine = ended?.unwrap_or(!exit);
    play.screen.finish().map_err(|error| failed("the output cannot be written", &error))?;
    Ok(if fine { Exit::Fine } else { Exit::Failed }.into())
}

/// Everything that takes part.
struct Play {
    api: Api,
    secret: SigningSecret,
    traffic: Traffic,
    cast: Cast,
    screen: Screen,
    deadline: Instant,
    /// Whether the server knew the notification that was handed in twice.
    known_again: bool,
    /// What came of the events.
    outage: Outage,
}

impl Play {
    /// The whole of it. Says whether everything came out as it must.
    async fn all_acts(&mut self) -> Result<bool, Failure> {
        self.screen.lines(&self.cast.introduction());
        if self.everything_goes_out().await? {
            self.an_operator_acts().await?;
        }
        self.reckon().await
    }

    /// Hands everything in and watches until it has come to its end. Says whether it did so in time.
    async fn everything_goes_out(&mut self) -> Result<bool, Failure> {
        self.screen.lines(&self.traffic.introduction());
        self.screen.lines(&[picture::marks(), String::new()]);
        let Play { api, traffic, cast, screen, known_again, outage, .. } = self;
        let total = traffic.total() + outage::MUST.ids;
        let hand_in = hand_in(api, traffic, known_again, outage);
        let done = async { tokio::try_join!(hand_in, watch(api, cast, screen, total)) };
        match timeout_at(self.deadline, done).await {
            Ok(done) => done.map(|_| true),
            Err(_time_is_up) => Ok(false),
        }
    }

    /// Repairs a receiver for one of the parked notifications and retries it, discards another, and shows the
    /// end of both trails.
    async fn an_operator_acts(&mut self) -> Result<(), Failure> {
        let (retried, discarded) = (&self.traffic.retried, &self.traffic.discarded);
        self.cast.repair(retried);
        self.screen.line("");
        self.screen
            .line("An operator's turn: the receiver \"refuses\" is repaired for one of what it refused.");
        let turns = [
            (retried, "retry", "the receiver was repaired"),
            (discarded, "discard", "nobody waits for it any more"),
        ];
        for (letter, action, reason) in turns {
            self.api.act(&letter.id, action, reason).await?;
            let settled = timeout_at(self.deadline, until_settled(&self.api, &letter.id)).await;
            settled.unwrap_or(Ok(()))?;
            self.screen.line(&format!("  {action} {}", letter.id));
            for line in verdict::trail_end(&self.api.trail(&letter.id).await?) {
                self.screen.line(&format!("    {line}"));
            }
        }
        Ok(())
    }

    /// Lays what was seen beside what must be.
    async fn reckon(&mut self) -> Result<bool, Failure> {
        let rows = self.api.everything().await?;
        let open = snapshot(&self.api, &self.cast, &rows).await?;
        let checks = self.checks(&rows);
        let reckoning = Reckoning { lines: self.cast.reckoned(&open), checks, open };
        self.screen.line("");
        self.screen.lines(&verdict::table(&reckoning.lines));
        self.screen.line("");
        self.screen.lines(&verdict::checked(&reckoning.checks));
        let differences = verdict::differences(&reckoning);
        self.screen.line("");
        self.screen.lines(&verdict::in_words(&differences));
        Ok(differences.is_empty())
    }

    /// What the table does not show.
    fn checks(&self, rows: &[Row]) -> Vec<Check> {
        let row = |id: &str| rows.iter().find(|row| row.id == id);
        let status = |id: &str| row(id).map_or("missing", |row| row.status.as_str());
        let traffic = &self.traffic;
        let (signed, requests) = self.cast.signed(&self.secret);
        let error = |id: &str| {
            let last = row(id).and_then(|row| row.last_error.as_ref());
            last.map_or("no error", |error| error.detail.as_str())
        };
        let (nobody, duty) = (error(&traffic.nobody.id), error(&traffic.duty.id));
        let (retried, discarded) = (status(&traffic.retried.id), status(&traffic.discarded.id));
        let mut checks = vec![
            Check::new(
                "what was handed in twice was known the second time, and went out once",
                self.known_again,
                format_args!("duplicate: {}", self.known_again),
            ),
            Check::new(
                "every request carries a signature made with the channel's secret",
                signed == requests && requests > 0,
                format_args!("{signed} of {requests}"),
            ),
            Check::new(
                "a list that nobody configured is parked, not lost",
                nobody.contains("list not found"),
                one_line(nobody, 40),
            ),
            Check::new(
                "what the operator retried is delivered",
                retried == Status::Delivered.as_str(),
                retried,
            ),
            Check::new(
                "what the operator discarded is discarded",
                discarded == Status::Discarded.as_str(),
                discarded,
            ),
        ];
        checks.extend(self.outage.checks(self.cast.told_of_the_outage()));
        checks.extend(self.cast.mail.seen().checks(&traffic.duty.id, duty));
        checks
    }
}

/// Hands everything in: a batch and an event, then one after the other, the first of them twice, and at the end the event
/// that nobody is told of. Notes whether the server knew the first of them the second time, and what came of the events.
async fn hand_in(
    api: &Api,
    traffic: &Traffic,
    known_again: &mut bool,
    outage: &mut Outage,
) -> Result<(), Failure> {
    api.send_batch(&traffic.batch).await?;
    outage.begins(api).await?;
    let mut pace = interval(PACE);
    for (n, letter) in traffic.singles.iter().enumerate() {
        pace.tick().await;
        api.send(letter).await?;
        if n == 0 {
            *known_again = api.send(letter).await?.duplicate;
        }
    }
    outage.is_seen_again(api).await
}

/// Shows how things stand until `total` notifications are there and none of them is on its way.
async fn watch(api: &Api, cast: &Cast, screen: &mut Screen, total: usize) -> Result<(), Failure> {
    let mut look = interval(LOOK);
    loop {
        look.tick().await;
        let now = snapshot(api, cast, &api.everything().await?).await?;
        screen.show(&now);
        if now.is_settled(total) {
            return Ok(());
        }
    }
}

async fn until_settled(api: &Api, id: &str) -> Result<(), Failure> {
    let mut look = interval(LOOK);
    while !api.show(id).await?.status.is_terminal() {
        look.tick().await;
    }
    Ok(())
}

async fn snapshot(api: &Api, cast: &Cast, rows: &[Row]) -> Result<Snapshot, Failure> {
    Ok(Snapshot { groups: cast.grouped(rows), figures: api.kpis().await? })
}

fn failed(what: &str, error: &dyn Display) -> Failure {
    Failure::failed("demo_failed", &format!("{what}: {error}"))
}
