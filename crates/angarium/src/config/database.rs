//! Where the server stores: a SQLite file, or a PostgreSQL server under its URL.
//!
//! The URL may hold a password. A reference in it (`${env:…}`) is resolved like every other, a password written out
//! counts as a secret in the file, and whoever only asks a server needs neither: where the admin key stands is told by
//! the URL's scheme alone.

use std::path::{Path, PathBuf};

use angarium_store::{Database, PostgresUrl};

use super::reader::{Field, Section};
use super::secret::expand;
use super::{Problem, read_text, settings, with_file};

/// Where the first start leaves the admin key if the database is no file: beside the configuration.
const KEY_FILE: &str = "angarium.admin-key";

/// The database that the file at `path` names, as [`Config::load`](super::Config::load) would read it; nothing else is
/// read, and no other secret need be there. Fails with every problem in what is needed here.
pub(super) fn load(path: Option<&Path>) -> Result<Database, Vec<Problem>> {
    let found = with_file(path, |text, source| {
        let in_table = |root: Section<'_, '_>| read(&root.section("server")?.field("database")?);
        let (database, _) = read_text(text, source, in_table)?;
        Ok(database.unwrap_or_else(|| settings::default_server(source.folder).database))
    })?;
    Ok(found.map_or_else(|| settings::default_server(Path::new("")).database, |(database, _)| database))
}

/// The database that a field names.
pub(super) fn read(field: &Field<'_, '_>) -> Option<Database> {
    let text = match field.is_text().is_some_and(PostgresUrl::is_meant) {
        true => field.url()?.0,
        false => field.text()?,
    };
    let database = match PostgresUrl::is_meant(&text) {
        true => postgres(field, &text).map(Database::Postgres),
        false => sqlite(&text).map(|path| Database::Sqlite(field.source().folder.join(path))),
    };
    database.map_err(|fault| field.problem(fault)).ok()
}

fn postgres(field: &Field<'_, '_>, text: &str) -> Result<PostgresUrl, String> {
    let url = PostgresUrl::parse(text)?;
    field.warn_of_exposure(field.is_text().is_some_and(holds_password));
    url.warnings().iter().for_each(|warning| field.warning(format_args!("means that {warning}")));
    Ok(url)
}

/// Whether a URL, as it is written, has a password in it that is no reference.
fn holds_password(written: &str) -> bool {
    let (before, after) = written.rsplit_once('@').unwrap_or(("", written));
    let user = before.split_once("://").map_or("", |(_, user)| user);
    let parameters = after.split_once('?').map_or("", |(_, parameters)| parameters);
    let mut parameters = parameters.split('&').filter_map(|parameter| parameter.split_once('='));
    let beside_user = user.split_once(':').map(|(_, password)| password);
    let password =
        beside_user.or_else(|| parameters.find(|(name, _)| *name == "password").map(|(_, value)| value));
    password.is_some_and(|password| !password.is_empty() && !password.contains("${"))
}

fn sqlite(text: &str) -> Result<&str, String> {
    let other = "must be \"sqlite:PATH\" or \"postgres://USER@HOST/DATABASE\"";
    let path = text.strip_prefix("sqlite:").ok_or(other)?;
    match path.strip_prefix("//").unwrap_or(path) {
        "" => Err("names no file after \"sqlite:\"".to_owned()),
        ":memory:" => Err("must be a file: what is only in memory is lost with the process".to_owned()),
        path => Ok(path),
    }
}

/// The file in which the first start leaves the admin key: a SQLite file's name with `.admin-key` after it, otherwise
/// [`KEY_FILE`] in the configuration's folder.
pub(super) fn admin_key_file(database: &Database, folder: &Path) -> PathBuf {
    match database {
        Database::Sqlite(file) => {
            let mut name = file.as_os_str().to_owned();
            name.push(".admin-key");
            name.into()
        }
        Database::Postgres(_) => folder.join(KEY_FILE),
    }
}

/// The same for whoever has none of the server's secrets: of a URL only the scheme is read, and what only the server
/// can resolve is taken for a URL.
pub(super) fn admin_key_file_of(field: &Field<'_, '_>) -> Option<PathBuf> {
    let folder = field.source().folder;
    let is_url = |written: &str| match written.starts_with("${") {
        true => expand(written, field.source()).map_or(true, |found| PostgresUrl::is_meant(&found.value)),
        false => PostgresUrl::is_meant(written),
    };
    if field.is_text().is_some_and(is_url) {
        return Some(folder.join(KEY_FILE));
    }
    read(field).map(|database| admin_key_file(&database, folder))
}
