//! What was measured: a table for people, an object for programs.

use std::fmt;

/// Rows under one heading.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    name: &'static str,
    about: String,
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
    /// Sentences below the rows.
    notes: Vec<String>,
}

/// What stands in a place.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// A number, and how many decimals of it are told.
    Number(f64, usize),
    Met(bool),
    Nothing,
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    pub(crate) fn number(number: f64, decimals: usize) -> Self {
        Self::Number(number, decimals)
    }

    pub(crate) fn maybe(number: Option<f64>, decimals: usize) -> Self {
        number.map_or(Self::Nothing, |number| Self::Number(number, decimals))
    }

    pub(crate) fn met(met: Option<bool>) -> Self {
        met.map_or(Self::Nothing, Self::Met)
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number, decimals) => format!("{number:.decimals$}"),
            Self::Met(met) => if *met { "yes" } else { "no" }.to_owned(),
            Self::Nothing => String::new(),
        }
    }

    fn json(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number, decimals) if number.is_finite() => format!("{number:.decimals$}"),
            Self::Met(met) => met.to_string(),
            Self::Number(..) | Self::Nothing => "null".to_owned(),
        }
    }
}

impl Table {
    pub(crate) fn new(name: &'static str, about: &str, columns: &'static [&'static str]) -> Self {
        Self { name, about: about.to_owned(), columns, rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }

    pub(crate) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn json(&self) -> String {
        let row = |row: &Vec<Value>| {
            let fields = self.columns.iter().zip(row);
            let fields: Vec<String> =
                fields.map(|(name, value)| format!("{}: {}", quoted(name), value.json())).collect();
            format!("    {{{}}}", fields.join(", "))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        let notes: Vec<String> = self.notes.iter().map(|note| quoted(note)).collect();
        let (name, about) = (quoted(self.name), quoted(&self.about));
        format!(
            "  {name}: {{\"about\": {about}, \"notes\": [{}], \"rows\": [\n{}\n  ]}}",
            notes.join(", "),
            rows.join(",\n")
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}: {}", self.name, self.about)?;
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Value::shown).collect()).collect();
        let width = |(place, name): (usize, &&str)| {
            let longest = rows.iter().filter_map(|row| row.get(place)).map(String::len).max();
            longest.unwrap_or_default().max(name.len())
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let heading = self.columns.iter().map(|&name| name.to_owned()).collect();
        for row in std::iter::once(&heading).chain(&rows) {
            let places = row.iter().zip(&widths).enumerate();
            let places: Vec<String> = places
                .map(
                    |(place, (text, &width))| {
                        if place == 0 { format!("{text:<width$}") } else { format!("{text:>width$}") }
                    },
                )
                .collect();
            writeln!(f, "  {}", places.join("  ").trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))
    }
}

/// All tables as one object.
pub(crate) fn json(tables: &[Table]) -> String {
    let tables: Vec<String> = tables.iter().map(Table::json).collect();
    format!("{{\n{}\n}}", tables.join(",\n"))
}

/// Names and notes are plain words, so quotes are all there is to be marked.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
