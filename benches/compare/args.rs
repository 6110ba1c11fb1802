//! The command line.

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Table,
    Json,
    /// Hold instruction counts against the limits in the tree.
    Check,
    /// Write fresh limits.
    Limits,
    Sweep,
    /// This process runs under an instruction counter.
    Counted,
}

#[derive(Clone, Debug)]
pub(crate) struct Args {
    pub(crate) task: Task,
    pub(crate) json: bool,
    /// How often every row is timed.
    pub(crate) rounds: usize,
    /// Only these rows; empty for all.
    pub(crate) only: Vec<String>,
    /// Leave instruction counts out.
    pub(crate) no_count: bool,
    /// Where to draw the sweep.
    pub(crate) svg: Option<std::path::PathBuf>,
}

impl Args {
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Args, String> {
        let mut args = Args {
            task: Task::Table,
            json: false,
            rounds: 3,
            only: Vec::new(),
            no_count: false,
            svg: None,
        };
        let mut words = words.peekable();
        // Cargo says so; without it (`cargo test`) a short run is enough.
        let (mut is_bench, mut rounds) = (false, None);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--bench" => is_bench = true,
                "--json" => args.json = true,
                "--check" => args.task = Task::Check,
                "--limits" => args.task = Task::Limits,
                "--sweep" => args.task = Task::Sweep,
                "--counted" => args.task = Task::Counted,
                "--svg" => args.svg = Some(value()?.into()),
                "--no-count" => args.no_count = true,
                "--rounds" => {
                    let text = value()?;
                    let number = text.parse();
                    rounds = number.ok().filter(|rounds| *rounds > 0);
                    rounds.ok_or(format!("--rounds {text}: a number, at least 1"))?;
                }
                "--rows" => args.only = value()?.split(',').map(String::from).collect(),
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
        args.rounds = rounds.unwrap_or(if is_bench { 201 } else { args.rounds });
        if args.svg.is_some() && args.task != Task::Sweep {
            return Err("--svg goes with --sweep".into());
        }
        if args.json && args.task == Task::Table {
            args.task = Task::Json;
        }
        Ok(args)
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}
