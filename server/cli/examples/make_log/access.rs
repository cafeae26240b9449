//! The example log: two hours of a small shop. People look around and buy, a monitor checks its
//! health, a partner delivers in bursts, a scraper walks the catalogue, and somebody tries
//! passwords. All addresses are from the ranges kept for documentation.

use crate::dice::Dice;

/// 2026-03-02T09:00:00Z, a Monday, in seconds since the day began.
const OPENS: u64 = 9 * 3_600;
const HOURS_2: u64 = 7_200;

/// A request on its way into the log.
struct Visit {
    second: u64,
    client: String,
    user: String,
    request: String,
    status: u16,
    size: u64,
    agent: &'static str,
}

/// The log, in the combined format.
pub(crate) fn log() -> String {
    let mut dice = Dice::new(0x70_116a7e);
    let mut visits = Vec::new();
    people(&mut dice, &mut visits);
    health_checks(&mut visits);
    partner(&mut dice, &mut visits);
    scraper(&mut dice, &mut visits);
    password_guesser(&mut dice, &mut visits);
    // Stable, so that requests of one second stay in the order they were made up in.
    visits.sort_by_key(|visit| visit.second);
    visits.iter().map(line).collect()
}

fn line(visit: &Visit) -> String {
    let at = OPENS + visit.second;
    format!(
        "{} - {} [02/Mar/2026:{:02}:{:02}:{:02} +0000] \"{} HTTP/1.1\" {} {} \"-\" \"{}\"\n",
        visit.client,
        visit.user,
        at / 3_600,
        at / 60 % 60,
        at % 60,
        visit.request,
        visit.status,
        visit.size,
        visit.agent,
    )
}

/// Two dozen people, each in a few sittings: a page every ten seconds or so, and sometimes an order.
fn people(dice: &mut Dice, visits: &mut Vec<Visit>) {
    const AGENTS: [&str; 3] = ["shop-app/3.2", "shop-app/3.1", "Mozilla/5.0 Gecko"];
    for person in 0..24 {
        let client = format!("198.51.100.{}", 20 + person);
        let agent = AGENTS[dice.below(3) as usize];
        for _ in 0..1 + dice.below(3) {
            let user = if dice.below(2) == 0 { format!("u{}", 1_000 + person) } else { "-".to_owned() };
            let mut second = dice.below(HOURS_2 - 600);
            for _ in 0..4 + dice.below(24) {
                let (request, status) = page(dice);
                let size = 400 + dice.below(9_000);
                let (client, user) = (client.clone(), user.clone());
                visits.push(Visit { second, client, user, request, status, size, agent });
                second += 1 + dice.below(20);
            }
        }
    }
}

fn page(dice: &mut Dice) -> (String, u16) {
    match dice.below(12) {
        0 => ("GET /".to_owned(), 200),
        1..=4 => (format!("GET /items?page={}", 1 + dice.below(9)), 200),
        5..=8 => (format!("GET /items/{}", 100 + dice.below(400)), if dice.below(40) == 0 { 404 } else { 200 }),
        9 => ("POST /cart".to_owned(), 201),
        10 => ("GET /cart".to_owned(), 200),
        _ => ("POST /orders".to_owned(), 201),
    }
}

fn health_checks(visits: &mut Vec<Visit>) {
    for second in (0..HOURS_2).step_by(30) {
        visits.push(Visit {
            second,
            client: "192.0.2.10".to_owned(),
            user: "-".to_owned(),
            request: "GET /health".to_owned(),
            status: 200,
            size: 2,
            agent: "monitor/1.4",
        });
    }
}

/// Every ten minutes, what has gathered since: about twenty deliveries within three seconds.
fn partner(dice: &mut Dice, visits: &mut Vec<Visit>) {
    for start in (240..HOURS_2).step_by(600) {
        for _ in 0..15 + dice.below(10) {
            visits.push(Visit {
                second: start + dice.below(3),
                client: "192.0.2.77".to_owned(),
                user: "partner".to_owned(),
                request: "POST /hooks/stock".to_owned(),
                status: 202,
                size: 0,
                agent: "stock-sync/2.0",
            });
        }
    }
}

/// From 09:41 on, the catalogue page by page, two or three a second for two and a half minutes.
fn scraper(dice: &mut Dice, visits: &mut Vec<Visit>) {
    let mut number = 1;
    for second in 2_460..2_610 {
        for _ in 0..2 + dice.below(2) {
            visits.push(Visit {
                second,
                client: "203.0.113.66".to_owned(),
                user: "-".to_owned(),
                request: format!("GET /items?page={number}"),
                status: if number < 200 { 200 } else { 404 },
                size: 2_000 + dice.below(4_000),
                agent: "fetcher/0.9",
            });
            number += 1;
        }
    }
}

/// From 10:20 on, a password every two or three seconds for fifteen minutes.
fn password_guesser(dice: &mut Dice, visits: &mut Vec<Visit>) {
    let mut second = 4_800;
    while second < 5_700 {
        visits.push(Visit {
            second,
            client: "203.0.113.9".to_owned(),
            user: "-".to_owned(),
            request: "POST /login".to_owned(),
            status: 401,
            size: 31,
            agent: "Mozilla/5.0",
        });
        second += 2 + dice.below(2);
    }
}
