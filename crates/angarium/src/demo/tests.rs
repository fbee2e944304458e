//! The verdict, as whoever runs the demo meets it.

use std::collections::BTreeSet;
use std::sync::Arc;

use angarium_domain::chance::SeededChance;
use angarium_domain::state::Status;
use angarium_domain::time::SystemClock;
use angarium_receivers::mail::Mail;

use super::api::{Entry, EntryDetail, Row};
use super::cast::Cast;
use super::mail::tests::{DUTY_ID, ERROR, fine, mail};
use super::mail::{self, DIRECT, MAIL, MEMBERS, Seen};
use super::outage::{self, Outage};
use super::picture::tests::snapshot;
use super::picture::{self, Counts, Snapshot};
use super::stage;
use super::traffic::Traffic;
use super::verdict::{Check, Line, Reckoning, Tally, checked, differences, in_words, table, trail_end};
use crate::http::dto::To;

const FINE: Tally = Tally { requests: 27, ids: 9, effects: 9, delivered: 9, ..Tally::NOTHING };

fn line(seen: Tally) -> Line {
    Line { name: "flaky", must: FINE, seen }
}

fn reckoning(seen: Tally, held: bool, retrying: usize) -> Reckoning {
    Reckoning {
        lines: vec![line(seen)],
        checks: vec![Check::new("it is signed", held, "8 of\x1b[2J 9")],
        open: snapshot(&[[0, retrying, 9, 0, 0]]),
    }
}

#[test]
fn nothing_differs_if_all_is_as_it_must_be() {
    let none = differences(&reckoning(FINE, true, 0));
    assert_eq!(none, Vec::<String>::new());
    assert_eq!(in_words(&none), ["Everything came out as it must."]);
}

#[test]
fn whatever_differs_is_named() {
    let cases = [
        (Tally { requests: 28, ..FINE }, "flaky: requests 28, and it must be 27"),
        (Tally { ids: 8, ..FINE }, "flaky: ids 8, and it must be 9"),
        (Tally { effects: 10, ..FINE }, "flaky: effects 10, and it must be 9"),
        (Tally { duplicates: 1, ..FINE }, "flaky: duplicates 1, and it must be 0"),
        (Tally { delivered: 8, ..FINE }, "flaky: delivered 8, and it must be 9"),
        (Tally { parked: 1, ..FINE }, "flaky: parked 1, and it must be 0"),
        (Tally { discarded: 1, ..FINE }, "flaky: discarded 1, and it must be 0"),
    ];
    for (seen, difference) in cases {
        assert_eq!(differences(&reckoning(seen, true, 0)), [difference]);
    }
    assert_eq!(differences(&reckoning(FINE, true, 2)), ["refuses: 2 still on the way when the time was up"]);
    let unsigned = differences(&reckoning(FINE, false, 0));
    assert_eq!(unsigned, ["not so: it is signed (8 of [2J 9)"]);
    assert_eq!(in_words(&unsigned).len(), 2);
}

#[test]
fn the_table_stands_in_columns_and_points_at_what_differs() {
    let table = table(&[line(FINE), line(Tally { duplicates: 1, ..FINE })]);
    assert_eq!(
        table.get(..4).unwrap(),
        [
            "           what the receivers saw             what the server says",
            "           requests ids effects duplicates   delivered parked discarded",
            "  flaky          27   9       9          0           9      0         0",
            "  flaky          27   9       9          1           9      0         0  differs",
        ]
    );
}

#[test]
fn a_check_shows_nothing_that_a_terminal_would_obey() {
    assert_eq!(checked(&reckoning(FINE, true, 0).checks), ["  yes  it is signed (8 of [2J 9)"]);
    assert_eq!(checked(&reckoning(FINE, false, 0).checks), ["  NO   it is signed (8 of [2J 9)"]);
}

#[test]
fn a_trail_ends_with_what_an_operator_did_and_what_came_of_it() {
    let entry = |kind: &str, actor: &str, detail: EntryDetail| Entry {
        kind: kind.to_owned(),
        actor: actor.to_owned(),
        detail,
    };
    let some = |text: &str| Some(text.to_owned());
    let trail = [
        entry("accepted", "system", EntryDetail::default()),
        entry(
            "submitted",
            "key:admin",
            EntryDetail {
                action: some("retry"),
                status: some("pending"),
                reason: some("it\x1bworks"),
                ..EntryDetail::default()
            },
        ),
        entry("attempt", "system", EntryDetail::default()),
        entry(
            "terminal",
            "system",
            EntryDetail { status: some("delivered"), attempt: Some(2), ..EntryDetail::default() },
        ),
    ];
    assert_eq!(
        trail_end(&trail),
        [
            "submitted by key:admin  retry:  pending, \"it works\"",
            "terminal  by system     delivered by attempt 2"
        ]
    );
}

/// What differs if the mail server saw this, and the notifications it is about are all delivered.
fn of_mail(seen: &Seen, error: &str) -> Vec<String> {
    let counts = Counts { delivered: mail::MUST.delivered, ..Counts::default() };
    differences(&Reckoning {
        lines: vec![Line { name: MAIL, must: mail::MUST, seen: seen.tally(&counts) }],
        checks: seen.checks(DUTY_ID, error),
        open: snapshot(&[]),
    })
}

#[test]
fn mail_that_came_as_it_must_is_fine() {
    assert_eq!(of_mail(&fine(), ERROR), Vec::<String>::new());
}

