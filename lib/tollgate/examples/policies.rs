//! Several policies in one gate, and a request that is charged to a user and to a team, or to
//! neither.
//!
//! `cargo run --example policies`.

use tollgate::{Error, Gate, JointDecision, ManualClock};

/// One store for all policies: they share its memory and its clock, never their counters.
struct Limits {
    users: Gate,
    teams: Gate,
    logins: Gate,
}

impl Limits {
    fn new() -> Result<Self, Error> {
        let gate = Gate::builder()
            .named("user", "4/min")
            .named("team", "6/min, 100/h")
            .named("login", "5/h")
            // Leave this out to decide by the process's own clock.
            .clock(ManualClock::default())
            .build()?;
        let named = |name| gate.policy(name).ok_or(Error::NoPolicy);
        Ok(Self { users: named("user")?, teams: named("team")?, logins: named("login")? })
    }

    /// A request costs its user one unit and its team one.
    fn request(&self, user: &str, team: &str) -> Result<JointDecision, Error> {
        Ok(self.users.check_all(&[self.users.ask(user), self.teams.ask(team)])?)
    }
}

fn main() -> Result<(), Error> {
    let limits = Limits::new()?;
    for user in ["alice", "alice", "alice", "alice", "alice", "bob", "bob", "bob"] {
        let answer = limits.request(user, "red")?;
        // In the order of the questions: the user's part, the team's part.
        let refused_by = match answer.decisions.iter().position(|decision| !decision.allowed) {
            Some(0) => "refused by user",
            Some(_) => "refused by team",
            None => "allowed",
        };
        let left = [limits.users.peek(user)?.remaining, limits.teams.peek("red")?.remaining];
        println!("{user:<5}  {refused_by:<15}  {} left to {user}, {} left to red", left[0], left[1]);
    }

    // Six requests were allowed. What the team refused was not charged to bob either.
    assert_eq!(limits.teams.peek("red")?.remaining, 0);
    assert_eq!(limits.users.peek("bob")?.remaining, 2);
    // The same key under another policy is another counter.
    assert_eq!(limits.logins.peek("alice")?.remaining, 5);
    Ok(())
}
