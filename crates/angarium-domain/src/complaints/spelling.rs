//! Which known word a misspelt one was probably meant to be.

/// Words longer than this are nobody's misspelling.
const LONGEST: usize = 40;

/// The known word that `word` was probably meant to be.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.len() > LONGEST {
        return None;
    }
    let tolerance = if word.chars().count() < 4 { 1 } else { 2 };
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many insertions, deletions and replacements lie between two words (Levenshtein), row by row.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        let mut left = i + 1;
        for (to, pair) in b.iter().zip(above.windows(2)) {
            let [diagonal, up] = pair else { continue };
            left = (diagonal + usize::from(from != *to)).min(left + 1).min(up + 1);
            row.push(left);
        }
        above = row;
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("filter", "fliter", 2),
            ("feed", "fed", 1),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_word_is_proposed_and_no_far_one() {
        let known = ["filter", "feed", "cooldown"];
        assert_eq!(nearest("fliter", &known), Some("filter"));
        assert_eq!(nearest("fed", &known), Some("feed"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest(&"f".repeat(1_000_000), &known), None);
    }
}
