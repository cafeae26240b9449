//! The choice of the chain of files that is the state: the newest, or, in a repair, the one that reaches furthest.

use crate::atomic_file::NewestNote;
use crate::chain::{Chain, Stop};
use crate::error::{Damage, JournalOpenError};
use crate::names;
use crate::snapshot::{self, SnapshotCheckError, SnapshotMeta};
use crate::survey::Survey;

/// The chosen chain, and the damage found while choosing it.
pub(crate) struct Choice {
    pub(crate) chain: Chain,
    pub(crate) damages: Vec<Damage>,
}

/// Chooses the chain; without a repair, damage is refused.
pub(crate) fn choose(survey: &Survey, repair: bool) -> Result<Choice, JournalOpenError> {
    if repair {
        let mut choice = furthest(survey)?;
        choice.damages.extend(note(survey, &choice.chain));
        return Ok(choice);
    }
    let chain = newest(survey)?;
    let damage = chain.stop.as_ref().filter(|stop| stop.proven).map(|stop| stop.damage(survey));
    match damage.or_else(|| note(survey, &chain)) {
        Some(damage) => Err(JournalOpenError::Damaged(damage)),
        None => Ok(Choice { chain, damages: Vec::new() }),
    }
}

/// Returns the damage of a note that is not what was written, or that is missing although records exist. Without it, it
/// is unknown whether newer journals were deleted.
fn note(survey: &Survey, chain: &Chain) -> Option<Damage> {
    // Starts that were interrupted one after the other leave journals without records, and no note.
    let begun = chain.base.is_some() || chain.files.iter().any(|file| file.records > 0);
    let what = match survey.note {
        NewestNote::Damaged => "expected the number of the newest journal, found another",
        NewestNote::Absent if begun => "expected this file, found none",
        NewestNote::Absent | NewestNote::Number(_) => return None,
    };
    Some(Damage { file: survey.dir.join(names::NEWEST), offset: 0, what: what.to_owned() })
}

fn newest(survey: &Survey) -> Result<Chain, JournalOpenError> {
    match (survey.snapshots.last(), survey.origins.last()) {
        (Some(&number), origin) if origin.is_none_or(|origin| *origin <= number) => {
            let about = check(survey, number)?.map_err(JournalOpenError::Damaged)?;
            Chain::from(survey, Some(about), number)
        }
        (_, Some(&origin)) => Chain::from(survey, None, origin),
        (_, None) => without_base(survey)?.map_err(JournalOpenError::Damaged),
    }
}

fn furthest(survey: &Survey) -> Result<Choice, JournalOpenError> {
    let mut damages = Vec::new();
    let mut best: Option<Chain> = None;
    for &number in survey.snapshots.iter().rev() {
        match check(survey, number)? {
            Ok(about) => further(&mut best, Chain::from(survey, Some(about), number)?),
            Err(damage) => damages.push(damage),
        }
    }
    for &origin in survey.origins.iter().rev() {
        further(&mut best, Chain::from(survey, None, origin)?);
    }
    let chain = match best {
        Some(chain) => chain,
        None => match without_base(survey)? {
            Ok(chain) => chain,
            Err(damage) => {
                let what = damage.what.clone();
                let first = survey.journals.first().copied().unwrap_or(survey.most());
                damages.push(damage);
                let stop = Stop { number: first, offset: 0, what, proven: true };
                Chain { seq: 1, stop: Some(stop), dropped: survey.journals.clone(), ..Chain::default() }
            }
        },
    };
    if let Some(stop) = chain.stop.as_ref().filter(|stop| stop.proven) {
        let damage = stop.damage(survey);
        if !damages.iter().any(|known| known.what == damage.what) {
            damages.push(damage);
        }
    }
    Ok(Choice { chain, damages })
}

/// Keeps the chain that reaches further; of two that reach equally far, the first.
fn further(best: &mut Option<Chain>, chain: Chain) {
    if best.as_ref().is_none_or(|best| chain.seq > best.seq) {
        *best = Some(chain);
    }
}

/// Returns the chain of a directory without a snapshot or an origin: new, or left by a first start that lost power, or
/// with deleted files.
fn without_base(survey: &Survey) -> Result<Result<Chain, Damage>, JournalOpenError> {
    let empty = Chain { seq: 1, ..Chain::default() };
    let Some(&first) = survey.journals.first() else {
        let what = "expected this file, found none".to_owned();
        return Ok(match (survey.snapshots.last(), survey.newest()) {
            // Only a repair reaches this with snapshots, all of which are damaged.
            (Some(_), _) | (None, 0) => Ok(empty),
            (None, number) => Err(Damage { file: survey.dir.join(names::journal(number)), offset: 0, what }),
        });
    };
    let scan = survey.scan(first)?;
    let torn = survey.snapshots.is_empty()
        && survey.journals.len() == 1
        && scan.header.is_none()
        && scan.synced.is_none()
        && survey.newest() < first;
    let what = scan.bad.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(if torn {
        let stop = Stop { number: first, offset: 0, what, proven: false };
        Ok(Chain { stop: Some(stop), dropped: survey.journals.clone(), ..empty })
    } else if scan.header.is_none() {
        Err(Damage { file: survey.dir.join(names::journal(first)), offset: 0, what })
    } else {
        let what = format!("expected this file, which {} follows, found none", names::journal(first));
        Err(Damage { file: survey.dir.join(names::snapshot(first)), offset: 0, what })
    })
}

fn check(survey: &Survey, number: u64) -> Result<Result<SnapshotMeta, Damage>, JournalOpenError> {
    let name = names::snapshot(number);
    let file = survey.open(&name)?;
    match snapshot::check(&file, number) {
        Ok(about) => Ok(Ok(about)),
        Err(SnapshotCheckError::Damaged { offset, what }) => {
            Ok(Err(Damage { file: survey.dir.join(name), offset, what }))
        }
        Err(SnapshotCheckError::Version(what)) => Err(JournalOpenError::Version { file: survey.dir.join(name), what }),
        Err(SnapshotCheckError::Disk(source)) => Err(survey.reading(&name, source)),
    }
}
