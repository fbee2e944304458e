//! What `MAIL` and `RCPT` say.

/// An address of the envelope, as the client wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mailbox {
    /// What stood between the angle brackets; empty for the null sender.
    pub address: String,
    /// What followed, such as `BODY=8BITMIME`, word by word.
    pub parameters: Vec<String>,
}

/// The parameters of `MAIL` and the EHLO keyword that allows each.
pub(super) const OF_MAIL: &[(&str, &str)] = &[
    ("SIZE", "SIZE"),
    ("BODY", "8BITMIME"),
    ("SMTPUTF8", "SMTPUTF8"),
    ("RET", "DSN"),
    ("ENVID", "DSN"),
    ("AUTH", "AUTH"),
];

/// The parameters of `RCPT` and the EHLO keyword that allows each.
pub(super) const OF_RCPT: &[(&str, &str)] = &[("NOTIFY", "DSN"), ("ORCPT", "DSN")];

impl Mailbox {
    /// Reads `FROM:<a@b> X=Y` after `MAIL` (or `TO:` after `RCPT`); the refusal when it is not that.
    pub(super) fn parse(argument: &str, label: &str) -> Result<Mailbox, String> {
        let malformed = || format!("501 5.5.4 Syntax: {label}<address>");
        let start = argument.get(..label.len()).filter(|start| start.eq_ignore_ascii_case(label));
        let path = &argument[start.ok_or_else(malformed)?.len()..];
        let path = path.strip_prefix('<').ok_or_else(malformed)?;
        let close = closing_bracket(path).ok_or_else(malformed)?;
        let (address, rest) = (&path[..close], &path[close + 1..]);
        if !rest.is_empty() && !rest.starts_with(' ') {
            return Err(malformed());
        }
        if address.contains([' ', '<']) || address.chars().any(char::is_control) {
            return Err("501 5.1.3 Bad address syntax".to_owned());
        }
        let parameters = rest.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Ok(Mailbox { address: address.to_owned(), parameters })
    }

    /// The refusal when there is a parameter that none of the `offered` keywords allows, or one twice.
    pub(super) fn allowed(&self, known: &[(&str, &str)], offered: &[String]) -> Result<(), String> {
        for (position, parameter) in self.parameters.iter().enumerate() {
            let name = name_of(parameter);
            if self.parameters[..position].iter().any(|earlier| name_of(earlier).eq_ignore_ascii_case(name)) {
                return Err(format!("501 5.5.4 Option given twice: {parameter}"));
            }
            let keyword = known.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            if !keyword.is_some_and(|(_, keyword)| offers(offered, keyword)) {
                return Err(format!("555 5.5.4 Unsupported option: {parameter}"));
            }
        }
        Ok(())
    }

    /// Whether this parameter is among those given.
    pub(super) fn has(&self, parameter: &str) -> bool {
        self.parameters.iter().any(|given| given.eq_ignore_ascii_case(parameter))
    }

    /// What `SIZE=` declares.
    pub(super) fn declared_size(&self) -> Option<usize> {
        let size = self.parameters.iter().find_map(|given| {
            given.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("SIZE")).map(|(_, size)| size)
        });
        // A number too large for us is certainly too large a mail.
        size.map(|size| size.parse().unwrap_or(usize::MAX))
    }
}

/// What stands before the equals sign of a parameter.
fn name_of(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// Whether the lines of an EHLO answer have this keyword.
pub(super) fn offers(lines: &[String], keyword: &str) -> bool {
    lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .any(|offered| offered.eq_ignore_ascii_case(keyword))
}

/// Where the address ends: a quoted local part may have a `>` of its own.
fn closing_bracket(path: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    path.char_indices().find_map(|(position, character)| {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(position),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(address: &str, parameters: &[&str]) -> Result<Mailbox, String> {
        let parameters = parameters.iter().map(|parameter| (*parameter).to_owned()).collect();
        Ok(Mailbox { address: address.to_owned(), parameters })
    }

    #[test]
    fn reads_addresses_and_parameters() {
        for (argument, expected) in [
            ("FROM:<>", mailbox("", &[])),
            ("from:<a@b> SIZE=1  BODY=8BITMIME", mailbox("a@b", &["SIZE=1", "BODY=8BITMIME"])),
            (r#"FROM:<"a>\"b"@c>"#, mailbox(r#""a>\"b"@c"#, &[])),
        ] {
            assert_eq!(Mailbox::parse(argument, "FROM:"), expected, "{argument}");
        }
    }

    #[test]
    fn refuses_what_is_not_an_address() {
        for argument in
            ["", "TO:<a@b>", "FROM:a@b", "FROM: <a@b>", "FROM:<a@b", "FROM:<a@b>X=1", "FRö", "FROM:<\"a>"]
        {
            assert_eq!(
                Mailbox::parse(argument, "FROM:"),
                Err("501 5.5.4 Syntax: FROM:<address>".to_owned()),
                "{argument}"
            );
        }
        for argument in ["FROM:<a b@c>", "FROM:<a\0@c>", "FROM:<<a@c>"] {
            let refusal = Mailbox::parse(argument, "FROM:");
            assert_eq!(refusal, Err("501 5.1.3 Bad address syntax".to_owned()), "{argument}");
        }
    }
}
