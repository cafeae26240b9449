//! The plot as a picture: a panel an algorithm, a bar a second, what was offered in pale behind what
//! was admitted. It brings its own background, for pages light and dark.

use crate::traffic::{BURST, BURSTS, Run, SECONDS, WORDS, every, offered};

/// Sizes in pixels.
const LEFT: usize = 56;
const RIGHT: usize = 16;
const TOP: usize = 64;
const BOTTOM: usize = 44;
/// A second, and the width that comes of it.
const STEP: usize = 5;
const WIDTH: usize = LEFT + SECONDS as usize * STEP + RIGHT;
const PANEL: usize = 52;
/// From one panel to the next: its heading is between.
const PITCH: usize = 84;

const STYLE: &str = "\
    text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1f2328 }
    .policy { font-family: ui-monospace, monospace; font-weight: 600 }
    .faint { fill: #59636e }
    .page { fill: #ffffff }
    .line { stroke: #d1d9e0; stroke-width: 1 }
    .offered { fill: #d1d9e0 }
    .admitted { fill: #0969da }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 }
      .faint { fill: #9198a1 }
      .page { fill: #0d1117 }
      .line { stroke: #30363d }
      .offered { fill: #3d444d }
      .admitted { fill: #4493f8 }
    }";

pub(crate) fn plot(runs: &[Run]) -> String {
    let height = TOP + runs.len() * PITCH + BOTTOM - (PITCH - PANEL);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n\
         <title>What each algorithm admits of the same traffic</title>\n\
         <desc>Offered: {WORDS}.</desc>\n\
         <style>\n{STYLE}\n</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    svg += &legend();
    let offered = every(&offered(), 1);
    for (index, run) in runs.iter().enumerate() {
        svg += &panel(TOP + index * PITCH, run, &offered);
    }
    svg += &axes(height);
    svg + "</svg>\n"
}

fn legend() -> String {
    let mut legend = text(LEFT, 20, "", "start", &format!("Offered: {WORDS}"));
    for (x, class, word) in [(WIDTH - RIGHT - 140, "offered", "offered"), (WIDTH - RIGHT - 70, "admitted", "admitted")]
    {
        legend += &format!("<rect class=\"{class}\" x=\"{x}\" y=\"11\" width=\"10\" height=\"10\"/>\n");
        legend += &text(x + 15, 20, "", "start", word);
    }
    legend
}

fn panel(top: usize, run: &Run, offered: &[usize]) -> String {
    let bottom = top + PANEL;
    let mut panel = text(LEFT, top - 8, "policy", "start", &run.policy.to_string());
    let most = format!("{} in all, {} in the fullest minute", run.total(), run.in_fullest_minute());
    panel += &text(WIDTH - RIGHT, top - 8, "faint", "end", &most);
    for count in [0, 10, 50, BURST] {
        let y = bottom - bar_height(count);
        panel += &format!("<line class=\"line\" x1=\"{LEFT}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\"/>\n", WIDTH - RIGHT);
        panel += &text(LEFT - 6, y + 4, "faint", "end", &count.to_string());
    }
    panel += &bars(bottom, "offered", offered);
    panel += &bars(bottom, "admitted", &run.every(1));
    // Beside the bars of the two bursts, on the sides where nothing is in the way.
    let [first, second] = BURSTS;
    panel += &text(x_of(first) - 5, top + 12, "", "end", &run.in_second(first).to_string());
    panel += &text(x_of(second + 1) + 5, top + 12, "", "start", &run.in_second(second).to_string());
    panel
}

/// One path for all bars of a panel, each a second wide less a gap.
fn bars(bottom: usize, class: &str, counts: &[usize]) -> String {
    let mut path = String::new();
    for (second, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (x, height) = (x_of(second as u64), bar_height(*count));
        path += &format!("M{x} {bottom}v-{height}h{}v{height}z", STEP - 1);
    }
    format!("<path class=\"{class}\" d=\"{path}\"/>\n")
}

fn axes(height: usize) -> String {
    let (last, middle) = (height - BOTTOM, (LEFT + WIDTH - RIGHT) / 2);
    let mut axes = String::new();
    for second in (0..=SECONDS).step_by(30) {
        axes += &text(x_of(second), last + 16, "faint", "middle", &second.to_string());
    }
    axes += &text(middle, last + 34, "", "middle", "seconds");
    let (x, y) = (14, (TOP + last) / 2);
    axes + &format!(
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">\
         requests a second (square-root scale)</text>\n"
    )
}

/// Square roots, so that both one request and a hundred can be seen.
fn bar_height(count: usize) -> usize {
    (PANEL as f64 * (count as f64 / BURST as f64).sqrt()).round() as usize
}

fn x_of(second: u64) -> usize {
    LEFT + second as usize * STEP
}

fn text(x: usize, y: usize, class: &str, anchor: &str, words: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{words}</text>\n")
}
