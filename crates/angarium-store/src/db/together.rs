//! Many items in a few statements; and if that fails, one by one, so that a bad one harms no other.

use std::future::Future;

use super::Tx;
use crate::error::{Result, StoreError};

/// What is done with items that have nothing to do with each other.
pub(crate) trait Together: Sync {
    type Item: Sync;
    type Output: Send;

    /// Does it for all of them: an answer for each, in order.
    fn all(
        &self,
        tx: &mut Tx<'_>,
        items: &[Self::Item],
    ) -> impl Future<Output = Result<Vec<Self::Output>>> + Send;

    /// The answer for one that the database refused, and nothing of which was written.
    fn refused(&self, item: &Self::Item, error: &StoreError) -> Self::Output;
}

/// Does it. Fails only when the database can be expected to take none of them.
pub(crate) async fn together<W: Together>(
    work: &W,
    tx: &mut Tx<'_>,
    items: &[W::Item],
) -> Result<Vec<W::Output>> {
    let cause = match attempt(work, tx, items).await? {
        Ok(done) => return Ok(done),
        Err(cause) => cause,
    };
    if let [item] = items {
        return Ok(vec![work.refused(item, &cause)]);
    }
    let mut answers = Vec::with_capacity(items.len());
    for item in items {
        match attempt(work, tx, std::slice::from_ref(item)).await? {
            Ok(done) => answers.extend(done),
            Err(error) => answers.push(work.refused(item, &error)),
        }
    }
    Ok(answers)
}

async fn attempt<W: Together>(
    work: &W,
    tx: &mut Tx<'_>,
    items: &[W::Item],
) -> Result<Result<Vec<W::Output>>> {
    tx.savepoint().await?;
    let done = work.all(tx, items).await;
    match tx.close_savepoint(done).await? {
        Err(error) if error.concerns_the_database() => Err(error),
        done => Ok(done),
    }
}
