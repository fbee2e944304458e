//! Every decision record can be found from the list of them.

use super::{File, Problem};

const FOLDER: &str = "docs/decisions/";
const LIST: &str = "docs/decisions/README.md";

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let list = files.iter().find(|file| file.path == LIST).map_or("", |file| &file.text);
    let records = files.iter().filter(|file| file.path.ends_with(".md") && file.path != LIST);
    records
        .filter_map(|file| Some((file, file.path.strip_prefix(FOLDER)?)))
        .filter(|(_, name)| !list.contains(&format!("({name})")))
        .map(|(file, _)| file.problem(1, format!("not linked from {LIST}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made_up::{file, lines};
    use super::*;

    #[test]
    fn a_record_that_is_not_linked_is_named() {
        let records = || vec![file("docs/decisions/0001-a.md", ""), file("docs/decisions/0002-b.md", "")];
        let mut files = records();
        files.push(file(LIST, "- [A](0001-a.md)\n"));
        assert_eq!(lines(&check(&files)), [format!("docs/decisions/0002-b.md:1: not linked from {LIST}")]);
        assert_eq!(check(&records()).len(), 2);
        assert_eq!(check(&[file("docs/other.md", "")]), []);
    }
}