/// Whatever is done to the mails, the verdict has these words for it.
#[test]
fn mail_that_did_not_come_as_it_must_fails_the_verdict() {
    type Change = fn(&mut Vec<Arc<Mail>>);
    let cases: [(&str, Change, &[&str]); 6] = [
        (
            "one person gets a mail twice",
            |mails| mails.push(mail("1", &[DIRECT[0]])),
            &[
                "mail: duplicates 1, and it must be 0",
                "not so: no mail came twice for anybody (7 pairs of mail and recipient, 6 different)",
            ],
        ),
        (
            "one person stands twice in an envelope",
            |mails| *mails.first_mut().unwrap() = mail("1", &[DIRECT[0], DIRECT[0]]),
            &["mail: duplicates 1, and it must be 0"],
        ),
        (
            "the busy one is never served",
            |mails| drop(mails.pop()),
            &[
                "mail: effects 5, and it must be 6",
                "not so: the busy mailbox was tried again alone until it took the mail (2 times alone, 0 taken)",
            ],
        ),
        (
            "the busy one is served together with another",
            |mails| *mails.last_mut().unwrap() = mail(DUTY_ID, &[MEMBERS[2], MEMBERS[3]]),
            &[
                "mail: duplicates 1, and it must be 0",
                "not so: the busy mailbox was tried again alone until it took the mail (2 times alone, 0 taken)",
            ],
        ),
        (
            "each member gets an envelope of its own",
            |mails| {
                mails.retain(|mail| mail.to().len() == 1);
                mails.extend([mail(DUTY_ID, &[MEMBERS[0]]), mail(DUTY_ID, &[MEMBERS[3]])]);
            },
            &[
                "not so: one envelope served all of the list who could be served at once (busy, then ada, then ben)",
            ],
        ),
        (
            "a header names a recipient",
            |mails| {
                let first = mails.first_mut().unwrap();
                let raw = [b"To: Ada <ADA@example.com>\r\n", first.raw.as_slice()].concat();
                *first = Arc::new(Mail { raw, ..Mail::clone(first) });
            },
            &["not so: no header tells who else gets the mail (1 of 5 name a recipient)"],
        ),
    ];
    for (case, change, words) in cases {
        let mut seen = fine();
        change(&mut seen.mails);
        let differences = of_mail(&seen, ERROR);
        for word in words {
            assert!(differences.iter().any(|difference| difference == word), "{case}: {differences:#?}");
        }
    }
}

#[test]
fn who_is_tried_again_and_who_is_named_decides_too() {
    let mut again_together = fine();
    again_together.envelopes.push(MEMBERS.map(str::to_owned).to_vec());
    let said = of_mail(&again_together, ERROR).join("\n");
    assert!(said.contains("not so: the busy mailbox was tried again alone"), "{said}");
    assert!(said.contains("not so: the mailbox that does not exist was tried once"), "{said}");
    assert!(said.contains("mail: requests 7, and it must be 6"), "{said}");
    for error in ["no error", "gone@example.com: no; busy@example.com: no"] {
        let [difference] = of_mail(&fine(), error).try_into().unwrap();
        assert!(difference.starts_with("not so: the mailbox that does not exist"), "{difference}");
    }
}

/// Every notification as it stands when nothing has been tried.
fn untried(traffic: &Traffic) -> Vec<Row> {
    let row = |letter: &super::traffic::Letter| {
        let to = letter.notification.to.clone();
        let duty = letter.id == traffic.duty.id;
        let channel = to.as_ref().map(|to| to.channel.clone()).or(duty.then(|| MAIL.to_owned()));
        let (id, status) = (letter.id.clone(), Status::Pending);
        Row { id, status, channel, to, event_id: None, last_error: None }
    };
    traffic.batch.iter().chain(&traffic.singles).map(row).collect()
}

/// What an event led to, for the subscriber with this address.
fn told(address: String) -> Row {
    let to = To { channel: stage::HOOKS.to_owned(), address };
    Row {
        id: to.address.clone(),
        status: Status::Pending,
        channel: Some(to.channel.clone()),
        to: Some(to),
        event_id: Some("e".to_owned()),
        last_error: None,
    }
}

#[tokio::test]
async fn everything_is_in_one_group_and_what_is_drawn_fits_a_hundred_columns() {
    let cast = Cast::assemble().await.unwrap();
    let traffic = Traffic::plan(&cast, &SystemClock::new(), &SeededChance::new(7));
    let mut rows = untried(&traffic);
    rows.extend(cast.subscribers().into_iter().map(told));
    let now = Snapshot { groups: cast.grouped(&rows), figures: snapshot(&[]).figures };
    let total = traffic.total() + outage::MUST.ids;
    assert_eq!(now.groups.iter().map(|group| group.counts.pending).sum::<usize>(), total);
    assert_eq!(rows.iter().map(|row| &row.id).collect::<BTreeSet<_>>().len(), total);
    let musts: usize = cast
        .reckoned(&now)
        .iter()
        .map(|line| line.must.delivered + line.must.parked + line.must.discarded)
        .sum();
    assert_eq!(musts, total, "what must come out accounts for all that is sent");

    let configuration = stage::configuration(&cast.members(), &cast.subscribers(), &cast.mail.url());
    let mut drawn: Vec<String> = configuration.lines().map(|line| format!("    {line}")).collect();
    drawn.extend(cast.introduction());
    drawn.extend(traffic.introduction());
    drawn.extend([picture::marks(), picture::line(&now)]);
    drawn.extend(picture::lines(&now));
    drawn.extend(table(&cast.reckoned(&now)));
    drawn.extend(checked(&fine().checks(DUTY_ID, ERROR)));
    drawn.extend(checked(&Outage::default().checks((3, 3))));
    for line in drawn {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
