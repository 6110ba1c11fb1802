//! How often things go wrong, from never to all the time.

use farword::fault::Rates;

/// The rates that users are given in turn.
pub(crate) const LEVELS: [Rates; 4] = [
    Rates::NONE,
    // Posts cut short and completions late, and nothing worse.
    Rates { refuse_per_1024: 64, delay_per_1024: 128, max_delay: 6, ..Rates::NONE },
    // Now and then a request fails, and the queue pair with it.
    Rates {
        refuse_per_1024: 16,
        error_per_1024: 1,
        unknown_per_1024: 1,
        delay_per_1024: 64,
        max_delay: 4,
        stale_per_1024: 16,
        ..Rates::NONE
    },
    Rates {
        refuse_per_1024: 256,
        error_per_1024: 8,
        unknown_per_1024: 8,
        delay_per_1024: 512,
        max_delay: 12,
        stale_per_1024: 128,
        device_fault_per_1024: 2,
    },
];
