//! How things stand, and how that looks: pure functions of a snapshot.

use angarium_domain::state::Status;

use crate::http::dto::Kpi;

/// The most marks of a bar.
const BAR: usize = 16;

/// How many notifications are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) pending: usize,
    pub(super) retrying: usize,
    pub(super) delivered: usize,
    pub(super) parked: usize,
    pub(super) discarded: usize,
}

impl Counts {
    /// Counts. What is skipped, which nothing here leads to, is missing from the total and so found out.
    pub(super) fn of(statuses: impl Iterator<Item = Status>) -> Counts {
        let mut counts = Counts::default();
        for status in statuses {
            match status {
                Status::Pending => counts.pending += 1,
                Status::Retrying => counts.retrying += 1,
                Status::Delivered => counts.delivered += 1,
                Status::Parked => counts.parked += 1,
                Status::Discarded => counts.discarded += 1,
                Status::Skipped => {}
            }
        }
        counts
    }

    /// What waits for a try or another one.
    fn open(&self) -> usize {
        self.pending + self.retrying
    }

    /// Each state's mark, name and count, in the order in which a bar shows them.
    fn parts(&self) -> [(char, &'static str, usize); 5] {
        [
            ('#', "delivered", self.delivered),
            ('-', "discarded", self.discarded),
            ('x', "parked", self.parked),
            ('~', "retrying", self.retrying),
            ('.', "pending", self.pending),
        ]
    }

    fn total(&self) -> usize {
        self.parts().iter().map(|(_, _, count)| count).sum()
    }
}

/// The notifications to one receiver, or to lists.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) counts: Counts,
}

/// How things stand at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) groups: Vec<Group>,
    pub(super) figures: Kpi,
}

impl Snapshot {
    /// Whether `total` notifications are there and none of them waits or is being tried.
    pub(super) fn is_settled(&self, total: usize) -> bool {
        let there: usize = self.groups.iter().map(|group| group.counts.total()).sum();
        there == total && self.open().is_empty()
    }

    /// The groups in which something waits, each with how much.
    pub(super) fn open(&self) -> Vec<(&'static str, usize)> {
        let open = self.groups.iter().map(|group| (group.name, group.counts.open()));
        open.filter(|(_, count)| *count > 0).collect()
    }
}

/// The picture for a terminal: always as many lines, none longer than 79 characters.
pub(super) fn lines(now: &Snapshot) -> Vec<String> {
    let row = |name: &str, bar: &str, cells: [&str; 5]| {
        let [pending, retrying, delivered, parked, discarded] = cells;
        format!(
            "  {name:<8} {bar:<BAR$} {pending:>8} {retrying:>9} {delivered:>10} {parked:>7} {discarded:>10}"
        )
    };
    let mut lines = vec![row("", "", ["pending", "retrying", "delivered", "parked", "discarded"])];
    for Group { name, counts } in &now.groups {
        let Counts { pending, retrying, delivered, parked, discarded } = counts;
        let cells = [pending, retrying, delivered, parked, discarded].map(ToString::to_string);
        lines.push(row(name, &bar(counts, BAR), cells.each_ref().map(String::as_str)));
    }
    let figures = &now.figures;
    lines.push(format!(
        "  queue {}, being tried {}, parked {}, delivered in the last minute {}",
        figures.queue_depth, figures.in_flight, figures.parked_count, figures.delivered_last_interval
    ));
    lines
}

/// The picture in one line, for where nothing can be redrawn; empty as long as there is nothing.
pub(super) fn line(now: &Snapshot) -> String {
    let there = now.groups.iter().filter(|group| group.counts.total() > 0);
    there.map(|Group { name, counts }| format!("  {name} {}", bar(counts, BAR))).collect()
}

/// What the marks of a bar mean.
pub(super) fn marks() -> String {
    let parts = Counts::default().parts();
    format!("  {}", parts.map(|(mark, name, _)| format!("{mark} {name}")).join("   "))
}

