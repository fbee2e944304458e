//! How many packages the lock file may hold: every one is somebody else's code that ships with ours.

use crate::failure::Failure;
use crate::repo;

/// The budget.
const PACKAGES: usize = 350;

pub(crate) fn run() -> Result<(), Failure> {
    let verdict = judge(&repo::read("Cargo.lock")?, PACKAGES)?;
    println!("{verdict}");
    Ok(())
}

fn judge(lock: &str, budget: usize) -> Result<String, Failure> {
    let count = lock.lines().filter(|line| *line == "[[package]]").count();
    let verdict = format!("Cargo.lock: {count} packages, the budget is {budget}");
    if count > budget { Err(Failure::Wrong(verdict)) } else { Ok(verdict) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[package]]\nname = \"a\"\n\n[[package]]\nname = \"b\"\n";

    #[test]
    fn a_lock_file_may_fill_its_budget_and_not_exceed_it() {
        assert!(judge(TWO, 2).unwrap().contains("2 packages"));
        assert!(matches!(judge(TWO, 1), Err(Failure::Wrong(verdict)) if verdict.contains("the budget is 1")));
    }
}
