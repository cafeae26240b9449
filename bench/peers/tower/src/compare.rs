//! The comparison: what is counted, what is measured, what it says of the targets.

use crate::args::Options;
use crate::{Failure, count, report, rounds, targets};

pub(crate) fn compare(options: &Options) -> Result<(), Failure> {
    if !options.json {
        report::head(options);
    }
    let counts = if options.instructions { count::all(options.quick)? } else { Vec::new() };
    if !options.json {
        report::counts(&counts);
    }
    let measured = if options.sockets { rounds::all(options)? } else { Vec::new() };
    let verdicts = targets::judge(&counts, &measured);
    if options.json {
        println!("{:#}", report::json(options, &counts, &measured, &verdicts));
    } else {
        report::measured(options, &measured);
        report::verdicts(&verdicts);
    }
    Ok(())
}
