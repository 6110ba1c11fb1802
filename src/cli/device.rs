//! What a job ran on, as reports tell of it.

use serde::Serialize;

use crate::cli::soft::Engine;

/// The software device with one of its engines, or a connection over a fabric.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RanOn {
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<Engine>,
    /// "native" or "fallback".
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'static str>,
    /// "native" or "emulated", where something was flushed over a fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    flush: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// How many queue pairs, where that was a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    qps: Option<u32>,
}

impl RanOn {
    pub(super) fn soft(engine: Engine) -> Self {
        RanOn {
            device: "soft".into(),
            engine: Some(engine),
            path: None,
            flush: None,
            peer: None,
            qps: None,
        }
    }

    #[cfg(feature = "verbs")]
    pub(super) fn fabric(connection: &farword::verbs::Connection) -> Self {
        use farword::verbs::Path;
        let path = match connection.path() {
            Path::Native => "native",
            Path::PostSend | Path::WrCalls => "fallback",
        };
        let device = connection.device().name().to_string();
        let peer = connection.peer_address().map(|peer| peer.to_string());
        RanOn { device, engine: None, path: Some(path), flush: None, peer, qps: None }
    }

    /// With how the connection's ring flushes.
    #[cfg(feature = "verbs")]
    pub(super) fn with_flush(mut self, support: farword::FlushSupport) -> Self {
        self.flush = Some(match support {
            farword::FlushSupport::Native => "native",
            _ => "emulated",
        });
        self
    }

    #[cfg(feature = "verbs")]
    pub(super) fn with_qps(mut self, qps: u32) -> Self {
        self.qps = Some(qps);
        self
    }

    /// In one line.
    pub(super) fn title(&self) -> String {
        if let Some(engine) = self.engine {
            return format!("Software device, {engine} engine");
        }
        let peer = self.peer.as_deref().unwrap_or("a peer");
        let path = self.path.unwrap_or("unknown");
        let qps = match self.qps {
            None | Some(1) => String::new(),
            Some(qps) => format!(", {qps} queue pairs"),
        };
        let flush = match self.flush {
            None => String::new(),
            Some(flush) => format!(", {flush} flush"),
        };
        format!("{} to {peer}, {path} path{flush}{qps}", self.device)
    }

    /// Said under every table of figures that no network card had a part in.
    pub(super) fn caveat(&self) -> &'static str {
        match self.engine {
            Some(_) => {
                "Software-device numbers are not NIC numbers: they are what this processor \
                 spends\non staging, posting, carrying out and polling, with no network in \
                 between.\n"
            }
            None => "",
        }
    }
}