/// One mark for each notification, or, where they are more than `most`, each state's share of `most` marks.
fn bar(counts: &Counts, most: usize) -> String {
    let total = counts.total();
    let shown = total.min(most);
    let mark = |n: usize| {
        let mut before = 0;
        let part = counts.parts().into_iter().find(|(_, _, count)| {
            before += count;
            n < before
        });
        part.map(|(mark, _, _)| mark)
    };
    (0..shown).filter_map(|i| mark(i * total / shown)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn counts(numbers: [usize; 5]) -> Counts {
        let [pending, retrying, delivered, parked, discarded] = numbers;
        Counts { pending, retrying, delivered, parked, discarded }
    }

    #[test]
    fn a_bar_has_a_mark_for_each_or_its_share() {
        assert_eq!(bar(&counts([0; 5]), 8), "");
        assert_eq!(bar(&counts([2, 1, 3, 1, 1]), 8), "###-x~..");
        assert_eq!(bar(&counts([200, 0, 200, 0, 0]), 8), "####....");
        assert_eq!(bar(&counts([0, 0, usize::MAX / 100, 0, 0]), 8), "########");
    }

    #[test]
    fn a_bar_is_never_wider_than_it_may_be() {
        for n in 0..100 {
            let bar = bar(&counts([n, n / 2, n * 7, 1, 3]), BAR);
            assert!(bar.len() <= BAR && bar.starts_with('#') == (n > 0), "{n}: {bar}");
        }
    }

    #[test]
    fn counting_leaves_nothing_out_but_what_is_skipped() {
        assert_eq!(Counts::of(Status::ALL.into_iter()), counts([1; 5]));
    }

    /// Groups with so many that are pending, retrying, delivered, parked and discarded.
    pub(in crate::demo) fn snapshot(of: &[[usize; 5]]) -> Snapshot {
        let figures = Kpi {
            queue_depth: 1,
            stuck_count: 0,
            parked_count: 2,
            delivered_last_interval: 3,
            oldest_pending_age_seconds: None,
            in_flight: 4,
        };
        let groups = of.iter().map(|numbers| Group { name: "refuses", counts: counts(*numbers) });
        Snapshot { groups: groups.collect(), figures }
    }

    #[test]
    fn columns_stand_under_each_other_and_fit_a_terminal() {
        let lines = lines(&snapshot(&[[1, 2, 3, 4, 5], [1000, 1000, 1000, 1000, 1000], [0; 5]]));
        let (table, figures) = lines.split_at(4);
        assert_eq!(
            table,
            [
                "                             pending  retrying  delivered  parked  discarded",
                "  refuses  ###-----xxxx~~.         1         2          3       4          5",
                "  refuses  ####---xxx~~~...     1000      1000       1000    1000       1000",
                "  refuses                          0         0          0       0          0",
            ]
        );
        assert_eq!(figures, ["  queue 1, being tried 4, parked 2, delivered in the last minute 3"]);
        assert!(lines.iter().all(|line| line.chars().count() <= 79));
    }

    #[test]
    fn in_one_line_only_what_there_is() {
        assert_eq!(line(&snapshot(&[[0; 5], [0, 1, 2, 0, 0]])), "  refuses ##~");
        assert_eq!(line(&snapshot(&[[1, 0, 0, 0, 0], [0, 0, 0, 1, 1]])), "  refuses .  refuses -x");
        assert_eq!(line(&snapshot(&[[0; 5]])), "");
    }

    #[test]
    fn settled_is_when_all_are_there_and_none_waits() {
        assert!(snapshot(&[[0, 0, 2, 1, 0]]).is_settled(3));
        assert!(!snapshot(&[[0, 0, 2, 0, 0]]).is_settled(3));
        assert!(!snapshot(&[[1, 0, 2, 0, 0]]).is_settled(3));
        assert!(!snapshot(&[[0, 1, 2, 0, 0]]).is_settled(3));
        assert_eq!(snapshot(&[[0, 0, 1, 0, 0], [1, 1, 0, 0, 0]]).open(), [("refuses", 2)]);
    }
}
