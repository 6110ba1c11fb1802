//! What was done, what went wrong on purpose, and what must be zero.

use core::fmt;
use core::iter::Sum;
use core::ops::AddAssign;

use comfy_table::{CellAlignment, Table, presets};

macro_rules! books {
    ($($(#[doc = $doc:literal])+ $field:ident: $name:literal, $kind:ident;)+) => {
        /// The sums of a run, or of one ring of it.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Books {
            /// How long the run took.
            pub(crate) seconds: f64,
            $($(#[doc = $doc])+ pub(crate) $field: u64,)+
        }

        impl AddAssign for Books {
            fn add_assign(&mut self, other: Books) {
                self.seconds += other.seconds;
                $(self.$field += other.$field;)+
            }
        }

        impl Books {
            /// Every number: its name in words, its name in JSON, whether it
            /// must be zero, and itself.
            fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, bool, u64)> {
                [$(($name, stringify!($field), books!(@ $kind), self.$field)),+].into_iter()
            }
        }
    };
    (@ sum) => { false };
    (@ zero) => { true };
}

books! {
    /// Rings that were made and closed.
    rings: "rings", sum;
    /// Rings that failed.
    failed_rings: "rings that failed", sum;
    /// Rings whose numbers crossed 2^32 or 2^64.
    wraps: "rings whose numbers wrapped", sum;
    /// Operations staged.
    staged: "operations staged", sum;
    /// Operations known to have succeeded.
    confirmed: "confirmed", sum;
    /// Operations that failed.
    failed: "failed", sum;
    /// Operations in flight when their ring failed.
    unknown: "unknown", sum;
    /// Operations that were never posted.
    unposted: "never posted", sum;
    /// Doorbells rung.
    doorbells: "doorbells", sum;
    /// Posts refused, in part or as a whole.
    refusals: "posts refused", sum;
    /// Posts that failed without a word on how much was taken.
    unknown_posts: "posts of unknown extent", sum;
    /// Completions held back.
    delayed: "completions held back", sum;
    /// Completions that belonged to no request, dropped.
    stale: "stale completions dropped", sum;
    /// Devices that died.
    device_faults: "devices that died", sum;
    /// Words that the reader loaded.
    reads: "words read meanwhile", sum;
    /// Operations whose context never came back, less those that came twice.
    open: "contexts not given back", zero;
    /// Contexts that came back twice, changed, or from nowhere.
    foreign: "contexts given back wrongly", zero;
    /// Slots of send queues that are still taken.
    slots: "slots not given back", zero;
    /// Requests posted and in no count of the provider's.
    unbooked: "requests posted and not taken", zero;
    /// Requests posted while they were in flight.
    duplicates: "requests posted twice", zero;
    /// Words that were not whole when they were read.
    torn: "torn words", zero;
    /// Words that are not what the ring's outcomes say.
    wrong: "words that are not what was confirmed", zero;
    /// Rings that gave nothing back within their time, or refused what they must
    /// take.
    stuck: "rings that got stuck", zero;
}

impl Books {
    /// Whether all that must be zero is, and there was work to say so of.
    pub(crate) fn balances(&self) -> bool {
        let balanced = self.rows().all(|(_, _, zero, number)| !zero || number == 0);
        balanced && self.confirmed > 0 && self.wraps > 0
    }

    pub(crate) fn to_json(self) -> String {
        let mut object: serde_json::Map<String, serde_json::Value> =
            self.rows().map(|(_, name, _, number)| (name.into(), number.into())).collect();
        object.insert("seconds".into(), self.seconds.into());
        object.insert("balanced".into(), self.balances().into());
        serde_json::Value::Object(object).to_string()
    }
}

impl Sum for Books {
    fn sum<I: Iterator<Item = Books>>(all: I) -> Books {
        all.fold(Books::default(), |mut sum, books| {
            sum += books;
            sum
        })
    }
}

impl fmt::Display for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
        table.add_row(["seconds".to_owned(), format!("{:.1}", self.seconds)]);
        for (name, _, zero, number) in self.rows() {
            let remark = match (zero, number) {
                (true, 0) => " (balanced)",
                (true, _) => " (must be 0)",
                _ => "",
            };
            table.add_row([format!("{name}{remark}"), number.to_string()]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")
    }
}
